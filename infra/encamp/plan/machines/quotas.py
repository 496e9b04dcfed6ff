"""Google Cloud quotas that a job uses, and how much of each, when all of its machines run at once.

Spot machines, and those that start when there is room, draw on quotas of their own (``PREEMPTIBLE_…``): a project with
plenty of the usual quota may have none of these. Machines of a reservation draw on none of their kind, for the
reservation holds it already; their disks and addresses count all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.environment.model import SYSTEM_DISK, SYSTEM_DISK_GB
from encamp.plan.machines import catalog
from encamp.spec import machines_today
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.plan.model import EnvironmentPlan, JobPlan, NodePoolPlan


@dataclass(frozen=True)
class QuotaNeed:
    """So much of one quota of a region.

    Attributes:
        metric: the quota's name in Compute Engine's list of a region, or, with a family, in the Cloud Quotas API.
        region: where it counts.
        amount: CPUs, GPUs, chips, GB or machines.
        dimension: by what the quota is divided (``vm_family``, ``gpu_family``, ``tpu_family``), None if it is not.
        family: the value of that dimension.
    """

    metric: str
    region: str
    amount: int
    dimension: str | None = None
    family: str | None = None

    @property
    def name(self) -> str:
        """The quota in words: the metric, and its family."""
        return self.metric if self.family is None else f"{self.metric} ({self.dimension}: {self.family})"


def quotas(plan: JobPlan) -> tuple[QuotaNeed, ...]:
    """Return the job's largest use of each quota, sorted by name.

    Raises:
        PlanError: nothing is known of the quotas of a machine.
    """
    total: dict[str, QuotaNeed] = {}
    for pool in plan.node_pools:
        for need in pool_quotas(pool, plan.cluster_region):
            known = total.get(need.name)
            total[need.name] = need if known is None else replace(known, amount=known.amount + need.amount)
    return tuple(total[name] for name in sorted(total))


def environment_quotas(plan: EnvironmentPlan) -> tuple[QuotaNeed, ...]:
    """Return an environment's use of its region's quotas: its permanent machines, and their disks."""
    pool = plan.gke.system_pool
    if pool is None:
        return ()
    machine = catalog.machine(pool.machine_type)
    needs = (
        _need(_cpus(pool.machine_type), plan.region, machine.vcpu * pool.max_nodes, cpus=True),
        _need(data_file("quotas")["disks"][SYSTEM_DISK], plan.region, SYSTEM_DISK_GB * pool.max_nodes),
        QuotaNeed("INSTANCES", plan.region, pool.max_nodes),
    )
    return tuple(sorted(needs, key=lambda need: need.name))


def pool_quotas(pool: NodePoolPlan, region: str) -> Iterator[QuotaNeed]:
    """Yield one pool's use of quotas with all of its nodes; see :func:`quotas`."""
    machine, nodes = catalog.machine(pool.machine_type), pool.max_nodes
    taken = pool.spot or pool.waits_for_room
    if pool.reservation is None:
        version = machines_today.tpu_hosts().get(pool.machine_type)
        if version is None:
            yield _need(_cpus(pool.machine_type), region, machine.vcpu * nodes, cpus=True, preemptible=taken)
        if pool.accelerator is not None:
            kind = _tpus(version) if version is not None else _gpus(pool.accelerator.type)
            yield _need(kind, region, pool.accelerator.count * nodes, preemptible=taken)
    yield _need(data_file("quotas")["disks"][pool.disk_type], region, pool.disk_size_gb * nodes)
    yield QuotaNeed("INSTANCES", region, nodes)


def _need(
    entry: Mapping[str, str], region: str, amount: int, *, cpus: bool = False, preemptible: bool = False
) -> QuotaNeed:
    metric = entry["metric"]
    if preemptible:
        other = data_file("quotas")["preemptible"]
        if cpus:
            return QuotaNeed(other["cpus"], region, amount)
        metric = f"{other['prefix']}{metric}"
    return QuotaNeed(metric, region, amount, entry.get("dimension"), entry.get("family"))


def _cpus(machine_type: str) -> Mapping[str, str]:
    family = machine_type.partition("-")[0]
    return _known("cpus", family, f"machines of family {family}")


def _gpus(gke: str) -> Mapping[str, str]:
    found = catalog.gpu_of_gke(gke)
    return _known("gpus", found.name if found else gke, gke)


def _tpus(version: str) -> Mapping[str, str]:
    return _known("tpus", version, f"TPU {version}")


def _known(kind: str, name: str, what: str) -> Mapping[str, str]:
    entry: Mapping[str, str] | None = data_file("quotas")[kind].get(name)
    if entry is None:
        raise PlanError(f"the catalog knows no quota of {what}", hint="choose another machine type")
    return entry
