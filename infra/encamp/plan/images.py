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


#: Ends the runtime version of an image for TPUs in an environment's runtimeImages.
_TPU = "-tpu"


@dataclass(frozen=True)
class RuntimeImage:
    """An image with a framework.

    Attributes:
        image: the image's name with its tag.
        interpreter: the command that starts its Python.
        python: version of that Python.
        for_tpus: whether the environment gives it as an image for TPUs.
    """

    image: str
    interpreter: str
    python: str
    for_tpus: bool = False


def runtime_image(
    runtime_version: str,
    python_version: str,
    *,
    gpu: bool = False,
    tpu: bool = False,
    given: Mapping[str, str] | None = None,
) -> RuntimeImage:
    """Return the image that stands for a runtime version.

    Args:
        runtime_version: AI Platform's, such as ``2.11``.
        python_version: the Python asked for.
        gpu: whether the image must bring CUDA.
        tpu: whether it is for a machine with a TPU.
        given: the environment's own images by runtime version, for TPUs also with ``-tpu`` after it; they win over the
            table.

    Raises:
        PlanError: there is no image of this version, or none in which a replica of Python 2 can be set up.
    """
    python2 = python_version.startswith("2")
    for key in (f"{runtime_version}{_TPU}", runtime_version) if tpu else (runtime_version,):
        own = (given or {}).get(key)
        if own is not None:
            return RuntimeImage(own, "python2" if python2 else "python3", python_version, key.endswith(_TPU))
    table = data_file("runtimes")
    entry = table["versions"].get(runtime_version)
    if entry is None:
        raise PlanError(
            f"no image is known for runtime version {runtime_version}",
            where="trainingInput.runtimeVersion",
            hint="give the environment one by runtimeImages (`encamp containerfile` prints what to build), or the job "
            "by masterConfig.imageUri",
        )
    if python2:
        raise PlanError(
            f"no stock image has Python {python_version} and the python3 that sets a replica up",
            where="trainingInput.pythonVersion",
            hint=f"build what `encamp containerfile {runtime_version} --python {python_version}` prints and name it in "
            "the environment's runtimeImages, or choose a Python 3",
        )
    return RuntimeImage(_stock(runtime_version, gpu=gpu), "python3", entry["python3"])


def _stock(runtime_version: str, *, gpu: bool) -> str:
    """Return the table's image with Python 3."""
    table = data_file("runtimes")
    entry = table["versions"][runtime_version]
    return f"{table['image']}:{entry['tag']}{'-gpu' if gpu else ''}{entry['python3Suffix']}"


def python_warning(found: RuntimeImage, runtime_version: str, python_version: str) -> str | None:
    """Return a warning that names both Pythons where the image has not the one that was asked for."""
    if found.python != python_version:
        return (
            f"runtimeVersion {runtime_version} asks for Python {python_version}; "
            f"the image {found.image} has Python {found.python}"
        )
    return None


@dataclass(frozen=True)
class RuntimeBuild:
    """The build of a runtime version's image where none exists.

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
    """Return the build of a runtime version's image with a Python, by default the newest that the version had.

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
        base=_stock(version, gpu=gpu),
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
    """Return the Containerfile of a runtime version's image."""
    return render_text("Containerfile.j2", build=build)


@dataclass(frozen=True)
class TpuBuild:
    """The build of a runtime version's image for TPUs: Google's own build of TensorFlow, with libtpu.

    Attributes:
        base: image with the Python that the wheel is for.
        wheel: address of TensorFlow built for TPUs.
        libtpu: address of the library that drives the TPU.
        packages: what pip installs beside it.
        tag: what the built image may be tagged.
    """

    version: str
    base: str
    wheel: str
    libtpu: str
    packages: tuple[str, ...]
    tag: str


def tpu_build(version: str, python: str | None) -> TpuBuild:
    """Return the build of a runtime version's image for TPUs.

    Raises:
        UsageError: there was no such runtime version, or Google's build of its TensorFlow is not known.
    """
    table = data_file("runtimes")["tpu"]
    usual = runtime_build(version, None, gpu=False)
    entry = table["versions"].get(version)
    if entry is None:
        known = ", ".join(table["versions"])
        raise UsageError(f"no TensorFlow for TPUs is known of runtime version {version}", hint=f"one of {known}")
    if python not in (None, table["python"]):
        raise UsageError(f"TensorFlow for TPUs is for Python {table['python']}", hint="leave --python out")
    tensorflow, digits = entry["tensorflow"], table["python"].replace(".", "")
    file = f"tensorflow-{tensorflow}-cp{digits}-cp{digits}-linux_x86_64.whl"
    return TpuBuild(
        version=version,
        base=table["base"],
        wheel=f"{table['artifacts']}/tensorflow/tf-{tensorflow}/{file}",
        libtpu=f"{table['artifacts']}/libtpu/{entry['libtpu']}/libtpu.so",
        packages=usual.packages[1:],
        tag=f"{version}-tpu",
    )


def tpu_containerfile(build: TpuBuild) -> str:
    """Return the Containerfile of a runtime version's image for TPUs."""
    return render_text("tpu.Containerfile.j2", build=build)
