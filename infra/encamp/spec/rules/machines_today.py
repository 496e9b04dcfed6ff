"""Rules of ``encamp.machines``: E02-E06 and E15."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec import machines_today as today
from encamp.spec.paths import nearest
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT

if TYPE_CHECKING:
    from encamp.spec.encamp import MachineSpec
    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

_MOST_LISTED = 12


def check_machines(case: Case) -> None:
    """Check E02-E06 and E15 for each role that has a machine."""
    machines = case.job.encamp.machines
    if machines is None:
        return
    if not case.custom:
        given = "none is given" if case.input.scale_tier is None else f"it is {case.tier.value}"
        message = f"needs scaleTier CUSTOM, and {given}"
        case.problem("E02", ("encamp", "machines"), message, "set scaleTier: CUSTOM, or remove the machines")
        return
    for role in Role:
        machine = case.machine(role)
        if machine is None:
            continue
        path = ("encamp", "machines", role.field)
        _machine_type(case, machine, path)
        _accelerators(case, machine, path)
        _gpu(case, machine, path)
        _tpu(case, machine, path)
        _boot_disk(case, role, machine, path)
        _hosts(case, role, machine, path)


def _machine_type(case: Case, machine: MachineSpec, path: DataPath) -> None:
    """Check E15: a machine type that can be had today."""
    name = machine.machine_type
    if name is None:
        return
    known = today.machine_types()
    if name not in known:
        close = nearest(name, sorted(known))
        case.problem(
            "E15",
            (*path, "machine_type"),
            f"{name[:60]!r} is no machine type in the catalog",
            f"write {close}" if close else "such as n1-standard-4 or g2-standard-12",
        )
    elif name in today.tpu_hosts() and machine.tpu is None and not case.broken(*path, "tpu"):
        message = f"is missing: {name} is a host of TPU {today.tpu_hosts()[name]}, and of which slice is not said"
        case.problem("E05", (*path, "tpu"), message, "write tpu: {version: ..., topology: ...}")


def _accelerators(case: Case, machine: MachineSpec, path: DataPath) -> None:
    """Check E03: one kind of accelerator, by its full name."""
    if machine.gpu is not None and machine.tpu is not None:
        case.problem("E03", path, "has gpu and tpu; a machine has one kind of accelerator", "remove one of the two")
    if machine.gpu is not None and machine.gpu.type is None:
        case.problem("E03", (*path, "gpu", "type"), "is missing: gpus are of a type", "such as NVIDIA_L4")
    if machine.tpu is not None and machine.tpu.version is None:
        case.problem("E03", (*path, "tpu", "version"), "is missing: a TPU is of a generation", "such as v5e")


def _gpu(case: Case, machine: MachineSpec, path: DataPath) -> None:
    """Check E04: so many of a GPU on that machine, or on any."""
    gpu = machine.gpu
    if gpu is None or gpu.type is None or case.broken(*path, "gpu", "count"):
        return
    name = machine.machine_type if machine.machine_type in today.machine_types() else None
    if machine.machine_type is not None and name is None:
        return
    possible = today.gpu_counts(gpu.type.value, name)
    if not possible:
        built_in = today.built_in_gpu(name or "")
        has = f"it has {built_in[1]} x {built_in[0]}" if built_in else "it takes none of them"
        message = f"{gpu.type.value} cannot be attached to {name}: {has}"
        case.problem("E04", (*path, "gpu", "type"), message, "leave machineType out: the smallest that fits is taken")
    elif (gpu.count if gpu.count is not None else 1) not in possible:
        given = "is 1 because none is given" if gpu.count is None else f"{gpu.count} is not possible"
        takes = f"{name} takes" if name else "machines have"
        message = f"{given}: {takes} {_either(possible)} of {gpu.type.value}"
        case.problem("E04", (*path, "gpu", "count"), message, f"write {_closest(gpu.count or 1, possible)}")


def _tpu(case: Case, machine: MachineSpec, path: DataPath) -> None:
    """Check E05: a slice that there is, said by topology or by chips."""
    tpu = machine.tpu
    if tpu is None or case.broken(*path, "tpu", "topology") or case.broken(*path, "tpu", "chips"):
        return
    where = (*path, "tpu")
    if tpu.topology is not None and tpu.chips is not None:
        case.problem("E05", (*where, "chips"), "excludes topology: exactly one of the two", "remove chips")
        return
    if tpu.version is None:
        return
    slices = today.slices(tpu.version.value)
    sizes = sorted({each.chips for each in slices.values()})
    if tpu.topology is None and tpu.chips is None:
        case.problem("E05", (*where, "topology"), "is missing: a slice has a shape", f"such as {next(iter(slices))}")
    elif tpu.topology is not None and tpu.topology not in slices:
        close = nearest(tpu.topology, list(slices))
        message = f"TPU {tpu.version.value} has no slice {tpu.topology[:40]!r}, but {_listed(list(slices))}"
        case.problem("E05", (*where, "topology"), message, f"write {close}" if close else None)
    elif tpu.chips is not None and tpu.chips not in sizes:
        message = f"no slice of TPU {tpu.version.value} has {tpu.chips} chips; they have {_listed(sizes)}"
        case.problem("E05", (*where, "chips"), message, f"write {_closest(tpu.chips, sizes)}")
    elif machine.machine_type in today.machine_types() and today.asked_slice(machine) is None:
        usual = today.asked_slice(machine.model_copy(update={"machine_type": None}))
        message = f"{machine.machine_type} is no host of this slice of TPU {tpu.version.value}"
        hint = f"write {usual.machine_type}, or leave it out" if usual else None
        case.problem("E05", (*path, "machine_type"), message, hint)


def _boot_disk(case: Case, role: Role, machine: MachineSpec, path: DataPath) -> None:
    """Check E15: a boot disk that the machine takes, of a size that is made."""
    disk, old = machine.boot_disk, case.config(role).disk_config
    kind: str | None = None
    where: DataPath = (*path, "boot_disk", "type")
    if disk is not None and disk.type is not None:
        kind = disk.type.value
    elif old is not None and old.boot_disk_type is not None:
        kind, where = old.boot_disk_type.value, (INPUT, role.config_field, "disk_config", "boot_disk_type")
    name = today.host_type(machine) or case.machine_type(role)
    possible = today.disk_types(name) if name is not None else ()
    if kind is not None and possible and kind not in possible:
        case.problem("E15", where, f"{name} has no {kind}; it takes {', '.join(possible)}", f"write {possible[0]}")
    smallest, largest = today.disk_sizes_gb()
    if disk is not None and disk.size_gb is not None and not smallest <= disk.size_gb <= largest:
        case.problem("E15", (*path, "boot_disk", "size_gb"), f"{disk.size_gb} must be {smallest} to {largest} (GB)")


def _hosts(case: Case, role: Role, machine: MachineSpec, path: DataPath) -> None:
    """Check E06: where a slice may stand, and as many workers as it has hosts; what has no replica has no machine."""
    if machine.tpu is None:
        if role.count_field is not None and case.count(role) == 0 and not case.broken(INPUT, role.count_field):
            case.warn("V04", path, f"has no effect: there are no {role.words}s")
        return
    if not role.computes:
        message = f"{role.words}s have no TPU: the code that uses one runs on the master or the workers"
        case.problem("E06", (*path, "tpu"), message, "move it to encamp.machines.worker")
        return
    found = today.asked_slice(machine)
    if found is None:
        return
    if role is Role.MASTER and found.hosts > 1:
        message = f"{found.topology} has {found.hosts} hosts; the master is one machine, and takes a slice of one host"
        hint = f"move it to encamp.machines.worker, with workerCount: {found.hosts}"
        case.problem("E06", (*path, "tpu"), message, hint)
    elif role is Role.WORKER and case.count(role) != found.hosts and not case.broken(INPUT, "worker_count"):
        hosts = f"{found.hosts} host{'s' * (found.hosts != 1)}"
        message = (
            f"{case.count(role)} must be {found.hosts}: {found.topology} has {hosts}, and the workers are one slice"
        )
        case.problem("E06", (INPUT, "worker_count"), message, f"write {found.hosts}")


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(str(value) for value in values)


def _listed(values: list[str] | list[int]) -> str:
    words = [str(value) for value in values]
    more = f" and {len(words) - _MOST_LISTED} larger ones" if len(words) > _MOST_LISTED else ""
    return ", ".join(words[:_MOST_LISTED]) + more


def _closest(value: int, possible: tuple[int, ...] | list[int]) -> int:
    return min(possible, key=lambda each: (abs(each - value), each))
