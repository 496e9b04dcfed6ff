"""``encamp sandbox``: a Google Cloud of this machine's own, from up to reset."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING

import click

from encamp.cli.findings import show_findings
from encamp.cli.out import say, say_json
from encamp.cli.sandbox_images import command as images
from encamp.errors import ExitCode
from encamp.sandbox.layout import Layout

if TYPE_CHECKING:
    from encamp.sandbox.lifecycle import Listener
    from encamp.sandbox.state import ProcessState
    from encamp.sandbox.status import SandboxStatus


@click.group(name="sandbox")
def command() -> None:
    """A Google Cloud of this machine's own, where the same programs run without an account."""


command.add_command(images)


@command.command()
@click.option("--queues", is_flag=True, help="With Kueue, which an environment with queues needs.")
@click.option(
    "--project",
    metavar="ID",
    help="Have a new sandbox stand for this project, to rehearse a committed stack of it.",
)
def up(queues: bool, project: str | None) -> None:
    """Start the sandbox, and build its tools where they are missing. Harmless when it is up."""
    from encamp.sandbox import lifecycle  # noqa: PLC0415 - `env` and `--help` start without it

    begun = time.monotonic()
    layout = Layout.located()
    found = lifecycle.up(layout, listener(begun), project)
    if queues:
        lifecycle.start_queues(Layout.open(), listener(begun))
    seconds = time.monotonic() - begun
    say(f"the sandbox is up after {seconds:.1f} s: {len(found.processes)} processes in {layout.root}", err=True)
    say('for this shell: eval "$(encamp sandbox env)"', err=True)


@command.command()
def down() -> None:
    """Stop every process of the sandbox. Its data stays for the next up."""
    from encamp.sandbox import lifecycle  # noqa: PLC0415

    ended = lifecycle.down(Layout.located(), listener(time.monotonic()))
    say(f"ended {ended} processes, none is left" if ended else "the sandbox is not running", err=True)


@command.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(form: str) -> None:
    """Show the state of each process, and what to do about one that does not run. Exit code 3: something is wrong."""
    from encamp.sandbox.status import FAILED, sandbox_status  # noqa: PLC0415

    found = sandbox_status(Layout.located())
    if form == "json":
        say_json(found.to_json())
    else:
        say(_table(found))
    if found.state == FAILED:
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)


@command.command()
@click.option("--format", "form", type=click.Choice(["sh", "fish", "json"]), default="sh", show_default=True)
def env(form: str) -> None:
    """Print the variables by which a shell reaches the sandbox: eval "$(encamp sandbox env)"."""
    from encamp.sandbox.environment import variables  # noqa: PLC0415

    values = variables(Layout.open())
    if form == "json":
        say_json(values)
        return
    for name, value in values.items():
        say(f"set -gx {name} {_fish(name, value)}" if form == "fish" else f"export {name}={shlex.quote(value)}")


@command.command()
@click.option("--for", "member", metavar="MEMBER", help="Such as user:ana@example.com; the administrator when absent.")
def token(member: str | None) -> None:
    """Print an access token: of the administrator, or of somebody else, to try what they may do."""
    from encamp.sandbox.members import token_of  # noqa: PLC0415

    say(token_of(Layout.open(), member))


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(yes: bool) -> None:
    """Stop every process and delete all data of the sandbox: buckets, clusters, stacks."""
    from encamp.sandbox import lifecycle  # noqa: PLC0415

    layout = Layout.located()
    if not layout.root.exists():
        say("there is no sandbox", err=True)
        return
    if not yes:
        click.confirm(f"Remove everything in {layout.root}?", abort=True, err=True)
    lifecycle.reset(layout, listener(time.monotonic()))
    say("the sandbox is removed", err=True)


@command.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def doctor(form: str) -> None:
    """Show what this machine allows, and how to fix what it does not. Exit code 3: the sandbox cannot run."""
    from encamp.sandbox.doctor import examine  # noqa: PLC0415

    show_findings(examine(Layout.located()), form)


def listener(begun: float) -> Listener:
    """Show progress on stderr, one line for each thing that happens, with the seconds since ``begun``."""
    from encamp.sandbox.lifecycle import Listener  # noqa: PLC0415
    from encamp.sandbox.tools import BuildLines  # noqa: PLC0415

    builds = BuildLines(sys.stderr)

    def show(subject: str, text: str) -> None:
        builds.close_line()
        say(f"{time.monotonic() - begun:6.1f}s  {subject:24} {text}", err=True)

    def process(name: str, found: ProcessState) -> None:
        if found.state not in ("waiting", "starting"):
            show(name, f"{found.state}{f': {found.message}' if found.message and found.state != 'ready' else ''}")

    return Listener(building=builds.show, process=process, say=lambda text: show("sandbox", text))


def _table(found: SandboxStatus) -> str:
    rows = [f"sandbox {found.root}: {found.state}{f' ({found.advice})' if found.advice else ''}"]
    rows += [
        f"  {process.name:24} {process.state:9} {process.pid or '-':>8} {_age(process.seconds):>8}"
        f"  restarts {process.restarts}{f'  last: {process.message}' if process.message else ''}"
        f"{f'{chr(10)}      try: {process.advice}' if process.advice else ''}"
        for process in found.processes
    ]
    return "\n".join(rows)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{seconds:.0f}s"


def _fish(name: str, value: str) -> str:
    parts = value.split(":") if name == "PATH" else [value]
    return " ".join("'" + part.replace("\\", "\\\\").replace("'", "\\'") + "'" for part in parts)
