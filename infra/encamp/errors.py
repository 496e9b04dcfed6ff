"""Every error that encamp reports on purpose, and the exit code of each.

    EncampError
    ├── SpecError        what someone wrote is wrong: every problem of the file at once        exit 2
    ├── PlanError        the file is right, but no plan can be made of it                      exit 2
    │   └── PreconditionError  it would fail on Google Cloud: every reason at once             exit 2
    ├── UsageError       the command cannot be done as asked                                   exit 2
    ├── EngineError      the infrastructure could not be brought up or watched                 exit 3
    │   └── SandboxError the sandbox, or a tool or process of it, is not as it must be         exit 3
    └── TeardownError    something of the job may still exist                                  exit 4

A failed training is no exception but an outcome (exit 1), a cancelled one exit 5. Two edges convert these
errors: ``program.py`` to ``pulumi.RunError`` and ``cli/main.py`` to stderr and an exit code. Anything else
that is raised is a bug and shows its traceback.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from encamp.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """The exit code of a command; the table in README.md is the same."""

    OK = 0
    JOB_FAILED = 1
    BAD_INPUT = 2
    INFRASTRUCTURE_FAILED = 3
    TEARDOWN_FAILED = 4
    CANCELLED = 5


class EncampError(Exception):
    """Something went wrong that the user can understand and act on.

    Whatever it quotes, neither signatures of URLs nor passwords in them are to be read in it.

    Args:
        what: what is wrong, one sentence without a final stop.
        where: the dotted path, file or resource that it is about.
        hint: what to try, one sentence.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INFRASTRUCTURE_FAILED

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        what, where = redacted(what), redacted(where) if where is not None else None
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  try: {self.hint}" if self.hint else ""
        return f"{place}{self.what}{advice}"


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a file.

    Attributes:
        path: dotted path of the field, such as ``trainingInput.workerCount``; empty for the whole file.
        line: 1-based line in the file, or None if the text has no such place.
        rule: id of the rule in the job model (``V04``), or None if the rule has no id.
        message: what is wrong and what is allowed.
        hint: what to try; the nearest right spelling where there is one.
    """

    path: str
    line: int | None
    rule: str | None
    message: str
    hint: str | None = None


class SpecError(EncampError):
    """A file that someone wrote does not say a valid thing; holds every problem found."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{len(problems)} problem{'s' * (len(problems) != 1)}", where=source)
        self.source = source
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(_line(self.source, problem) for problem in self.problems)])


def _line(source: str, problem: Problem) -> str:
    place = f"{source}:{problem.line}" if problem.line else source
    rule = f" [{problem.rule}]" if problem.rule else ""
    path = f" {problem.path}:" if problem.path else ""
    hint = f"\n      try: {problem.hint}" if problem.hint else ""
    return f"  {place}:{path}{rule} {problem.message}{hint}"


class PlanError(EncampError):
    """The job is valid, but it cannot be planned for this environment."""

    exit_code = ExitCode.BAD_INPUT


class PreconditionError(PlanError):
    """The job would fail on Google Cloud, at its machines or on them; holds every reason found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        if len(self.problems) == 1:
            super().__init__(f"[{first.rule}] {first.message}", where=first.path, hint=first.hint)
        else:
            super().__init__(f"{len(self.problems)} things that would fail on Google Cloud")

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return super().__str__()
        return redacted("\n".join([super().__str__(), *(_reason(problem) for problem in self.problems)]))


def _reason(problem: Problem) -> str:
    hint = f"\n      try: {problem.hint}" if problem.hint else ""
    return f"  {problem.path}: [{problem.rule}] {problem.message}{hint}"


class UsageError(EncampError):
    """The command cannot be done as asked."""

    exit_code = ExitCode.BAD_INPUT


class EngineError(EncampError):
    """The engine, the cluster or the cloud did not do what was asked of it."""


class SandboxError(EngineError):
    """A tool, a process or a file of the sandbox is missing or broken."""


class TeardownError(EncampError):
    """Tear-down could not be finished or not be proven: something may still exist."""

    exit_code = ExitCode.TEARDOWN_FAILED
