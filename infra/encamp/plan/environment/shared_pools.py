"""Node pools that the jobs of an environment's queues share: empty until replicas wait, as large as the quotas allow.

They belong to the environment, so that a job that waits for its quota holds no pool, and a job that is admitted finds
the machines that another one has just left. Which of a job's machines are taken from here decides
:mod:`encamp.plan.machines.sharing`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.plan.environment.gke import node_features
from encamp.plan.environment.queues import FLAVOR_LABEL, pool_flavor, quota_label
from encamp.plan.machines import catalog
from encamp.plan.machines.placing import PlaceRequest, offered, place
from encamp.plan.machines.pools import PoolMachine, PoolUse, disk_of, pool_of
from encamp.plan.machines.preconditions import way_refused
from encamp.plan.machines.rdma import driver_label, node_features_of, rdma_nics
from encamp.plan.machines.room import replica_room
from encamp.plan.machines.shapes import Choice, is_ai_platform_tpu, requested, shape, today
from encamp.plan.model import ENVIRONMENT_LABEL, OWNER_LABEL
from encamp.spec import machines_today
from encamp.spec.data_files import data_file
from encamp.spec.encamp import (
    WHEN_THERE_IS_ROOM,
    GpuSpec,
    GpuType,
    MachineSpec,
    Provisioning,
    TpuSpec,
    TpuVersion,
)
from encamp.spec.environment.gke import GkeSpec
from encamp.spec.environment.shared_pools import SHAREABLE, SharedPoolSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from encamp.plan.machines.shapes import Shape
    from encamp.plan.model import NodePoolPlan, ResourceAmounts
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.queues import QueuesSpec

#: Nodes of one pool at most. Belief: ``gke-nodes-per-pool``.
MOST_NODES = 1000
_SECONDS_A_DAY = 86_400
_MILLIS, _GIB_IN_MIB = 1000, 1024
_WHERE = "encamp:environment.queues.pools"


def plan_shared_pools(environment: EnvironmentSpec) -> tuple[NodePoolPlan, ...]:
    """Return an environment's shared pools, without usual ones that region or quotas leave no machine of.

    Raises:
        PlanError: a pool that the environment names cannot be.
    """
    queues = environment.queues
    if queues is None:
        return ()
    if queues.pools is None:
        return _possible(usual_pools(queues, SHAREABLE), environment, queues)
    found = {}
    for index, written in enumerate(queues.pools):
        pool, problem = _examined(written, environment, queues, f"{_WHERE}[{index}]")
        if problem is not None:
            raise problem
        found[pool.name] = pool
    return tuple(found.values())


def quota_pools(environment: EnvironmentSpec) -> tuple[NodePoolPlan, ...]:
    """Return pools of every kind of machine that the quotas allow, the environment's and those that jobs would bring.

    Machines of reservations are left out: the reservation holds them already.
    """
    queues = environment.queues
    if queues is None:
        return ()
    written = [*usual_pools(queues, (*SHAREABLE, Provisioning.FLEX_START)), *(queues.pools or ())]
    return _possible(written, environment, queues)


def usual_pools(queues: QueuesSpec, ways: Collection[Provisioning]) -> Iterator[SharedPoolSpec]:
    """Yield the machines that jobs usually ask for, of each kind that a team has a quota for.

    Those are the machines of AI Platform's scale tiers, the smallest machine with each possible number of a GPU, and
    TPU slices of one host.

    Args:
        queues: with the quotas.
        ways: of getting machines; quotas for other ways are left out.
    """
    kinds = {quota_label(quota): quota for team in (queues.teams or {}).values() for quota in team.quotas}
    for _, quota in sorted(kinds.items()):
        if quota.provisioning in ways:
            for machine in _usual_machines(quota.accelerator):
                yield SharedPoolSpec(**dict(machine), provisioning=quota.provisioning)


def _usual_machines(accelerator: str | None) -> Iterator[MachineSpec]:
    if accelerator is None:
        yield from (MachineSpec(machine_type=name) for name in _machines_of_tiers(None))
    elif accelerator in data_file("tpus"):
        slices = machines_today.slices(accelerator).values()
        for topology in (each.topology for each in slices if each.hosts == 1):
            yield MachineSpec(tpu=TpuSpec(version=TpuVersion(accelerator), topology=topology))
    else:
        gpu = catalog.gpu(accelerator)
        smallest = {count: catalog.smallest_machine(gpu, count) for count in gpu.counts}
        machines = {(name, count) for count, name in smallest.items() if name is not None}
        machines |= {(name, 1) for name in _machines_of_tiers(gpu.gke)}
        for name, count in sorted(machines, key=lambda each: (each[1], each[0])):
            yield MachineSpec(machine_type=name, gpu=GpuSpec(type=GpuType(accelerator), count=count))


def _machines_of_tiers(accelerator: str | None) -> tuple[str, ...]:
    """Return machine types of AI Platform's scale tiers with one GPU of a kind (GKE's name), or without a GPU."""
    found: set[str] = set()
    for tier in data_file("tiers")["scaleTiers"]:
        for group in catalog.scale_tier(tier).values():
            wanted = requested(group.machine_type, group.accelerator)
            if not is_ai_platform_tpu(wanted):
                chosen = shape(wanted, Choice(""))
                if (chosen.accelerator.type if chosen.accelerator is not None else None) == accelerator:
                    found.add(chosen.machine_type)
    return tuple(sorted(found))


def _possible(
    written: Iterable[SharedPoolSpec], environment: EnvironmentSpec, queues: QueuesSpec
) -> tuple[NodePoolPlan, ...]:
    examined = (_examined(each, environment, queues, _WHERE) for each in written)
    return tuple({pool.name: pool for pool, problem in examined if problem is None}.values())


def _examined(
    written: SharedPoolSpec, environment: EnvironmentSpec, queues: QueuesSpec, where: str
) -> tuple[NodePoolPlan, PlanError | None]:
    """Return a pool, and why there can be none; None if there can."""
    machine_shape = today(written, None, Choice(where))[1]
    pool = _pool(written, machine_shape, environment, queues)
    problem = _not_offered(pool, machine_shape, environment, where)
    if problem is not None:
        return pool, problem
    features = node_features_of(pool, node_features(environment))
    try:
        asked = replica_room(pool.machine_type, pool.accelerator, features).request
    except PlanError as error:
        return pool, PlanError(error.what, where=where, hint=error.hint)
    pool = replace(pool, max_nodes=_most_nodes(pool, asked, queues))
    if pool.max_nodes >= 1:
        return pool, None
    what = f"the quotas for {pool.labels[FLAVOR_LABEL]} leave no room for one {pool.machine_type}"
    return pool, PlanError(what, where=where, hint="raise a quota in queues.teams, or leave the pool out")


def _pool(
    written: SharedPoolSpec, machine_shape: Shape, environment: EnvironmentSpec, queues: QueuesSpec
) -> NodePoolPlan:
    disk = written.boot_disk
    kind = str(disk.type) if disk is not None and disk.type is not None else None
    request = PlaceRequest(zone=None, one=False, flex_start=written.provisioning in WHEN_THERE_IS_ROOM)
    machine = PoolMachine(
        machine_shape,
        disk_of(machine_shape.machine_type, kind, disk.size_gb if disk is not None else None),
        written.provisioning,
        place(machine_shape, request, environment),
        image_streaming=(environment.gke or GkeSpec()).image_streaming,
    )
    taint = (ENVIRONMENT_LABEL, environment.name, "NoSchedule")
    longest = queues.machine_days * _SECONDS_A_DAY
    labels = {OWNER_LABEL: environment.owner, ENVIRONMENT_LABEL: environment.name}
    if nics := rdma_nics(machine_shape.machine_type, MOST_NODES):
        labels[driver_label()] = "true"
    pool = pool_of(machine, PoolUse(environment.name, taint, 0, longest, labels), environment)
    return replace(
        pool,
        labels={**labels, FLAVOR_LABEL: pool_flavor(pool)},
        rdma_nics=nics,
        shared_in=f"projects/{environment.project}/locations/{environment.region}/clusters/{environment.cluster}",
    )


def _most_nodes(pool: NodePoolPlan, asked: ResourceAmounts, queues: QueuesSpec) -> int:
    """Return the number of replicas with such requests that all teams' quotas for the pool's kind allow together."""
    teams = (queues.teams or {}).values()
    quotas = [quota for team in teams for quota in team.quotas if quota_label(quota) == pool.labels[FLAVOR_LABEL]]
    limits = [MOST_NODES]
    if pool.accelerator is not None:
        limits.append(sum(quota.count or 0 for quota in quotas) // pool.accelerator.count)
    for amounts, one in (
        ([quota.cpu for quota in quotas], asked.cpu_millis / _MILLIS),
        ([quota.memory_gib for quota in quotas], asked.memory_mib / _GIB_IN_MIB),
    ):
        limited = [amount for amount in amounts if amount is not None]
        if len(limited) == len(quotas):
            limits.append(int(sum(limited) / one))
    return min(limits)


def _not_offered(
    pool: NodePoolPlan, machine_shape: Shape, environment: EnvironmentSpec, where: str
) -> PlanError | None:
    """Return the error if Google does not offer a pool's machine; None if it does."""
    refused = way_refused(pool)
    if refused is not None:
        what, hint = refused
        return PlanError(what, where=where, hint=f"{hint}, or leave the pool out")
    zones = offered(machine_shape)
    region = environment.region
    if zones is not None and not environment.stands_in and not any(zone.startswith(f"{region}-") for zone in zones):
        regions = ", ".join(sorted({zone.rpartition("-")[0] for zone in zones}))
        return PlanError(f"{region} has no {pool.machine_type}", where=where, hint=f"regions that have it: {regions}")
    return None
