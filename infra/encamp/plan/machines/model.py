"""A node pool of a job, decided: a part of :mod:`encamp.plan.model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.spec.encamp import WHEN_THERE_IS_ROOM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import Accelerator


@dataclass(frozen=True)
class NodePoolPlan:
    """Machines of one shape, scaled from ``min_nodes`` to ``max_nodes`` by what is pending.

    Attributes:
        tpu_topology: topology of a TPU slice, also of a single host.
        taint: key, value and effect.
        tpu_hosts: hosts of one TPU slice, None without TPUs. A slice of one host takes no placement policy: GKE refuses
            a topology there; one of several hosts needs a compact one.
        provisioning: how its machines are got: ON_DEMAND, SPOT, FLEX_START, QUEUED or RESERVATION; without accelerators
            one of the first two.
        reservation: name of the reservation, with RESERVATION only.
        image_streaming: whether containers start while their image is being read.
        zone: the one zone of its nodes, None if there may be several.
        zones: the zones that its nodes may be in, empty for those of the cluster; with a zone that one alone.
        compact: whether its nodes stand close together, without being a TPU slice.
        max_pods_per_node: how many addresses for pods each node takes.
        service_account: account of its nodes, None for the project's default account.
        disk_key: Cloud KMS key of its nodes' disks, None for Google's own.
        workload_policy: kind of the workload policy that places a slice of several hosts; None if a compact
            placement does.
        shared_in: full name of the cluster whose environment owns the pool for the jobs of its queues; None if it is
            the job's own. ``max_nodes`` and the run duration are then those of the job, of a pool that may be larger.
        network_profile: profile by which GKE sets up the network between accelerators, None if it needs none.
        rdma_nics: network interfaces with RDMA that the replica on each of its nodes claims, 0 for none.
        architecture: of its CPUs, in Kubernetes' words.
    """

    name: str
    machine_type: str
    accelerator: Accelerator | None
    tpu_topology: str | None
    min_nodes: int
    max_nodes: int
    disk_type: str
    disk_size_gb: int
    max_run_duration_seconds: int
    labels: Mapping[str, str]
    taint: tuple[str, str, str]
    tpu_hosts: int | None = None
    provisioning: str = "ON_DEMAND"
    reservation: str | None = None
    image_streaming: bool = False
    zone: str | None = None
    zones: tuple[str, ...] = ()
    compact: bool = False
    max_pods_per_node: int = 32
    service_account: str | None = None
    disk_key: str | None = None
    workload_policy: str | None = None
    network_profile: str | None = None
    rdma_nics: int = 0
    architecture: str = "amd64"
    shared_in: str | None = None

    @property
    def spot(self) -> bool:
        """Whether its machines may be taken away at any time."""
        return self.provisioning == "SPOT"

    @property
    def multi_host(self) -> bool:
        """Whether its nodes are the hosts of one TPU slice, which come and go together."""
        return (self.tpu_hosts or 1) > 1

    @property
    def waits_for_room(self) -> bool:
        """Whether its machines start when Google has room for them, and end after 7 days at the latest."""
        return self.provisioning in WHEN_THERE_IS_ROOM
