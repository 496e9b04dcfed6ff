"""``encamp containerfile``: how to build the image of a runtime version that exists nowhere any more."""

from __future__ import annotations

import click


@click.command(name="containerfile")
@click.argument("runtime_version", metavar="VERSION")
@click.option("--python", metavar="X.Y", help="Python of the image; the newest that the runtime version had.")
@click.option("--gpu", is_flag=True, help="For machines with GPUs.")
def command(runtime_version: str, python: str | None, *, gpu: bool) -> None:
    """Print a Containerfile of runtime VERSION, such as 2.11: TensorFlow and what AI Platform had beside it."""
    from encamp.plan.images import containerfile, runtime_build  # noqa: PLC0415 - help pages need no templates

    click.echo(containerfile(runtime_build(runtime_version, python, gpu=gpu)), nl=False)
