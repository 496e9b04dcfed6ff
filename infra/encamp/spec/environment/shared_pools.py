"""The ``queues.pools`` block of an environment: node pools that the jobs of all queues share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec import machines_today as today
from encamp.spec.encamp import MachineSpec, Provisioning
from encamp.spec.environment.problems import Found
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from encamp.spec.loading import DataPath

#: Provisioning models whose machines several jobs may use, one after the other.
SHAREABLE = (Provisioning.ON_DEMAND, Provisioning.SPOT, Provisioning.QUEUED)
#: Compute Engine's longest run duration of a machine, in days.
LONGEST_MACHINE_DAYS = 120

#: A provisioning model, and an accelerator as quotas name it.
Kind = tuple[Provisioning, str | None]


class SharedPoolSpec(MachineSpec):
    """A node pool for the jobs of all queues: one machine, scaled from none to what the quotas allow."""

    provisioning: Provisioning = Provisioning.ON_DEMAND
    """How the machines are provisioned: ``ON_DEMAND``, ``SPOT`` or ``QUEUED``."""


def shared_pool_problems(at: DataPath, pool: SharedPoolSpec, kinds: Collection[Kind]) -> Iterator[Found]:
    """Yield every problem of one.

    Args:
        at: path of the pool.
        pool: as written.
        kinds: what the teams have quotas for.
    """
    if pool.provisioning not in SHAREABLE:
        message = f"{pool.provisioning.value} is for pools of a job's own"
        yield Found((*at, "provisioning"), message, "write ON_DEMAND, SPOT or QUEUED, or leave the pool out")
    found = list(_machine(at, pool))
    yield from found
    if found or pool.provisioning not in SHAREABLE:
        return
    if pool.provisioning is Provisioning.QUEUED and accelerator(pool) is None:
        yield Found((*at, "provisioning"), "QUEUED is for machines with GPUs or TPUs", "write ON_DEMAND or SPOT")
    elif (pool.provisioning, accelerator(pool)) not in kinds:
        what = f"{pool.provisioning.value} {accelerator(pool) or 'without accelerator'}"
        yield Found(at, f"no team has a quota for {what}", "add one to queues.teams, or leave the pool out")


def accelerator(pool: MachineSpec) -> str | None:
    """Return the accelerator of a machine as quotas name it; None if it has none."""
    if pool.gpu is not None and pool.gpu.type is not None:
        return pool.gpu.type.value
    if pool.tpu is not None and pool.tpu.version is not None:
        return pool.tpu.version.value
    built_in = today.built_in_gpu(pool.machine_type or "")
    return built_in[0] if built_in else None


def _machine(at: DataPath, pool: SharedPoolSpec) -> Iterator[Found]:
    name = pool.machine_type
    if name is None and pool.gpu is None and pool.tpu is None:
        yield Found(at, "names no machine", "write machineType, gpu or tpu")
    elif name is not None and name not in today.machine_types():
        close = nearest(name, sorted(today.machine_types()))
        message = f"{name[:60]!r} is no machine type in the catalog"
        yield Found((*at, "machine_type"), message, f"write {close}" if close else "such as n1-standard-4")
    elif pool.gpu is not None and pool.tpu is not None:
        yield Found(at, "has gpu and tpu; a machine has one kind of accelerator", "remove one of the two")
    elif pool.gpu is not None:
        yield from _gpu(at, pool)
    elif pool.tpu is not None:
        yield from _tpu(at, pool)
    elif name in today.tpu_hosts():
        yield Found((*at, "tpu"), f"is missing: {name} is a host of a TPU slice", "write tpu: {version, topology}")
    yield from _disk(at, pool)


def _gpu(at: DataPath, pool: SharedPoolSpec) -> Iterator[Found]:
    gpu = pool.gpu
    if gpu is None or gpu.type is None:
        yield Found((*at, "gpu", "type"), "is missing: gpus are of a type", "such as NVIDIA_L4")
        return
    count = 1 if gpu.count is None else gpu.count
    possible = today.gpu_counts(gpu.type.value, pool.machine_type)
    if count not in possible:
        takes = f"possible counts: {', '.join(map(str, possible))}" if possible else "leave machineType out"
        on = f" on {pool.machine_type}" if pool.machine_type else ""
        yield Found((*at, "gpu"), f"no machine has {count} x {gpu.type.value}{on}", takes)


def _tpu(at: DataPath, pool: SharedPoolSpec) -> Iterator[Found]:
    tpu = pool.tpu
    if tpu is None or tpu.version is None:
        yield Found((*at, "tpu", "version"), "is missing: a TPU is of a generation", "such as v5e")
        return
    found = today.asked_slice(pool)
    if found is None:
        listed = ", ".join(name for name, each in today.slices(tpu.version.value).items() if each.hosts == 1)
        yield Found((*at, "tpu"), f"TPU {tpu.version.value} has no such slice", f"of one host: {listed}")
    elif found.hosts > 1:
        message = f"a slice {found.topology} has {found.hosts} hosts, which are a pool of one job's own"
        yield Found((*at, "tpu"), message, "leave it out: jobs bring such slices themselves")


def _disk(at: DataPath, pool: SharedPoolSpec) -> Iterator[Found]:
    disk, machine = pool.boot_disk, today.host_type(pool)
    possible = today.disk_types(machine) if machine is not None else ()
    if disk is None:
        return
    if disk.type is not None and possible and disk.type.value not in possible:
        message = f"{machine} has no {disk.type.value}"
        yield Found((*at, "boot_disk", "type"), message, f"it takes {', '.join(possible)}")
    smallest, largest = today.disk_sizes_gb()
    if disk.size_gb is not None and not smallest <= disk.size_gb <= largest:
        yield Found((*at, "boot_disk", "size_gb"), f"{disk.size_gb} must be {smallest} to {largest} (GB)")
