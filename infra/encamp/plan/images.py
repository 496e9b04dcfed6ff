"""The container image of a runtime version: the framework's stock image, by a table that is easy to correct."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import PlanError, UsageError
from encamp.plan.rendering import render_text
from encamp.spec.ai_platform import ai_platform, version_key
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


@dataclass(frozen=True)
class RuntimeBuild:
    """How the image of a runtime version is built where none exists.

    Attributes:
        base: TensorFlow's own image, for the system and CUDA.
        packages: what pip installs into the Python asked for.
        tag: what the built image may be tagged.
    """

    version: str
    python: str
    gpu: bool
    base: str
    packages: tuple[str, ...]
    micromamba: str
    tag: str


def runtime_build(version: str, python: str | None, *, gpu: bool) -> RuntimeBuild:
    """What builds a runtime version's image with a Python, by default the newest that the version had.

    Raises:
        UsageError: there was no such runtime version, or it had no such Python.
    """
    known = ai_platform().runtime_versions
    found = known.get(version)
    if found is None:
        raise UsageError(f"there was no runtime version {version!r}", hint=f"one of {', '.join(known)}")
    chosen = python or max(found.pythons, key=version_key)
    if chosen not in found.pythons:
        raise UsageError(
            f"runtime version {version} had no Python {chosen}", hint=f"it had {' and '.join(found.pythons)}"
        )
    table = data_file("runtimes")["build"]
    pins = table["pins"].get(version, [])
    pinned = {pin.partition("==")[0] for pin in pins}
    named_gpu = gpu and version_key(version) <= version_key(table["gpuPackageUpTo"])
    return RuntimeBuild(
        version=version,
        python=chosen,
        gpu=gpu,
        base=runtime_image(version, chosen, gpu=gpu).image,
        packages=(
            f"tensorflow{'-gpu' if named_gpu else ''}=={found.tensorflow}.*",
            *(name for name in table["packages"] if name not in pinned),
            *pins,
            *(
                each["requirement"]
                for each in table["constraints"]
                if version_key(version) <= version_key(each["upTo"])
            ),
        ),
        micromamba=table["micromamba"],
        tag=f"{version}-py{chosen}{'-gpu' if gpu else ''}",
    )


def containerfile(build: RuntimeBuild) -> str:
    """The Containerfile of a runtime version's image."""
    return render_text("Containerfile.j2", build=build)
