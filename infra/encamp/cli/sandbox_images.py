"""``encamp sandbox images``: which images the sandbox gives replicas exactly, and how more of them are brought."""

from __future__ import annotations

import time

import click

from encamp import sandbox
from encamp.cli.out import say, say_json


@click.group(name="images", invoke_without_command=True)
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def command(ctx: click.Context, form: str) -> None:
    """Say by runtime version what replicas get here: the image's own Python and packages, or the nearest to them."""
    if ctx.invoked_subcommand is not None:
        return
    found = sandbox.runtime_pythons()
    if form == "json":
        say_json([one.to_json() for one in found])
        return
    for one in found:
        say(f"{one.version:5} Python {one.image_python}, tensorflow {one.tensorflow:7} {one.text}")
    say(f"nearly: the sandbox's own {sandbox.own_python()}, without packages that the image lacks", err=True)
    say(f"kept in {sandbox.pythons_folder()}; it may be removed while no job runs", err=True)


@command.command()
@click.argument("versions", metavar="VERSION...", nargs=-1, required=True)
@click.option("--python", metavar="PROGRAM", help="A Python of the image's version; found or downloaded by default.")
def pull(versions: tuple[str, ...], python: str | None) -> None:
    """Bring the Python and packages of stock images, about 1 GB each: jobs of these versions then run with them."""
    for version in versions:
        sandbox.check_pull(version)
    for version in versions:
        begun = time.monotonic()
        found = sandbox.pull_python(version, python, lambda text: say(text, err=True))
        seconds = time.monotonic() - begun
        say(f"{version}: Python {found.version} at {found.folder / 'bin' / 'python3'} after {seconds:.0f} s", err=True)
