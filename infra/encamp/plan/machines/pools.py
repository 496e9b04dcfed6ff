"""Node pools of a job: one for each shape of machine, empty until pods wait for it, as large as its replicas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from encamp.plan.environment.gke import node_account, node_features
from encamp.plan.environment.parts import plan_key
from encamp.plan.limits import node_run_duration_seconds
from encamp.plan.machines import catalog
from encamp.plan.machines.placing import Place, PlaceRequest, place
from encamp.plan.machines.preconditions import PoolCase, Situation, check
from encamp.plan.machines.rdma import driver_label, rdma_nics
from encamp.plan.model import JOB_LABEL, LimitsPlan, NodePoolPlan
from encamp.plan.names import pool_name
from encamp.plan.study import parallel_trials
from encamp.spec.encamp import WHEN_THERE_IS_ROOM, Placement, Provisioning
from encamp.spec.machines_today import disk_types
from encamp.spec.rules.options import LONGEST_FLEX
from encamp.spec.training import DiskConfig, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.machines.image_rules import ImageCase
    from encamp.plan.machines.shapes import Shape
    from encamp.plan.replicas import RoleRequest
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec

#: Size of boot disks that no field of a job gives one.
DEFAULT_DISK_GB: int = DiskConfig().or_default("boot_disk_size_gb")

#: For machines without accelerators Google offers these two only.
_FOR_ALL = (Provisioning.ON_DEMAND, Provisioning.SPOT)


@dataclass(frozen=True)
class Disk:
    """A boot disk."""

    type: str
    size_gb: int


@dataclass(frozen=True)
class PoolMachine:
    """The machine of a pool, and how it is got.

    Attributes:
        place: where its nodes may be.
        reservation: name of the reservation that it is of.
    """

    shape: Shape
    disk: Disk
    provisioning: Provisioning
    place: Place
    image_streaming: bool = False
    reservation: str | None = None

    @property
    def text(self) -> str:
        """The machine in words of names; what is usual is left out, so that the usual name is short."""
        return _shape_text(self.shape, self.disk, self.provisioning)


@dataclass(frozen=True)
class PoolUse:
    """The use of a pool.

    Attributes:
        owner: what the pool's name begins with.
        taint: what keeps other pods away: key, value and effect.
        max_nodes: how many machines there may be.
        longest_seconds: after how long a machine ends by itself.
    """

    owner: str
    taint: tuple[str, str, str]
    max_nodes: int
    longest_seconds: int
    labels: Mapping[str, str]


def node_pools(
    name: str,
    requests: Sequence[RoleRequest],
    job: TrainingJobSpec,
    *,
    environment: EnvironmentSpec,
    limits: LimitsPlan,
    labels: Mapping[str, str],
    images: Sequence[ImageCase] = (),
) -> tuple[tuple[NodePoolPlan, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the pools of a job, the pool of each request by its position, and warnings about zones.

    Args:
        name: the job's short name.
        requests: its roles.
        job: the job.
        environment: where it runs.
        limits: when it is ended.
        labels: of everything that belongs to it.
        images: image of each role; looked at together with the machines.

    Raises:
        PreconditionError: Google Cloud would refuse them.
    """
    study = job.training_input.hyperparameters
    parallel = parallel_trials(study)
    cases: dict[str, PoolCase] = {}
    hosts: list[str] = []
    warnings: list[str] = []
    for request in requests:
        pool = _pool(name, request, job, environment=environment, limits=limits, warnings=warnings)
        known = cases.get(pool.name)
        nodes = pool.max_nodes + (known.pool.max_nodes if known else 0)
        together, nics = (
            _compact(job, request.shape, nodes // parallel),
            rdma_nics(pool.machine_type, nodes // parallel),
        )
        driver = {driver_label(): "true"} if nics else {}
        whole = replace(pool, max_nodes=nodes, labels={**labels, **driver}, compact=together, rdma_nics=nics)
        cases[pool.name] = PoolCase(whole, request.shape, known.where if known else request.where)
        hosts.append(pool.name)
    trials = None if study is None else parallel
    check(
        Situation(
            name,
            environment,
            tuple(cases.values()),
            requests,
            job.encamp.zone,
            trials,
            node_features(environment),
            images,
            tuple(job.encamp.requirements or ()),
        )
    )
    return tuple(case.pool for case in cases.values()), tuple(hosts), tuple(dict.fromkeys(warnings))


def _compact(job: TrainingJobSpec, shape: Shape, nodes: int) -> bool:
    """Whether a run's machines are placed together: one alone cannot be, and a TPU slice is by its own nature."""
    return job.encamp.placement is Placement.COMPACT and shape.tpu_version is None and nodes > 1


def provisioning_of(job: TrainingJobSpec) -> Provisioning:
    """Return the provisioning of a job's machines with accelerators: encamp's block, else the scheduling strategy."""
    if job.encamp.provisioning is not None:
        return job.encamp.provisioning
    scheduling = job.training_input.scheduling
    cheap = scheduling is not None and scheduling.strategy is Strategy.LOW_COST
    return Provisioning.SPOT if cheap else Provisioning.ON_DEMAND


def _pool(
    name: str,
    request: RoleRequest,
    job: TrainingJobSpec,
    *,
    environment: EnvironmentSpec,
    limits: LimitsPlan,
    warnings: list[str],
) -> NodePoolPlan:
    shape, machine = request.shape, catalog.machine(request.shape.machine_type)
    asked = provisioning_of(job)
    got = asked if shape.accelerator is not None or asked in _FOR_ALL else Provisioning.ON_DEMAND
    placed = place(shape, _place_request(job, got), environment)
    warnings.extend((*placed.warnings, *_cautions(shape, got)))
    machine = PoolMachine(
        shape,
        _disk(request),
        got,
        placed,
        image_streaming=job.encamp.image_streaming,
        reservation=job.encamp.reservation if got is Provisioning.RESERVATION else None,
    )
    nodes = request.count * parallel_trials(job.training_input.hyperparameters)
    taint = (JOB_LABEL, name, "NoSchedule")
    return pool_of(machine, PoolUse(name, taint, nodes, node_run_duration_seconds(limits), {}), environment)


def pool_of(machine: PoolMachine, use: PoolUse, environment: EnvironmentSpec) -> NodePoolPlan:
    """Return the node pool of a machine, empty until pods wait for it."""
    shape, got = machine.shape, machine.provisioning
    nodes, key = node_account(environment), plan_key(environment)
    longest, known = use.longest_seconds, catalog.machine(shape.machine_type)
    return NodePoolPlan(
        name=pool_name(use.owner, machine.text),
        machine_type=shape.machine_type,
        accelerator=shape.accelerator,
        tpu_topology=shape.tpu_topology,
        min_nodes=0,
        max_nodes=use.max_nodes,
        disk_type=machine.disk.type,
        disk_size_gb=machine.disk.size_gb,
        max_run_duration_seconds=min(longest, LONGEST_FLEX.seconds) if got in WHEN_THERE_IS_ROOM else longest,
        labels=use.labels,
        taint=use.taint,
        tpu_hosts=shape.tpu_hosts,
        provisioning=got.value,
        reservation=machine.reservation,
        image_streaming=machine.image_streaming,
        zone=machine.place.zone,
        zones=machine.place.zones,
        workload_policy=_workload_policy(shape),
        network_profile=known.network_profile,
        architecture=known.architecture,
        service_account=nodes.email if nodes is not None else None,
        disk_key=key.full_name if key is not None else None,
    )


def _place_request(job: TrainingJobSpec, got: Provisioning) -> PlaceRequest:
    """Return the job's request for the place of machines with this provisioning."""
    one = got is Provisioning.RESERVATION or job.encamp.placement is Placement.COMPACT
    return PlaceRequest(job.encamp.zone, one, got in WHEN_THERE_IS_ROOM)


def _cautions(shape: Shape, got: Provisioning) -> tuple[str, ...]:
    """Return warnings that are not certain enough for a refusal."""
    if got is not Provisioning.QUEUED or shape.tpu_version is None:
        return ()
    return ("GKE queues for TPUs from some version on; a cluster of an older one refuses the node pool",)


def _workload_policy(shape: Shape) -> str | None:
    several = shape.tpu_version is not None and (shape.tpu_hosts or 1) > 1
    return catalog.workload_policy(shape.tpu_version) if several and shape.tpu_version else None


def _disk(request: RoleRequest) -> Disk:
    """Return the boot disk: encamp's own field, else AI Platform's, else what the machine usually has."""
    old, new = request.config.disk_config, request.disk
    kind = (new.type if new else None) or (old.boot_disk_type if old else None)
    size = (new.size_gb if new else None) or (old.boot_disk_size_gb if old else None)
    return disk_of(request.shape.machine_type, None if kind is None else str(kind), size)


def disk_of(machine_type: str, kind: str | None, size_gb: int | None) -> Disk:
    """Return the boot disk of a machine: the kind that is asked for if it takes it, else its usual one."""
    possible = disk_types(machine_type)
    return Disk(kind if kind in possible else possible[0], size_gb or DEFAULT_DISK_GB)


def _shape_text(shape: Shape, disk: Disk, provisioning: Provisioning) -> str:
    parts = [shape.machine_type]
    if shape.tpu_topology is not None:
        parts.append(shape.tpu_topology)
    elif shape.accelerator is not None:
        kind = shape.accelerator.type.removeprefix("nvidia-").removeprefix("tesla-")
        parts.append(f"{kind}-{shape.accelerator.count}")
    if disk.type != disk_types(shape.machine_type)[0]:
        parts.append(disk.type)
    if disk.size_gb != DEFAULT_DISK_GB:
        parts.append(f"{disk.size_gb}gb")
    if provisioning is not Provisioning.ON_DEMAND:
        parts.append(provisioning.value.lower().replace("_", "-"))
    return "-".join(parts)
