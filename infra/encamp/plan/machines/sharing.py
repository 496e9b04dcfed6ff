"""The choice between an environment's shared pools and pools of the job's own.

A job of a queue uses a shared pool that has its machine, boot disk and way of getting it. What belongs to one run stays
the job's own; each reason is a row of :data:`REASONS`. Then the job holds a pool while it waits, and its plan says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.plan.environment.shared_pools import plan_shared_pools
from encamp.spec.encamp import Provisioning

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from encamp.plan.model import NodePoolPlan
    from encamp.spec.environment import EnvironmentSpec


@dataclass(frozen=True)
class Wanted:
    """A job's pool, and the job's requests beside it.

    Attributes:
        zone: the zone that the job names.
        shared: the shared pool with the same machine, or None.
    """

    pool: NodePoolPlan
    zone: str | None
    shared: NodePoolPlan | None


@dataclass(frozen=True)
class Reason:
    """A reason for a pool of the job's own: a test, and words that follow "because"."""

    holds: Callable[[Wanted], bool]
    text: str


def _without_streaming(wanted: Wanted) -> bool:
    return wanted.pool.image_streaming and wanted.shared is not None and not wanted.shared.image_streaming


def _elsewhere(wanted: Wanted) -> bool:
    return wanted.zone is not None and wanted.shared is not None and wanted.shared.zones != (wanted.zone,)


def _longer(wanted: Wanted) -> bool:
    shared = wanted.shared
    return shared is not None and wanted.pool.max_run_duration_seconds > shared.max_run_duration_seconds


#: In the order in which they are given; the first that holds counts.
REASONS = (
    Reason(lambda wanted: wanted.pool.multi_host, "a slice of several hosts is one pool, which no two jobs can use"),
    Reason(lambda wanted: wanted.pool.compact, "its machines stand close to each other and to no other job's"),
    Reason(lambda wanted: wanted.pool.reservation is not None, "its machines are those of a reservation"),
    Reason(
        lambda wanted: wanted.pool.provisioning == Provisioning.FLEX_START,
        "a flex-start machine ends 7 days after its start, whoever uses it",
    ),
    Reason(lambda wanted: wanted.shared is None, "no shared pool has this machine with this boot disk"),
    Reason(_without_streaming, "it asks for image streaming, which the shared pool has not"),
    Reason(_elsewhere, "it names a zone, and the shared pool's machines may be in others"),
    Reason(_longer, "it may run longer than a shared machine lives"),
)


@dataclass(frozen=True)
class Sharing:
    """The pools of a job after sharing.

    Attributes:
        pools: shared ones under the environment's names, in the order given.
        names: new name of each pool by its own.
        warnings: which pools the job holds while it waits, and why.
    """

    pools: tuple[NodePoolPlan, ...]
    names: Mapping[str, str]
    warnings: tuple[str, ...]


def share(
    pools: Sequence[NodePoolPlan], environment: EnvironmentSpec, *, zone: str | None, kept: Collection[str]
) -> Sharing:
    """Take from the environment's shared pools what a job in a queue can use of them.

    Args:
        pools: as the job would make them.
        environment: where it runs.
        zone: the zone that the job names.
        kept: names of pools that the job has already.
    """
    known = {_machine(pool): pool for pool in plan_shared_pools(environment)}
    if environment.queues is None or (not known and environment.queues.pools is not None):
        return Sharing(tuple(pools), {pool.name: pool.name for pool in pools}, ())
    found: dict[str, NodePoolPlan] = {}
    warnings: list[str] = []
    for pool in pools:
        wanted = Wanted(pool, zone, known.get(_machine(pool)))
        has = pool.name in kept
        reason = None if has else next((one.text for one in REASONS if one.holds(wanted)), None)
        if reason is not None:
            warnings.append(
                f"the job holds a node pool of its own while it waits in its queue ({pool.name}), because {reason}"
            )
        found[pool.name] = pool if has or reason is not None or wanted.shared is None else _use(wanted.shared, pool)
    return Sharing(tuple(found.values()), {name: pool.name for name, pool in found.items()}, tuple(warnings))


def _machine(pool: NodePoolPlan) -> tuple[object, ...]:
    """Return the properties that a shared pool and a job's must have in common."""
    return (
        pool.machine_type,
        pool.accelerator,
        pool.tpu_topology,
        pool.provisioning,
        pool.disk_type,
        pool.disk_size_gb,
    )


def _use(shared: NodePoolPlan, pool: NodePoolPlan) -> NodePoolPlan:
    """Return the shared pool as the job uses it.

    As many machines, for as long, with what its replicas claim of them.
    """
    return replace(
        shared,
        max_nodes=pool.max_nodes,
        max_run_duration_seconds=pool.max_run_duration_seconds,
        rdma_nics=pool.rdma_nics,
    )
