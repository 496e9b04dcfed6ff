"""Whether the image of each role runs on its machine: CUDA for its GPU, its CPUs, and TPU support.

A known image that does not is refused. Of an image that no table knows, a warning says what it must bring.
Beliefs: nvidia-cuda-of-gpus, gke-arm-machines, tpu-needs-its-own-tensorflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.image_facts import (
    image_facts,
    installs_tpu_support,
    is_older,
    newest_stock_cuda,
    tpu_examples,
)
from encamp.plan.machines import catalog
from encamp.spec.ai_platform import version_key
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from encamp.plan.machines.catalog import Gpu
    from encamp.plan.machines.shapes import Shape


@dataclass(frozen=True)
class ImageCase:
    """The image of a role, and the machine that it has to run on.

    Attributes:
        where: field that asks for the machine.
        runtime_version: runtime version that the image stands for, None if the job names an image.
        for_tpus: whether the environment gives it as an image for TPUs.
    """

    image: str
    shape: Shape
    where: str
    runtime_version: str | None = None
    for_tpus: bool = False

    @property
    def gpu(self) -> Gpu | None:
        """The GPU of the machine; None if it has none."""
        accelerator = self.shape.accelerator
        return catalog.gpu_of_gke(accelerator.type) if accelerator is not None else None

    @property
    def architecture(self) -> str:
        """CPU architecture of the machine."""
        return catalog.machine(self.shape.machine_type).architecture


#: Place, problem, hint.
Finding = tuple[str, str, str]


def wrong_cuda(cases: Sequence[ImageCase]) -> Iterator[Finding]:
    """Yield known images whose CUDA is older than the GPU."""
    for case in cases:
        facts, gpu = image_facts(case.image), case.gpu
        if gpu is None or facts.cuda is None or not is_older(facts.cuda, gpu.least_cuda):
            continue
        able = [name for name, entry in data_file("gpus").items() if not is_older(facts.cuda, entry["leastCuda"])]
        others = ", ".join(name for name in able if data_file("gpus")[name]["offered"])
        message = f"{gpu.name} needs CUDA {gpu.least_cuda} or newer, and {case.image} has {facts.cuda}"
        hint = f"give an image with CUDA {gpu.least_cuda} by masterConfig.imageUri, or take one of {others}"
        yield case.where, message, hint


def wrong_architecture(cases: Sequence[ImageCase]) -> Iterator[Finding]:
    """Yield known images that have no variant for the machine's CPUs."""
    for case in cases:
        known = image_facts(case.image).architectures
        if known is not None and case.architecture not in known:
            message = (
                f"{case.shape.machine_type} has {case.architecture} CPUs, and {case.image} is for {', '.join(known)}"
            )
            yield case.where, message, f"give an image for {case.architecture} by masterConfig.imageUri"


def no_tpu_support(cases: Sequence[ImageCase], requirements: Sequence[str]) -> Iterator[Finding]:
    """Yield known images without TPU support on TPUs, to which the job's requirements add none."""
    for case in cases:
        version = case.shape.tpu_version
        if version is None or case.for_tpus or image_facts(case.image).tpus is not False:
            continue
        if installs_tpu_support(requirements):
            continue
        yield (
            case.where,
            f"{case.image} has no TPU support, and the machine has a TPU {version}",
            _tpu_hint(case, version),
        )


def image_warnings(cases: Sequence[ImageCase], requirements: Sequence[str]) -> Iterator[str]:
    """Yield warnings about unknown images: what they must contain for their machines."""
    for case in cases:
        facts, gpu, version = image_facts(case.image), case.gpu, case.shape.tpu_version
        if gpu is not None and facts.cuda is None and is_older(newest_stock_cuda(), gpu.least_cuda):
            yield f"{case.image} must bring CUDA {gpu.least_cuda} or newer for {gpu.name}: nothing looks into it before"
        if case.architecture != "amd64" and facts.architectures is None:
            yield f"{case.image} must be for {case.architecture}, the CPUs of {case.shape.machine_type}"
        if version is None:
            continue
        if not case.for_tpus and facts.tpus is None and not installs_tpu_support(requirements):
            yield f"{case.image} must bring a framework built for TPUs and libtpu: nothing looks into it before"
        too_old = _too_old(case.runtime_version, version)
        if too_old is not None and facts.tpus is not False:
            yield f"runtimeVersion {case.runtime_version} on a TPU {version}: {too_old}"


def _tpu_hint(case: ImageCase, version: str) -> str:
    images = " or ".join(f"{image} ({framework})" for framework, image in tpu_examples().items())
    given = f"give an image by masterConfig.imageUri, such as {images}"
    too_old = _too_old(case.runtime_version, version)
    if too_old is not None:
        return f"{given}; {too_old}"
    if case.runtime_version not in data_file("runtimes")["tpu"]["versions"]:
        return given
    key = f"{case.runtime_version}-tpu"
    return (
        f"build what `encamp containerfile {case.runtime_version} --tpu` prints and name it as {key} in the "
        f"environment's runtimeImages, or {given}"
    )


def _too_old(runtime_version: str | None, version: str) -> str | None:
    """Return why a runtime version's TensorFlow is too old for a TPU generation; None if nothing is known."""
    if runtime_version is None:
        return None
    least = data_file("runtimes")["tpu"]["leastTensorflow"].get(version)
    if least is None:
        return f"TensorFlow is not built for TPU {version}"
    old = version_key(runtime_version) < version_key(least)
    return f"TensorFlow is built for TPU {version} from {least} on" if old else None
