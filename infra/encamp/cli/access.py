"""``encamp access``: who may do what in an environment, and what AI Platform's roles mean there."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import FORMAT
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT
from encamp.jobs.target import environment_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.plan.access.check import Answer, Ground

#: Exit code of an answer that is no.
NO = 1
_WIDTH = 100
_INDENT = 9


@click.group(name="access")
def command() -> None:
    """Show who may do what in an environment, by its teams and AI Platform's roles."""


@command.command()
@click.argument("user")
@click.argument("permission")
@click.option("--job", metavar="JOB", help="Id of a job that it is about: who started it owns it.")
@click.option("--group", "groups", metavar="GROUP", multiple=True, help="A group that USER is in; may be repeated.")
@ENVIRONMENT
@FORMAT
def check(
    user: str, permission: str, *, job: str | None, groups: tuple[str, ...], environment: str, output: str
) -> None:
    """Say whether USER, an e-mail, has PERMISSION of AI Platform's, such as ml.jobs.cancel, and why.

    The answer is that of the environment's committed config, which its stack puts into effect; what the project's IAM
    policy gives beside it is not looked at. Exit code 0: yes. 1: no. 2: there is no such permission, or no teams.
    """
    from encamp.plan.access.check import check_access  # noqa: PLC0415 - `--help` needs none of it

    started_by = _started_by(job, environment) if job is not None else None
    spec = environment_named(environment)
    answer = check_access(spec, user, permission, groups=groups, started_by=started_by)
    if output == "json":
        say_json(_data(user, answer))
    else:
        say("\n".join(_lines(user, environment, answer)))
        if job is not None and started_by is None:
            say(f"who started {job} is not on record with an e-mail", err=True)
    sys.exit(0 if answer.allowed else NO)


@command.command()
def table() -> None:
    """Print what each role and permission of AI Platform's means today, as Markdown."""
    from encamp.plan.access.table import access_table  # noqa: PLC0415 - `--help` needs none of it

    say(access_table(), nl=False)


def _started_by(job: str, environment: str) -> str | None:
    """E-mail of who started a job, None where nobody wrote it down."""
    from encamp.cli.known import looking  # noqa: PLC0415

    with looking(environment) as known:
        return known.catalogue.job(job).started_by.get("account")


def _lines(user: str, environment: str, answer: Answer) -> Iterator[str]:
    name = answer.permission.name
    if answer.allowed:
        yield f"yes: {user} may {name} in {environment}"
        yield from (_row("as", _why(ground)) for ground in answer.grounds)
    else:
        yield f"no: {user} may not {name} in {environment}"
        yield from (
            _row("unless", f"in {ground.member}: {_why(ground)}; say so by --group") for ground in answer.groups
        )
        yield _row("roles", ", ".join(answer.roles))
    yield _row("means", answer.permission.means)
    if answer.permission.abilities:
        yield _row("takes", ", ".join(ability.name for ability in answer.permission.abilities))


def _why(ground: Ground) -> str:
    return f"{ground.role} of team {ground.team}" if ground.team is not None else f"{ground.role}: started the job"


def _row(name: str, text: str) -> str:
    return textwrap.fill(
        f"{name:<7}{text}",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _data(user: str, answer: Answer) -> dict[str, object]:
    def shown(grounds: tuple[Ground, ...]) -> list[dict[str, str | None]]:
        return [{"role": one.role, "team": one.team, "member": one.member} for one in grounds]

    return {
        "user": user,
        "permission": answer.permission.name,
        "allowed": answer.allowed,
        "because": shown(answer.grounds),
        "ifMemberOf": shown(answer.groups),
        "roles": list(answer.roles),
        "means": answer.permission.means,
        "abilities": [ability.name for ability in answer.permission.abilities],
    }
