"""The GPUs of this machine, divided over the replicas of a local run by CUDA_VISIBLE_DEVICES.

Found without starting a framework: by CUDA_VISIBLE_DEVICES where it is given, else by what the driver shows. A replica
that got none sees none; where this machine has none at all, nothing is set.

No GPU is given to two replicas: frameworks take all memory of a GPU they see, and NCCL refuses two ranks on one. And
either every replica that computes gets one or none does, since most strategies fail where devices differ.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.plan.model import Accelerator
    from encamp.spec.roles import Role

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: The same value that CUDA's own documents use to hide all.
NO_DEVICES = "-1"
_DRIVER = Path("/proc/driver/nvidia")
_SMI_SECONDS = 10.0
_GPU_LINE = re.compile(r"^GPU (\d+): .*\(UUID: (GPU-[^)]+)\)")
_MIG_LINE = re.compile(r"^\s+MIG .*\(UUID: (MIG-[^)]+)\)")


@dataclass(frozen=True)
class DevicePlan:
    """The GPUs that each replica sees.

    Attributes:
        env: for each replica that is to see other GPUs than the command itself, CUDA_VISIBLE_DEVICES.
        notes: what the user is told, such as that accelerators are simulated.
    """

    env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def local_gpus(
    environ: Mapping[str, str], *, driver: Path = _DRIVER, smi: Callable[[], str] | None = None
) -> tuple[str, ...]:
    """Return the GPUs that a program started here would see, by the names that CUDA_VISIBLE_DEVICES takes.

    Args:
        environ: of this command.
        driver: where the driver shows its GPUs as files, which costs no time.
        smi: gives what ``nvidia-smi -L`` prints; asked where the driver's files do not answer.
    """
    given = environ.get(VISIBLE)
    if given is not None:
        return _given(given)
    cards = _entries(driver / "gpus")
    partitioned = any((driver / "capabilities").glob("gpu*/mig/gi*/ci*"))
    if cards and not partitioned:
        return tuple(str(index) for index in range(len(cards)))
    return _listed((smi or (lambda: _nvidia_smi(environ)))())


def divide(
    gpus: tuple[str, ...], replicas: Mapping[str, Role], asked: Mapping[str, Accelerator] | None = None
) -> DevicePlan:
    """Divide GPUs over replicas, the primary first.

    Args:
        gpus: names of GPUs.
        replicas: each replica's name and role, in the order of their indices.
        asked: what the replicas of a job file ask for, without those that ask for none; None if there is no job
            file, so that all GPUs go to the replicas that compute.
    """
    if asked is not None:
        return _as_asked(gpus, replicas, asked)
    takers = [name for name, role in replicas.items() if role.computes]
    if not gpus or len(replicas) == 1:
        return DevicePlan()
    if len(gpus) < len(takers):
        return DevicePlan(_shares({}, replicas), (_too_few(len(gpus), len(takers)),))
    shares = {name: gpus[at :: len(takers)] for at, name in enumerate(takers)}
    return DevicePlan(_shares(shares, replicas), (_told(shares),))


def _as_asked(gpus: tuple[str, ...], replicas: Mapping[str, Role], asked: Mapping[str, Accelerator]) -> DevicePlan:
    chips = [want for want in asked.values() if _is_tpu(want)]
    wanting = {name: asked[name] for name in replicas if name in asked and not _is_tpu(asked[name])}
    simulated = _simulated(chips, "this machine has no TPU")
    if not gpus or len(gpus) < len(wanting):
        why = _too_few(len(gpus), len(wanting)) if gpus else "this machine has no GPU"
        notes = _simulated([*wanting.values()], why)
        return DevicePlan(_shares({}, replicas) if gpus else {}, (*notes, *simulated))
    shares = _dealt(gpus, {name: want.count for name, want in wanting.items()})
    notes = (_told(shares),) if wanting else ()
    fewer = [
        f"{name} gets {len(shares[name])} of {want.count}"
        for name, want in wanting.items()
        if len(shares[name]) < want.count
    ]
    short = (f"this machine has fewer GPUs than the job asks for: {', '.join(fewer)}",) if fewer else ()
    return DevicePlan(_shares(shares, replicas), (*notes, *short, *simulated))


def _dealt(gpus: tuple[str, ...], counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Deal one GPU after the other to those that want more, so that all come short alike."""
    shares: dict[str, tuple[str, ...]] = dict.fromkeys(counts, ())
    left = list(gpus)
    while left and (short := [name for name, count in counts.items() if len(shares[name]) < count]):
        for name in short[: len(left)]:
            shares[name] += (left.pop(0),)
    return shares


def _shares(shares: Mapping[str, tuple[str, ...]], replicas: Mapping[str, Role]) -> dict[str, dict[str, str]]:
    return {name: {VISIBLE: ",".join(shares.get(name, ())) or NO_DEVICES} for name in replicas}


def _told(shares: Mapping[str, tuple[str, ...]]) -> str:
    return "GPUs: " + ", ".join(f"{name} sees {','.join(gpus)}" for name, gpus in shares.items() if gpus)


def _too_few(gpus: int, takers: int) -> str:
    have = f"{gpus} GPU{'s' * (gpus != 1)}"
    return f"{have} cannot be divided over {takers} replicas that compute, so that none is used (see --max-replicas)"


def _simulated(asked: Sequence[Accelerator], why: str) -> tuple[str, ...]:
    if not asked:
        return ()
    kinds = sorted({want.type for want in asked})
    return (f"accelerators are simulated ({', '.join(kinds)}): {why}; the job runs on CPUs",)


def _is_tpu(asked: Accelerator) -> bool:
    return asked.type.lower().startswith("tpu")


def _given(value: str) -> tuple[str, ...]:
    """Return the devices that CUDA reads from the variable: all before the first name that cannot be one."""
    found: list[str] = []
    for name in value.split(","):
        word = name.strip()
        if not re.fullmatch(r"\d+|GPU-[0-9a-fA-F-]+|MIG-[\w/.-]+", word) or word in found:
            break
        found.append(word)
    return tuple(found)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _listed(text: str) -> tuple[str, ...]:
    """Return the devices of ``nvidia-smi -L``: a GPU that is partitioned stands for its partitions."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if card := _GPU_LINE.match(line):
            found.append((card[2], []))
        elif found and (part := _MIG_LINE.match(line)):
            found[-1][1].append(part[1])
    return tuple(name for card, parts in found for name in (parts or [card]))


def _nvidia_smi(environ: Mapping[str, str]) -> str:
    """Return the tool's output; empty if it is not installed or does not answer."""
    program = which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return ""
    try:
        ran = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=_SMI_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout if ran.returncode == 0 else ""
