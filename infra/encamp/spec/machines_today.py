"""Questions about today's machines of Google Cloud, for the rules of ``encamp.machines``.

The facts are data (:mod:`encamp.spec.data_files`). Nothing raises: what is not offered is None or empty, and the rule
reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.encamp import MachineSpec


@dataclass(frozen=True)
class Slice:
    """A TPU slice: its shape, its chips in all, the machine of each host and how many hosts form it."""

    topology: str
    chips: int
    machine_type: str
    hosts: int


@cache
def tpu_hosts() -> Mapping[str, str]:
    """Return the generation of each TPU machine type whose figures are known."""
    return {
        name: version
        for version, generation in data_file("tpus").items()
        for name, host in generation["machines"].items()
        if host["vcpu"] is not None
    }


@cache
def machine_types() -> frozenset[str]:
    """Return every machine type that can be had today, TPU hosts included."""
    return frozenset([*data_file("machines"), *tpu_hosts()])


def built_in_gpu(machine_type: str) -> tuple[str, int] | None:
    """Return the type and count of the GPUs that are part of a machine."""
    entry = data_file("machines").get(machine_type)
    gpu = entry["gpu"] if entry else None
    return (gpu["type"], gpu["count"]) if gpu else None


def gpu_counts(gpu: str, machine_type: str | None) -> tuple[int, ...]:
    """Return the possible GPU counts of a type on a machine; without a machine, those on any machine."""
    entry = data_file("gpus")[gpu]
    if machine_type is None:
        return tuple(entry["counts"])
    built_in = built_in_gpu(machine_type)
    if built_in is not None:
        return (built_in[1],) if built_in[0] == gpu else ()
    machine = data_file("machines").get(machine_type)
    if machine is None or not machine_type.startswith(f"{entry['family']}-"):
        return ()
    return tuple(int(count) for count, most in entry.get("maxVcpu", {}).items() if machine["vcpu"] <= most)


@cache
def slices(version: str) -> Mapping[str, Slice]:
    """Return the slices of a TPU generation by their topology.

    The listed ones by size, then those made of whole cubes.
    """
    generation = data_file("tpus")[version]
    listed = {
        topology: Slice(topology, entry["chips"], entry["machineType"], entry["hosts"])
        for topology, entry in generation["topologies"].items()
    }
    return listed | _cubes(generation, listed)


def _cubes(generation: Mapping[str, Any], listed: Mapping[str, Slice]) -> dict[str, Slice]:
    """Return slices of whole cubes, sides in ascending order, that are not listed one by one."""
    rule = generation.get("cubes")
    if rule is None:
        return {}
    side, most, machine_type = rule["side"], rule["most"], rule["machineType"]
    per_host = generation["machines"][machine_type]["chips"]
    found: list[Slice] = []
    for a in range(1, most + 1):
        for b in range(a, most // a + 1):
            for c in range(b, most // (a * b) + 1):
                chips = a * b * c * side**3
                found.append(Slice(f"{a * side}x{b * side}x{c * side}", chips, machine_type, chips // per_host))
    # Of the slices of one size the most compact is the first.
    found.sort(key=lambda each: (each.chips, int(each.topology.rpartition("x")[2])))
    return {each.topology: each for each in found if each.topology not in listed}


def tpu_slice(version: str, topology: str, machine_type: str | None = None) -> Slice | None:
    """Return the slice of a topology, on another host than usual where one is named and possible.

    None if there is none.
    """
    found = slices(version).get(topology)
    if found is None or machine_type in {None, found.machine_type}:
        return found
    other = data_file("tpus")[version].get("alternative", {})
    if (other.get("topology"), other.get("machineType")) != (topology, machine_type):
        return None
    return Slice(topology, found.chips, other["machineType"], other["hosts"])


def asked_slice(machine: MachineSpec) -> Slice | None:
    """Return the slice that a role's machine asks for, by topology or by chips.

    None if it asks for none that there is.
    """
    tpu = machine.tpu
    if tpu is None or tpu.version is None:
        return None
    if tpu.topology is not None:
        return tpu_slice(tpu.version.value, tpu.topology, machine.machine_type)
    of_size = [each.topology for each in slices(tpu.version.value).values() if each.chips == tpu.chips]
    found = (tpu_slice(tpu.version.value, topology, machine.machine_type) for topology in of_size)
    return next((each for each in found if each is not None), None)


def host_type(machine: MachineSpec) -> str | None:
    """Return the machine type that a role's machine names or comes to; None if accelerators do not tell."""
    if machine.machine_type is not None:
        return machine.machine_type
    if machine.tpu is not None:
        found = asked_slice(machine)
        return found.machine_type if found else None
    if machine.gpu is not None and machine.gpu.type is not None:
        entry = data_file("gpus")[machine.gpu.type.value]
        return next(iter(entry.get("machines", ["n1-standard-4"])))
    return None


def disk_types(machine_type: str) -> tuple[str, ...]:
    """Return kinds of boot disk that a machine takes, the usual one first; empty for a machine that is not offered."""
    families = data_file("disks")["machineFamilies"]
    fitting = [family for family in families if machine_type.startswith(f"{family}-")]
    return tuple(families[max(fitting, key=len)]["types"]) if fitting else ()


def disk_sizes_gb() -> tuple[int, int]:
    """Return the smallest and largest boot disk."""
    sizes = data_file("disks")["sizeGb"]
    return sizes["smallest"], sizes["largest"]


@cache
def regions() -> frozenset[str]:
    """Return regions where today's accelerators are."""
    data = data_file("regions")
    zones = (zone for places in data["tpuZones"].values() for zone in [*places["zones"], *places["unverified"]])
    machines = (region for places in data["gpuMachineTypes"].values() for region in places["regions"])
    return frozenset([*machines, *(zone.rpartition("-")[0] for zone in zones)])


def stands(machine: MachineSpec | None) -> bool:
    """Whether a role's machine says enough to stand for the machine type that AI Platform asked for."""
    return machine is not None and (
        machine.machine_type is not None or machine.gpu is not None or machine.tpu is not None
    )
