"""``encamp notices``: messages to people when jobs end, tried before a job depends on them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.notices.sending import Delivery
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.notices import NoticeTargetSpec


@click.group(name="notices")
def command() -> None:
    """Try the messages that people get when jobs end: webhooks, e-mail, chat."""


@command.command()
@click.argument("targets", metavar="[TARGET]...", nargs=-1)
@ENVIRONMENT
def test(targets: tuple[str, ...], environment: str) -> None:
    """Send a test message to each TARGET, or to every target of the environment, and say what became of it.

    Addresses are read as whoever ends a job on this machine would read them. Drivers and reapers in the cluster read
    their own variables.

    Exit code 0: every service took its message. 2: bad input, or Apprise is not installed. 3: one did not.
    """
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415
    from encamp.errors import EncampError, ExitCode  # noqa: PLC0415
    from encamp.extras import need  # noqa: PLC0415
    from encamp.jobs.target import environment_named  # noqa: PLC0415 - `--help` needs none of it
    from encamp.notices.addresses import read_addresses  # noqa: PLC0415
    from encamp.notices.sending import Delivery, Message, send  # noqa: PLC0415
    from encamp.text import aligned  # noqa: PLC0415

    spec = environment_named(environment)
    chosen = _chosen(spec, targets)
    need("notices", "a notice")
    read = read_addresses(chosen, GoogleClient(), os.environ)
    addresses = {name: address for name, address in read.items() if isinstance(address, str)}
    results = {name: Delivery(sent=False, why=one.what) for name, one in read.items() if isinstance(one, EncampError)}
    body = f"A test of `encamp notices test`: jobs of the environment {spec.name} ({spec.project}) are told here."
    results |= send(addresses, Message(f"encamp: test from {spec.name}", body))
    rows = [(one.name, _result(results[one.name]), _scope(one)) for one in chosen]
    for line in aligned([("TARGET", "RESULT", "IS TOLD OF"), *rows]):
        say(line)
    if not all(one.sent for one in results.values()):
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)


def _chosen(spec: EnvironmentSpec, names: Sequence[str]) -> list[NoticeTargetSpec]:
    """The targets that are meant.

    Raises:
        UsageError: the environment declares none, or not these.
    """
    from encamp.errors import UsageError  # noqa: PLC0415

    declared = spec.notices.targets if spec.notices is not None else ()
    if not declared:
        raise UsageError(
            "this environment has no targets for notices",
            where=spec.name,
            hint="write a `notices` block: docs/notices.md",
        )
    known = {one.name: one for one in declared}
    for name in names:
        if name not in known:
            hint = f"it declares {', '.join(known)}"
            raise UsageError("the environment declares no target of a name that was given", where=spec.name, hint=hint)
    return [known[name] for name in dict.fromkeys(names)] or list(declared)


def _result(delivery: Delivery) -> str:
    return "sent" if delivery.sent else f"not sent: {delivery.why}"


def _scope(target: NoticeTargetSpec) -> str:
    from encamp.spec.encamp import EndState  # noqa: PLC0415

    ends = "every end" if set(target.states) == set(EndState) else ", ".join(target.states)
    return f"{ends} of {'every job' if target.every_job else 'jobs that name it'}"
