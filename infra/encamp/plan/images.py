"""The container image of a runtime version: the framework's stock image, by a table that is easy to correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RuntimeImage:
    """An image with a framework.

    Attributes:
        image: the image's name with its tag.
        interpreter: the command that starts its Python.
        python: version of that Python.
    """

    image: str
    interpreter: str
    python: str


def runtime_image(
    runtime_version: str, python_version: str, *, gpu: bool, given: Mapping[str, str] | None = None
) -> RuntimeImage:
    """The image that stands for a runtime version.

    Args:
        runtime_version: AI Platform's, such as ``2.11``.
        python_version: the Python asked for.
        gpu: whether the image must bring CUDA.
        given: the environment's own images by runtime version; they win over the table.

    Raises:
        PlanError: there is no image of this version.
    """
    own = (given or {}).get(runtime_version)
    if own is not None:
        return RuntimeImage(own, "python2" if python_version.startswith("2") else "python3", python_version)
    table = data_file("runtimes")
    entry = table["versions"].get(runtime_version)
    if entry is None:
        raise PlanError(
            f"no image is known for runtime version {runtime_version}",
            where="trainingInput.runtimeVersion",
            hint="give the environment one by runtimeImages (`encamp containerfile` prints what to build), or the job "
            "by masterConfig.imageUri",
        )
    python2 = python_version.startswith("2")
    accelerated = "-gpu" if gpu else ""
    suffix = "" if python2 else entry["python3Suffix"]
    return RuntimeImage(
        image=f"{table['image']}:{entry['tag']}{accelerated}{suffix}",
        interpreter="python2" if python2 else "python3",
        python=entry["python2" if python2 else "python3"],
    )


def python_warning(found: RuntimeImage, runtime_version: str, python_version: str) -> str | None:
    """A warning that names both Pythons where the image has not the one that was asked for."""
    if python_version.startswith("2"):
        return (
            f"pythonVersion {python_version}: the set-up of a replica needs python3, and {found.image} may lack it; "
            "give an image with both by masterConfig.imageUri"
        )
    if found.python != python_version:
        return (
            f"runtimeVersion {runtime_version} asks for Python {python_version}; "
            f"the image {found.image} has Python {found.python}"
        )
    return None
