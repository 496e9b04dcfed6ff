"""What AI Platform Training accepted: machine types, accelerator counts, regions and runtime versions, as data.

What today's cloud offers is ``encamp.plan.catalog``; a job file is judged by what AI Platform took.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The machine type that stands for a TPU worker.
CLOUD_TPU = "cloud_tpu"


@dataclass(frozen=True)
class RuntimeVersion:
    """A runtime image: TensorFlow's minor version and the Python versions it came with."""

    version: str
    tensorflow: str
    pythons: tuple[str, ...]


@dataclass(frozen=True)
class AiPlatform:
    """The tables.

    Attributes:
        legacy_types: legacy machine type names, ``cloud_tpu`` among them.
        compute_engine_types: Compute Engine type to ``confirmed``, ``unverified`` or ``never`` accepted.
        gpu_counts: machine type to accelerator type to the counts that may be attached.
        built_in_gpus: machine type to the accelerator type and count that it carries.
        accelerator_regions: accelerator type to its regions, confirmed and not.
    """

    legacy_types: frozenset[str]
    compute_engine_types: Mapping[str, str]
    gpu_counts: Mapping[str, Mapping[str, Sequence[int]]]
    built_in_gpus: Mapping[str, tuple[str, int]]
    regions: tuple[str, ...]
    accelerator_regions: Mapping[str, frozenset[str]]
    runtime_versions: Mapping[str, RuntimeVersion]

    def accepted_types(self) -> list[str]:
        """Every machine type name that a type field took."""
        return [
            *self.legacy_types,
            *(name for name, accepted in self.compute_engine_types.items() if accepted != "never"),
        ]

    def category(self, machine_type: str) -> str | None:
        """``legacy``, ``Compute Engine`` or ``TPU``; None for a name that was never accepted."""
        if machine_type == CLOUD_TPU:
            return "TPU"
        if machine_type in self.legacy_types:
            return "legacy"
        if self.compute_engine_types.get(machine_type, "never") != "never":
            return "Compute Engine"
        return None


@cache
def ai_platform() -> AiPlatform:
    """The tables, read once."""
    data: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "ai_platform.json").read_bytes())
    built_in = data["builtInGpus"]["machineTypes"]
    return AiPlatform(
        legacy_types=frozenset(data["legacyMachineTypes"]["names"]),
        compute_engine_types=data["computeEngineMachineTypes"]["names"],
        gpu_counts=data["gpuCounts"]["machineTypes"],
        built_in_gpus={name: (gpu["type"], gpu["count"]) for name, gpu in built_in.items()},
        regions=tuple(data["regions"]["names"]),
        accelerator_regions={
            name: frozenset([*places["confirmed"], *places["unverified"]])
            for name, places in data["acceleratorRegions"].items()
        },
        runtime_versions={
            version: RuntimeVersion(version, entry["tensorflow"], tuple(entry["pythons"]))
            for version, entry in data["runtimeVersions"].items()
        },
    )


def version_key(version: str) -> tuple[int, ...]:
    """A version that can be compared: ``1.15`` is after ``1.4``."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
