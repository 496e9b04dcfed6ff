"""``encamp containerfile``: how to build the image of a runtime version that exists nowhere any more, or encamp's."""

from __future__ import annotations

import click

from encamp.cli.out import say

#: Python of encamp's own image; what encamp is tested with.
_PYTHON = "3.11"


@click.command(name="containerfile")
@click.argument("runtime_version", metavar="[VERSION]", required=False)
@click.option("--python", metavar="X.Y", help="Python of the image; the newest that the runtime version had.")
@click.option("--gpu", is_flag=True, help="For machines with GPUs.")
@click.option("--tpu", is_flag=True, help="For machines with TPUs v3 and v4.")
@click.option("--encamp", "own", is_flag=True, help="Of encamp itself, for what an environment's cluster runs of it.")
def command(runtime_version: str | None, python: str | None, *, gpu: bool, tpu: bool, own: bool) -> None:
    """Print a Containerfile of runtime VERSION, such as 2.11: TensorFlow and what AI Platform had beside it.

    With --encamp instead of VERSION: of encamp itself with its engine, for an environment's reaper, drivers and jobs
    API.
    """
    from encamp.errors import UsageError  # noqa: PLC0415 - help pages need no templates

    if own:
        if runtime_version is not None or python is not None or gpu or tpu:
            raise UsageError("--encamp stands alone", hint="leave VERSION, --python, --gpu and --tpu out")
        say(_own(), nl=False)
        return
    if runtime_version is None:
        raise UsageError("no runtime version is named", where="VERSION", hint="such as 2.11, or --encamp")
    from encamp.plan.images import containerfile, runtime_build, tpu_build, tpu_containerfile  # noqa: PLC0415

    if gpu and tpu:
        raise UsageError("an image is for GPUs or for TPUs", hint="leave --gpu or --tpu out")
    if tpu:
        say(tpu_containerfile(tpu_build(runtime_version, python)), nl=False)
        return
    say(containerfile(runtime_build(runtime_version, python, gpu=gpu)), nl=False)


def _own() -> str:
    from importlib.metadata import version  # noqa: PLC0415 - only the image needs it

    from encamp import __version__  # noqa: PLC0415
    from encamp.plan.environment.own_image import OwnImage, own_containerfile  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415
    from encamp.resources import repository  # noqa: PLC0415

    pulumi, gcp, kubernetes = (version(name) for name in ("pulumi", "pulumi-gcp", "pulumi-kubernetes"))
    is_checkout = project_folder() == repository()
    return own_containerfile(OwnImage(__version__, _PYTHON, pulumi, gcp, kubernetes, checkout=is_checkout))
