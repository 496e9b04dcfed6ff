"""RDMA between the GPUs of several machines, by GKE's managed DRANET and Google's plugin for NCCL.

The node pool has the driver's label, each replica claims all RDMA network interfaces of its machine, and an init
container brings NCCL's plugin. Beliefs: gke-managed-dranet, gke-nccl-gib, gke-nccl-gib-in-a-volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.cost.prices import machine_price
from encamp.plan.machines import catalog
from encamp.plan.machines.system_pods import NodeFeature
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from encamp.plan.model import NodePoolPlan, ReplicaGroupPlan
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.prices import PriceTableSpec

#: Machines whose GPUs speak by NVLink across machines too, where the cluster has NVIDIA's driver for it.
_NVLINK_ACROSS = "a4x-"


def driver_label() -> str:
    """Return the label by which a node pool asks for the driver of network interfaces."""
    found: str = data_file("rdma")["label"]
    return found


def device_class() -> str:
    """Return the class of network interfaces with RDMA."""
    found: str = data_file("rdma")["deviceClass"]
    return found


def plugin_folder() -> str:
    """Return the folder in which replicas find NCCL's plugin."""
    found: str = data_file("rdma")["plugin"]["folder"]
    return found


def plugin_image(architecture: str) -> str:
    """Return the image that brings NCCL's plugin to machines with such CPUs."""
    found: str = data_file("rdma")["plugin"]["images"][architecture]
    return found


def rdma_nics(machine_type: str, nodes: int) -> int:
    """Return network interfaces with RDMA that each replica of a run claims, which has so many machines of a type."""
    return catalog.machine(machine_type).rdma_nics if nodes > 1 else 0


def node_features_of(pool: NodePoolPlan, cluster: frozenset[NodeFeature]) -> frozenset[NodeFeature]:
    """Return features of a pool's nodes.

    Those of the cluster, and the driver of network interfaces where the pool has it.
    """
    return cluster | {NodeFeature.NETWORK_DRIVER} if driver_label() in pool.labels else cluster


def rdma_warnings(
    groups: Sequence[ReplicaGroupPlan],
    pools: Sequence[NodePoolPlan],
    environment: EnvironmentSpec,
    table: PriceTableSpec,
) -> Iterator[str]:
    """Yield warnings about RDMA between a job's GPUs: requirements that are open, and RDMA that it does not get.

    Args:
        groups: its roles.
        pools: its node pools.
        environment: where it runs.
        table: prices of machines.
    """
    for pool in pools:
        count = sum(group.count for group in groups if group.node_pool == pool.name)
        if pool.rdma_nics:
            yield from _needs(pool, environment)
        elif count > 1:
            yield from _unused(pool, count, table)
    roles = ", ".join(group.role.value for group in groups if group.rdma_nics and group.interpreter is None)
    if roles:
        folder = plugin_folder()
        yield (
            f"RDMA is used only if the images' own programs load NCCL's plugin ({roles}): `source "
            f"{folder}/scripts/set_nccl_env.sh`, with {folder}/lib64 first in LD_LIBRARY_PATH"
        )


def _needs(pool: NodePoolPlan, environment: EnvironmentSpec) -> Iterator[str]:
    if "cluster" in environment.adopt:
        yield (
            f"RDMA between the machines needs GKE {data_file('rdma')['leastGke']} or newer with Dataplane V2: in a "
            f"cluster without, replicas wait in vain for {pool.machine_type}"
        )
    if environment.queues is not None and not environment.installs_controllers and not environment.is_sandbox:
        yield (
            f"Kueue of the cluster must let jobs in that claim devices of {device_class()}: its feature gates "
            "KueueDRAIntegration and KueueDRARejectWorkloadsWhenDRADisabled must be off"
        )
    if pool.machine_type.startswith(_NVLINK_ACROSS):
        yield (
            f"NVLink between machines of {pool.machine_type} is not set up, which takes NVIDIA's ComputeDomains: "
            "between machines their GPUs speak by RDMA"
        )


def _unused(pool: NodePoolPlan, count: int, table: PriceTableSpec) -> Iterator[str]:
    network = data_file("rdma")["otherNetworks"].get(pool.machine_type)
    if network is None:
        return
    each = machine_price(table, pool.machine_type, pool.accelerator, pool.provisioning)
    price = "" if each is None else f", {each * count:.2f} USD an hour"
    able = ", ".join(name for name, entry in data_file("machines").items() if entry.get("rdmaNics"))
    yield (
        f"{network} is not set up: GPUs of different machines ({count} x {pool.machine_type}{price}) speak over the "
        f"one usual network interface of each; encamp sets up RDMA for {able}"
    )
