"""Node pools of a job: one for each shape of machine, empty until pods wait for it, as large as its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.limits import node_run_duration_seconds
from encamp.plan.model import JOB_LABEL, LimitsPlan, NodePoolPlan
from encamp.plan.names import pool_name
from encamp.spec.training import BootDiskType, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.machines import Shape
    from encamp.plan.replicas import RoleRequest
    from encamp.spec.training import ReplicaConfig, Scheduling

DEFAULT_DISK_GB = 100


def node_pools(
    name: str,
    requests: Sequence[RoleRequest],
    scheduling: Scheduling | None,
    limits: LimitsPlan,
    labels: Mapping[str, str],
) -> tuple[tuple[NodePoolPlan, ...], tuple[str, ...]]:
    """The pools of a job, and the pool of each request by its position."""
    spot = scheduling is not None and scheduling.strategy is Strategy.LOW_COST
    pools: dict[str, NodePoolPlan] = {}
    hosts: list[str] = []
    for request in requests:
        disk_type, disk_gb = _disk(request.config)
        key = pool_name(name, _shape_text(request.shape, disk_type, disk_gb, spot=spot))
        known = pools.get(key)
        pools[key] = NodePoolPlan(
            name=key,
            machine_type=request.shape.machine_type,
            accelerator=request.shape.accelerator,
            tpu_topology=request.shape.tpu_topology,
            min_nodes=0,
            max_nodes=request.count + (known.max_nodes if known else 0),
            spot=spot,
            disk_type=disk_type,
            disk_size_gb=disk_gb,
            max_run_duration_seconds=node_run_duration_seconds(limits),
            labels=labels,
            taint=(JOB_LABEL, name, "NoSchedule"),
            tpu_hosts=request.shape.tpu_hosts,
        )
        hosts.append(key)
    return tuple(pools.values()), tuple(hosts)


def _disk(config: ReplicaConfig) -> tuple[str, int]:
    disk = config.disk_config
    kind = (disk.boot_disk_type if disk else None) or BootDiskType.PD_SSD
    size = (disk.boot_disk_size_gb if disk else None) or DEFAULT_DISK_GB
    return kind.value, size


def _shape_text(shape: Shape, disk_type: str, disk_gb: int, *, spot: bool) -> str:
    """A shape in words; what is usual is left out, so that the usual name is short."""
    parts = [shape.machine_type]
    if shape.accelerator is not None and shape.tpu_topology is None:
        parts.append(
            f"{shape.accelerator.type.removeprefix('nvidia-').removeprefix('tesla-')}-{shape.accelerator.count}"
        )
    if shape.tpu_topology is not None:
        parts.append(shape.tpu_topology)
    if disk_type != BootDiskType.PD_SSD.value:
        parts.append(disk_type)
    if disk_gb != DEFAULT_DISK_GB:
        parts.append(f"{disk_gb}gb")
    return "-".join([*parts, "spot"] if spot else parts)
