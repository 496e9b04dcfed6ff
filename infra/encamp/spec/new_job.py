"""A first job file, generated from a few choices: valid, with a comment on each line that users often change.

The meaning of a choice is decided here, the text is ``templates/new/job.yaml.j2``. Choices that do not go together are
refused with those that do.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.resources import resource
from encamp.spec.data_files import data_file
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.machines_today import gpu_counts, slices
from encamp.spec.scalars import plain_value
from encamp.spec.training import ScaleTier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FRAMEWORKS = ("tensorflow", "pytorch", "scikit-learn", "xgboost")
ACCELERATORS = (*GpuType, *TpuVersion)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_CPU_MACHINE = "n1-standard-4"
_GPU_MACHINE = "n1-standard-8"
_USUAL_REGION = "us-central1"
_MOST_WORKERS = 1000
_TIERS: Mapping[ScaleTier, str] = {
    ScaleTier.BASIC: "BASIC: one small machine. encamp new --tier CUSTOM writes a file in which machines are chosen.",
    ScaleTier.STANDARD_1: "STANDARD_1: a master, 4 workers and 3 parameter servers.",
    ScaleTier.PREMIUM_1: "PREMIUM_1: a master, 19 workers and 11 parameter servers.",
    ScaleTier.BASIC_GPU: "BASIC_GPU: one machine with a GPU. AI Platform's was a K80; one of today stands for it.",
    ScaleTier.CUSTOM: "CUSTOM: the machines are chosen here. The other tiers are ready-made sets.",
}
#: Images of frameworks that the images of the runtime versions lack.
_IMAGES = {"pytorch": "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"}
#: For GPUs that no image of a runtime version has a CUDA for; XGBoost brings its own.
_IMAGES_OF_NEW_GPUS = {**_IMAGES, "tensorflow": "tensorflow/tensorflow:2.19.0-gpu", "xgboost": "python:3.11"}
#: For machines whose CPUs are no amd64.
_ARM_IMAGES = {"pytorch": "nvcr.io/nvidia/pytorch:25.06-py3", "xgboost": "python:3.11"}
#: From this CUDA on TensorFlow's own images have none for a GPU.
_NO_TENSORFLOW_CUDA = "12.8"
_TPU_IMAGE = "python:3.11"
_REQUIREMENTS = {"pytorch": ("torch>=2",), "xgboost": ("xgboost",)}
#: Requirements of the first trainer: its data, and the client that writes the job dir.
_OF_THE_TRAINER = ("scikit-learn", "google-cloud-storage")
_TPU_REQUIREMENTS = {"tensorflow": ("tensorflow-tpu",), "pytorch": ("torch>=2", "torch-xla[tpu]>=2")}


@dataclass(frozen=True)
class NewMachine:
    """A role's entry of ``encamp.machines``."""

    role: str
    machine_type: str | None = None
    gpu: str | None = None
    gpu_count: int | None = None
    tpu_version: str | None = None
    tpu_topology: str | None = None


@dataclass(frozen=True)
class NewJob:
    """The values of the template; None and empty leave a field out."""

    file: str
    schema: str
    summary: str
    tier: str
    tier_comment: str
    region: str
    master_type: str | None
    worker_type: str | None
    workers: int
    workers_comment: str
    accelerator: str | None
    image: str | None
    requirements: Sequence[str]
    machines: Sequence[NewMachine]
    machines_comment: str
    provisioning: str | None
    zone: str


@dataclass(frozen=True)
class Choices:
    """The user's choices; absent means the usual."""

    tier: ScaleTier | None = None
    accelerator: GpuType | TpuVersion | None = None
    framework: str = "tensorflow"
    workers: int = 0


def new_job(choices: Choices, *, file: str, schema: str) -> NewJob:
    """Return the job that choices come to.

    Args:
        choices: what was asked for.
        file: what the file is called in its own comments.
        schema: where its editor finds the JSON Schema, relative to it.

    Raises:
        UsageError: choices do not go together.
    """
    accelerator, workers = choices.accelerator, choices.workers
    tier = choices.tier or (ScaleTier.CUSTOM if accelerator or workers else ScaleTier.BASIC)
    _refuse_tier(tier, choices)
    _refuse_framework(tier, choices)
    machines = _machines(accelerator, workers) if accelerator else ()
    custom = tier is ScaleTier.CUSTOM
    attached = isinstance(accelerator, GpuType) and not machines
    named = {machine.role for machine in machines}
    on_tpu = isinstance(accelerator, TpuVersion)
    usual = _GPU_MACHINE if attached else _CPU_MACHINE
    return NewJob(
        file=file,
        schema=schema,
        summary=_summary(tier, choices),
        tier=tier.value,
        tier_comment=_TIERS[tier],
        region=_region(accelerator),
        master_type=usual if custom and "master" not in named else None,
        worker_type=usual if workers and "worker" not in named else None,
        workers=workers,
        workers_comment="They work beside the master; TF_CONFIG and CLUSTER_SPEC tell each replica who the others are.",
        accelerator=accelerator.value if attached and accelerator else None,
        image=_TPU_IMAGE if on_tpu else _images(accelerator).get(choices.framework),
        requirements=_requirements(choices.framework, on_tpu=on_tpu),
        machines=machines,
        machines_comment="Today's machines, by role. `encamp explain encamp.machines` says what may stand here.",
        provisioning=_provisioning(accelerator) if machines else None,
        zone=f"{_region(accelerator)}-a",
    )


def _refuse_tier(tier: ScaleTier, choices: Choices) -> None:
    if tier is not ScaleTier.CUSTOM and (choices.accelerator or choices.workers):
        raise UsageError(f"tier {tier.value} comes with machines of its own", hint="drop --tier, or say --tier CUSTOM")
    if tier is ScaleTier.BASIC_TPU:
        hint = "choose a TPU of today, such as --accelerator v5e"
        raise UsageError("the images of the runtime versions have no TPU support", hint=hint)
    if not 0 <= choices.workers <= _MOST_WORKERS:
        raise UsageError(f"{choices.workers} workers", hint=f"0 to {_MOST_WORKERS}")


def _refuse_framework(tier: ScaleTier, choices: Choices) -> None:
    """Refuse a framework that cannot use the chosen tier or accelerator."""
    several = choices.workers > 0 or tier in {ScaleTier.STANDARD_1, ScaleTier.PREMIUM_1}
    on_tpu = isinstance(choices.accelerator, TpuVersion)
    accelerated = choices.accelerator is not None or tier is ScaleTier.BASIC_GPU
    if choices.framework == "scikit-learn" and (several or accelerated):
        hint = "drop the tier, the accelerator and the workers; --tier CUSTOM lets you choose a larger machine"
        raise UsageError("scikit-learn runs on the CPUs of one machine", hint=hint)
    if choices.framework == "xgboost" and on_tpu:
        raise UsageError("XGBoost runs on no TPU", hint="choose a GPU, such as --accelerator NVIDIA_L4")
    if choices.framework == "tensorflow" and _lacks_tensorflow(choices.accelerator):
        hint = "choose another framework, such as --framework pytorch"
        raise UsageError(f"TensorFlow is not built for {choices.accelerator}", hint=hint)


def _lacks_tensorflow(accelerator: GpuType | TpuVersion | None) -> bool:
    """Whether TensorFlow has no build for an accelerator."""
    if isinstance(accelerator, TpuVersion):
        return data_file("runtimes")["tpu"]["leastTensorflow"][accelerator.value] is None
    return _least_cuda(accelerator) >= _numbers(_NO_TENSORFLOW_CUDA)


def _machines(accelerator: GpuType | TpuVersion, workers: int) -> tuple[NewMachine, ...]:
    """Return entries of ``encamp.machines``; none where AI Platform's own fields can say it."""
    if isinstance(accelerator, TpuVersion):
        return (_tpu(accelerator, workers),)
    if gpu_counts(accelerator.value, _GPU_MACHINE):
        return ()
    count = min(data_file("gpus")[accelerator.value]["counts"])
    roles = ("master", "worker") if workers else ("master",)
    return tuple(NewMachine(role, gpu=accelerator.value, gpu_count=count) for role in roles)


def _provisioning(accelerator: GpuType | TpuVersion | None) -> str | None:
    """Return the provisioning model for the machines of :func:`_machines` if they are not offered on demand."""
    if not isinstance(accelerator, GpuType):
        return None
    entry, placement = data_file("gpus")[accelerator.value], data_file("placement")
    fewest = min(entry["machines"], key=lambda name: data_file("machines")[name]["gpu"]["count"])
    for only in placement["consumption"]:
        if fewest in only["machines"]:
            return str(only["provisioning"][0])
    return "SPOT" if fewest in placement["notOnDemand"]["machines"] else None


def _tpu(version: TpuVersion, workers: int) -> NewMachine:
    """Return the largest slice of one host for the master, or the slice whose hosts the workers are."""
    found = slices(version.value).values()
    fitting = [each for each in found if each.hosts == max(workers, 1)]
    if not fitting:
        possible = ", ".join(str(hosts) for hosts in sorted({each.hosts for each in found}) if hosts <= _MOST_WORKERS)
        message = f"no slice of TPU {version.value} has {workers} hosts, and the workers are the hosts of one slice"
        raise UsageError(message, hint=f"choose a number of workers among {possible}")
    role = "worker" if workers else "master"
    return NewMachine(role, tpu_version=version.value, tpu_topology=fitting[-1].topology)


def _region(accelerator: GpuType | TpuVersion | None) -> str:
    if not isinstance(accelerator, TpuVersion):
        return _USUAL_REGION
    zones = data_file("regions")["tpuZones"][accelerator.value]["zones"]
    regions = [zone.rpartition("-")[0] for zone in zones]
    return _USUAL_REGION if _USUAL_REGION in regions else regions[0]


def _images(accelerator: GpuType | TpuVersion | None) -> Mapping[str, str]:
    """Return images by framework; a framework without one is in the image of the runtime version."""
    if accelerator is GpuType.NVIDIA_GB200:
        return _ARM_IMAGES
    stock = max((_numbers(entry["cuda"]) for entry in data_file("runtimes")["versions"].values()), default=())
    return _IMAGES_OF_NEW_GPUS if _least_cuda(accelerator) > stock else _IMAGES


def _least_cuda(accelerator: GpuType | TpuVersion | None) -> tuple[int, ...]:
    if not isinstance(accelerator, GpuType):
        return ()
    return _numbers(data_file("gpus")[accelerator.value]["leastCuda"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _requirements(framework: str, *, on_tpu: bool) -> tuple[str, ...]:
    framework_itself = _TPU_REQUIREMENTS[framework] if on_tpu else _REQUIREMENTS.get(framework, ())
    return (*framework_itself, *_OF_THE_TRAINER)


def _summary(tier: ScaleTier, choices: Choices) -> str:
    accelerator = f" with {choices.accelerator.value}" if choices.accelerator else ""
    workers = f", a master and {choices.workers} worker{'s' * (choices.workers != 1)}" if choices.workers else ""
    return f"A {choices.framework} job on scale tier {tier.value}{accelerator}{workers}."


def render(job: NewJob) -> str:
    """Return the text of the file."""
    import jinja2  # noqa: PLC0415 - most commands render nothing

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - YAML, no HTML
    environment.filters["tojson"] = _scalar
    text = resource("templates", "new", "job.yaml.j2").read_text(encoding="utf-8")
    return environment.from_string(text).render(job=job) + "\n"


def trainer_files(framework: str) -> Mapping[str, str]:
    """Return file name to text of a first trainer package, which reads digits that come with scikit-learn."""
    task = resource("templates", "new", "task.py").read_text(encoding="utf-8")
    model = resource("templates", "new", "model", f"{framework}.py").read_text(encoding="utf-8")
    return {"__init__.py": "", "task.py": task, "model.py": model}


def _scalar(value: str | int) -> str:
    """Return a value as YAML: a plain word where it reads back as the same text, in quotes otherwise."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and plain_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
