"""``encamp ci``: what a change does to stacks, and where the cloud has gone apart from them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT, VARIABLE, FormerArgument, stack_option
from encamp.errors import ExitCode

#: As of `diff`: the command worked, and there is a difference.
_DRIFTED = 1

OUTPUT = click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write the Markdown into this file instead of to stdout.",
)  # fmt: skip


@click.group(name="ci")
def command() -> None:
    """Show what a change does to stacks, and where the cloud differs from them; nothing is changed."""


@command.command()
@click.option(
    "--base", default="main", show_default=True, metavar="COMMIT",
    help="Branch, tag or commit that the change is to go into.",
)  # fmt: skip
@OUTPUT
@stack_option("Preview the stacks of this environment only; others are planned.", envvar=VARIABLE, show_envvar=True)
def preview(base: str, output: Path | None, environment: str | None) -> None:
    """Preview every stack that the work tree touches, and print one comment in Markdown.

    The work tree is compared with the commit where it left COMMIT. A stack is touched when a file that it reads
    differs. It is previewed by the engine, also where it is not made yet, and without its key: encrypted values are not
    compared. Its environment is found by its config.

    Exit code 0: every preview is there. 2: rules refuse a stack, or bad input. 3: a preview failed. The comment is
    written in each case.
    """
    from encamp.ci.comment import comment  # noqa: PLC0415 - `--help` needs none of it
    from encamp.ci.review import review  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415

    found = review(project_folder(), base, environment, _say, _enter)
    _write(comment(found, base=base), output)
    if any(one.refused for one in found):
        sys.exit(ExitCode.BAD_INPUT)
    if any(one.failed for one in found):
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)


@command.command()
@click.option("--only", multiple=True, metavar="STACK", help="Compare this stack of the environment; may be repeated.")
@click.argument("former", nargs=-1, cls=FormerArgument)
@OUTPUT
@ENVIRONMENT
def drift(only: tuple[str, ...], former: tuple[str, ...], output: Path | None, environment: str) -> None:
    """Compare the stacks of an environment with the cloud, and print the differences in Markdown.

    Compares every committed stack that is up, or those of --only. Drift is a difference from a stack's config; nodes of
    autoscaling and labels and fields of Google's own do not count.

    Exit code 0: cloud and stacks agree. 1: they do not. 2: bad input. 3: a stack could not be compared.
    """
    from encamp.ci.comment import drift_report  # noqa: PLC0415 - `--help` needs none of it
    from encamp.ci.drift import drift as compared  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415

    folder = project_folder()
    enter(environment)
    found = compared(folder, environment, (*only, *former), _say)
    _write(drift_report(found), output)
    if any(one.previewed is not None and one.previewed.errors for one in found):
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)
    if not all(one.quiet for one in found):
        sys.exit(_DRIFTED)


def _enter(environment: str) -> None:
    """Point this process to the cloud of an environment.

    Raises:
        EncampError: there is no such environment, its cloud cannot be reached, or this shell leads to another one.
    """
    from encamp.errors import SandboxError  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.sandbox import served_project  # noqa: PLC0415

    project, served = enter(environment).project, served_project()
    if served not in (None, project):
        what = f"this shell leads to the sandbox, which serves the project {served}, not {project}"
        raise SandboxError(what, where=environment, hint="preview it from a shell without the sandbox's variables")


def _say(line: str) -> None:
    say(line, err=True)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        say(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
