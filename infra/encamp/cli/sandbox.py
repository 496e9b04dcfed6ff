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
from encamp.sandbox import Sandbox, make_listener

if TYPE_CHECKING:
    from encamp.sandbox import Listener, SandboxStatus


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
    begun = time.monotonic()
    sandbox = Sandbox.located()
    found = sandbox.up(listener(begun), project)
    if queues:
        Sandbox.opened().start_queues(listener(begun))
    seconds = time.monotonic() - begun
    say(f"the sandbox is up after {seconds:.1f} s: {len(found.processes)} processes in {sandbox.root}", err=True)
    say('for this shell: eval "$(encamp sandbox env)"', err=True)


@command.command()
def down() -> None:
    """Stop every process of the sandbox. Its data stays for the next up."""
    ended = Sandbox.located().down(listener(time.monotonic()))
    say(f"ended {ended} processes, none is left" if ended else "the sandbox is not running", err=True)


@command.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(form: str) -> None:
    """Show the state of each process, and what to do about one that does not run. Exit code 3: something is wrong."""
    found = Sandbox.located().status()
    if form == "json":
        say_json(found.to_json())
    else:
        say(_table(found))
    if found.failed:
        sys.exit(ExitCode.INFRASTRUCTURE_FAILED)


@command.command()
@click.option("--format", "form", type=click.Choice(["sh", "fish", "json"]), default="sh", show_default=True)
def env(form: str) -> None:
    """Print the variables by which a shell reaches the sandbox: eval "$(encamp sandbox env)"."""
    values = Sandbox.opened().variables()
    if form == "json":
        say_json(values)
        return
    for name, value in values.items():
        say(f"set -gx {name} {_fish(name, value)}" if form == "fish" else f"export {name}={shlex.quote(value)}")


@command.command()
@click.option("--for", "member", metavar="MEMBER", help="Such as user:ana@example.com; the administrator when absent.")
def token(member: str | None) -> None:
    """Print an access token: of the administrator, or of somebody else, to try what they may do."""
    say(Sandbox.opened().token(member))


@command.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(yes: bool) -> None:
    """Stop every process and delete all data of the sandbox: buckets, clusters, stacks."""
    sandbox = Sandbox.located()
    if not sandbox.root.exists():
        say("there is no sandbox", err=True)
        return
    if not yes:
        click.confirm(f"Remove everything in {sandbox.root}?", abort=True, err=True)
    sandbox.reset(listener(time.monotonic()))
    say("the sandbox is removed", err=True)


@command.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
def doctor(form: str) -> None:
    """Show what this machine allows, and how to fix what it does not. Exit code 3: the sandbox cannot run."""
    show_findings(Sandbox.located().findings(), form)


def listener(begun: float) -> Listener:
    """Show progress on stderr, one line for each thing that happens, with the seconds since ``begun``."""

    def show(subject: str, text: str) -> None:
        say(f"{time.monotonic() - begun:6.1f}s  {subject:24} {text}", err=True)

    return make_listener(sys.stderr, show)


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
