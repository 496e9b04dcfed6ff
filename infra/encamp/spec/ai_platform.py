"""Machine types, accelerator counts, regions and runtime versions that AI Platform Training accepted, as data.

A job file is checked against what AI Platform accepted; today's machines, which ``encamp.machines`` names, are in
:mod:`encamp.spec.machines_today`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from encamp.spec.data_files import data_file

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
        compute_engine_types: accepted Compute Engine type to ``confirmed`` or ``unverified``.
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
        """Return every machine type name that a type field took."""
        return [*self.legacy_types, *self.compute_engine_types]

    def category(self, machine_type: str) -> str | None:
        """Return ``legacy``, ``Compute Engine`` or ``TPU``; None for a name that was never accepted."""
        if machine_type == CLOUD_TPU:
            return "TPU"
        if machine_type in self.legacy_types:
            return "legacy"
        return "Compute Engine" if machine_type in self.compute_engine_types else None


@cache
def ai_platform() -> AiPlatform:
    """Return the tables, read once."""
    data = data_file("ai_platform")
    accepted = data["computeEngineMachineTypes"]["names"]
    built_in = {name: data_file("machines")[name]["gpu"] for name in accepted}
    return AiPlatform(
        legacy_types=frozenset(data_file("tiers")["legacyMachineTypes"]),
        compute_engine_types=accepted,
        gpu_counts=data["gpuCounts"]["machineTypes"],
        built_in_gpus={name: (gpu["type"], gpu["count"]) for name, gpu in built_in.items() if gpu is not None},
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
    """Return a version that can be compared: ``1.15`` is after ``1.4``."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())
