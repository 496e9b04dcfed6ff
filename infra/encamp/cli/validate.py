"""``encamp validate``: every problem of a job file at once."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import FORMAT
from encamp.cli.out import say, say_json
from encamp.errors import ExitCode, Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.cli.job_input import JobInput


@click.command(name="validate", cls=JobCommand)
@FORMAT
def command(job: JobInput, output: str) -> None:
    """List every problem of a job file, each with its line, what is allowed and the nearest right spelling.

    Exit code 0: the file is valid. 2: it is not.
    """
    problems, warnings = _examine(job)
    if output == "json":
        document = {"valid": not problems, "problems": _data(problems), "warnings": _data(warnings)}
        say_json(document)
    else:
        _print(job.source, problems, warnings)
    if problems:
        sys.exit(ExitCode.BAD_INPUT)


def _examine(given: JobInput) -> tuple[Sequence[Problem], Sequence[Problem]]:
    from encamp.plan.replicas import roles  # noqa: PLC0415 - help pages need no models

    try:
        job, problems, warnings = given.examine()
    except SpecError as error:
        return error.problems, ()
    if not problems:
        requests, cautions = roles(job)
        warnings += [Problem("trainingInput", None, None, message) for message in cautions]
        missing = given.missing_imports(job, requests)
        warnings += [Problem("encamp.packagePath", None, None, found.message, found.hint) for found in missing]
    return problems, warnings


def _data(problems: Sequence[Problem]) -> list[dict[str, object]]:
    keys = ("rule", "path", "line", "message", "hint")
    return [{key: asdict(problem)[key] for key in keys} for problem in problems]


def _print(source: str, problems: Sequence[Problem], warnings: Sequence[Problem]) -> None:
    for kind, found in (("error", problems), ("warning", warnings)):
        for problem in found:
            place = f"{source}:{problem.line}" if problem.line else source
            rule = f" [{problem.rule}]" if problem.rule else ""
            path = f" {problem.path}:" if problem.path else ""
            say(f"{place}: {kind}{rule}{path} {problem.message}")
            if problem.hint:
                say(f"    try: {problem.hint}")
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "valid"
    also = f", {len(warnings)} warning{'s' * (len(warnings) != 1)}" if warnings else ""
    say(f"{source}: {count}{also}")
