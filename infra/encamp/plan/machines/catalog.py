"""Machines, accelerators and regions that Google Cloud offers today, and the equivalents of AI Platform's names.

All facts are data, see :mod:`encamp.spec.data_files`; they stand in ``spec`` because rules of job files need them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError
from encamp.plan.model import Accelerator
from encamp.spec import machines_today
from encamp.spec.data_files import data_file
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Machine:
    """A machine type: virtual CPUs, GiB of memory, and the accelerator that is part of it (GKE's name).

    Attributes:
        network_profile: how GKE sets up the network between such machines' accelerators, None if it does not.
        architecture: of its CPUs, in Kubernetes' words: ``amd64`` or ``arm64``.
        rdma_nics: network interfaces for RDMA between its GPUs and those of other machines, 0 if it has none.
    """

    name: str
    vcpu: int
    memory_gib: float
    accelerator: Accelerator | None = None
    network_profile: str | None = None
    architecture: str = "amd64"
    rdma_nics: int = 0

    @property
    def is_tpu(self) -> bool:
        """Whether it is a TPU host."""
        return self.accelerator is not None and self.accelerator.type.startswith("tpu")


@dataclass(frozen=True)
class Gpu:
    """A GPU: its name in AI Platform and in GKE, and how it may be attached.

    Attributes:
        max_vcpu: count to the largest vCPU number of a machine that takes so many; empty for built-in GPUs.
        machines: machine types that it is part of; empty for attachable GPUs.
        family: machine types that it is part of, or may be attached to, begin with it.
        substitute: what is taken instead where Google no longer offers it: type, and count to count.
        least_cuda: oldest CUDA whose libraries have code for it.
    """

    name: str
    gke: str
    counts: tuple[int, ...]
    max_vcpu: Mapping[int, int]
    offered: bool
    substitute: tuple[str, Mapping[int, int]] | None
    machines: tuple[str, ...] = ()
    family: str = "n1"
    least_cuda: str = ""


@dataclass(frozen=True)
class TpuSlice:
    """A TPU slice: the machine of each host with its chips (GKE's name), its topology, and how many hosts form it."""

    kind: str
    topology: str
    machine_type: str
    accelerator: Accelerator
    hosts: int


@dataclass(frozen=True)
class TierGroup:
    """One role of a scale tier, in AI Platform's names."""

    machine_type: str
    count: int
    accelerator: Accelerator | None


def _accelerator(entry: Mapping[str, Any] | None) -> Accelerator | None:
    return None if entry is None else Accelerator(entry["type"], entry["count"])


def machine(name: str) -> Machine:
    """Return a machine type of today, TPU hosts included.

    Raises:
        PlanError: the catalog has no such machine, or no figures of it.
    """
    entry = data_file("machines").get(name)
    if entry is not None:
        built_in = entry["gpu"]
        accelerator = Accelerator(gpu(built_in["type"]).gke, built_in["count"]) if built_in else None
        return Machine(
            name,
            entry["vcpu"],
            entry["memoryGb"],
            accelerator,
            entry.get("networkProfile"),
            entry.get("architecture", "amd64"),
            entry.get("rdmaNics", 0),
        )
    for kind in data_file("tpus").values():
        host = kind["machines"].get(name)
        if host is not None and host["vcpu"] is not None:
            return Machine(name, host["vcpu"], host["memoryGb"], Accelerator(host["gke"], host["chips"]))
    raise PlanError(f"the catalog has no figures of machine type {name!r}", hint="choose another machine type")


def gpu(name: str) -> Gpu:
    """Return a GPU by AI Platform's name.

    Raises:
        PlanError: the catalog has no such GPU.
    """
    entry = data_file("gpus").get(name)
    if entry is None:
        raise PlanError(f"the catalog has no GPU {name!r}")
    substitute = entry.get("substitute")
    return Gpu(
        name=name,
        gke=entry["gke"],
        counts=tuple(entry["counts"]),
        max_vcpu={int(count): most for count, most in entry.get("maxVcpu", {}).items()},
        offered=entry["offered"],
        substitute=(substitute["type"], {int(old): new for old, new in substitute["counts"].items()})
        if substitute
        else None,
        machines=tuple(entry.get("machines", ())),
        family=entry["family"],
        least_cuda=entry["leastCuda"],
    )


def gpu_of_gke(name: str) -> Gpu | None:
    """Return a GPU by GKE's name, or None."""
    found = next((key for key, entry in data_file("gpus").items() if entry["gke"] == name), None)
    return None if found is None else gpu(found)


def single_host_topology(machine_type: str) -> str | None:
    """Return the topology of the TPU slice that one machine of a type is.

    None if it takes several, or is no TPU host.
    """
    version = machines_today.tpu_hosts().get(machine_type)
    for topology in machines_today.slices(version) if version else ():
        found = machines_today.tpu_slice(version or "", topology, machine_type)
        if found is not None and (found.hosts, found.machine_type) == (1, machine_type):
            return topology
    return None


def tpu_slice(version: str, found: machines_today.Slice) -> TpuSlice:
    """Return a slice of a TPU generation in GKE's names."""
    host = data_file("tpus")[version]["machines"][found.machine_type]
    accelerator = Accelerator(host["gke"], host["chips"])
    return TpuSlice(version, found.topology, found.machine_type, accelerator, found.hosts)


def ai_platform_tpu(name: str, cores: int) -> tuple[TpuSlice | None, bool]:
    """Return today's equivalent of an AI Platform TPU with so many cores, or None; and whether it is still offered."""
    entry = data_file("ai_platform_tpus")[name]
    version = entry["kind"]
    if version is None:
        return None, False
    chips = cores // data_file("tpus")[version]["coresPerChip"]
    of_size = (each for each in machines_today.slices(version).values() if each.chips == chips)
    found = next(of_size, None)
    return (None if found is None else tpu_slice(version, found)), entry["offered"]


def tpu_zones(version: str) -> tuple[str, ...]:
    """Return the zones where a TPU generation is, confirmed ones first."""
    places = data_file("regions")["tpuZones"][version]
    return (*places["zones"], *places["unverified"])


def gpu_zones(machine_type: str) -> tuple[str, ...] | None:
    """Return the zones that have a machine with GPUs; None if nothing is known of it."""
    table = data_file("regions")["gpuZones"]
    entry = table.get(machine_type) or table.get(machine_type.rpartition("-")[0])
    return None if entry is None else tuple(entry["zones"])


def flex_start_zones(version: str) -> tuple[str, ...]:
    """Return the zones that are known to give a TPU generation when there is room."""
    entry = data_file("regions")["flexStartZones"].get(version)
    return () if entry is None else tuple(entry["zones"])


def workload_policy(version: str) -> str | None:
    """Return the workload policy that places a slice of several hosts of a TPU generation. None if a topology does."""
    policy: str | None = data_file("tpus")[version].get("workloadPolicy")
    return policy


def smallest_machine(found: Gpu, count: int) -> str | None:
    """Return the smallest machine, by virtual CPUs and then by price, that has so many of a GPU or takes them.

    Of the machines that GPUs are attached to, those count that AI Platform took with so many, from its smallest tier's
    machine on: GKE itself would attach eight GPUs to one virtual CPU.
    """
    table = data_file("machines")
    if found.machines:
        fitting = [name for name in found.machines if table[name]["gpu"]["count"] == count]
    else:
        least = table[scale_tier("BASIC")[Role.MASTER].machine_type]["vcpu"]
        most = found.max_vcpu.get(count, 0)
        taken = data_file("ai_platform")["gpuCounts"]["machineTypes"]
        fitting = [
            name
            for name, counts in taken.items()
            if name in table and count in counts.get(found.name, ()) and least <= table[name]["vcpu"] <= most
        ]
    prices = data_file("prices")["machines"]
    return min(
        fitting, key=lambda name: (table[name]["vcpu"], prices.get(name, {}).get("usdPerHour", 0.0)), default=None
    )


def scale_tier(name: str) -> Mapping[Role, TierGroup]:
    """Return the roles that a scale tier has other than CUSTOM."""
    entry = data_file("tiers")["scaleTiers"][name]
    return {
        role: TierGroup(entry[role]["machineType"], entry[role]["count"], _accelerator(entry[role]["accelerator"]))
        for role in Role
        if entry.get(role) is not None
    }


def legacy_machine_type(name: str) -> tuple[str | None, Accelerator | None] | None:
    """Return Compute Engine machine type and accelerator (AI Platform's name) of a legacy type.

    None for any other name.
    """
    entry = data_file("tiers")["legacyMachineTypes"].get(name)
    return None if entry is None else (entry["machineType"], _accelerator(entry["accelerator"]))


def built_in_accelerator(name: str) -> Accelerator | None:
    """Return the accelerator that is part of a Compute Engine machine type, in AI Platform's name."""
    entry = data_file("machines").get(name)
    return _accelerator(entry["gpu"]) if entry is not None else None
