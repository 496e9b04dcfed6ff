"""The templates' input: Kubernetes' terms, every decision made, nothing left to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Variable:
    """One environment variable, its value as Kubernetes must see it."""

    name: str
    value: str


@dataclass(frozen=True)
class AccountView:
    """The Kubernetes service account, and the Google one that it stands for; None if it stands for itself."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    google_service_account: str | None


@dataclass(frozen=True)
class FilesView:
    """The ConfigMap with the bootstrap script."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    data: Mapping[str, str]


@dataclass(frozen=True)
class PolicyView:
    """The network policy of replicas: they talk to each other, and to the addresses of ``egress``.

    Attributes:
        egress: addresses that they reach beyond each other; None for any.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    pods: Mapping[str, str]
    egress: EgressView | None = None


@dataclass(frozen=True)
class EgressView:
    """Addresses by CIDR, and ports of TCP.

    Attributes:
        resolvers: of names.
        metadata: of tokens.
        closed: what is not the public web's.
        opened: of which every port is reached.
    """

    resolvers: tuple[str, ...]
    metadata: tuple[tuple[str, int], ...]
    web_ports: tuple[int, ...]
    closed: tuple[str, ...]
    opened: tuple[str, ...]


@dataclass(frozen=True)
class MountView:
    """One bucket as a volume, and its mount path."""

    name: str
    path: str
    read_only: bool
    attributes: Mapping[str, str]


@dataclass(frozen=True)
class ClaimView:
    """A template of claims: each replica gets so many devices of a class."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    device_class: str
    count: int


@dataclass(frozen=True)
class RdmaView:
    """RDMA of a role's replicas: the template of their claims, and the image that brings NCCL's plugin to a folder."""

    claim_template: str
    image: str
    folder: str


@dataclass(frozen=True)
class GroupView:
    """One role."""

    role: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    job_annotations: Mapping[str, str]
    pod_security: Mapping[str, Any]
    container_security: Mapping[str, Any]
    replica_restarts: int
    pod_failure_rules: Sequence[Mapping[str, Any]]
    node_selector: Mapping[str, str]
    tolerations: Sequence[Mapping[str, str]]
    image: str
    command: Sequence[str] | None
    args: Sequence[str] | None
    working_dir: str | None
    env: Sequence[Variable]
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    shared_memory: str
    termination_path: str
    rdma: RdmaView | None
    init_security: Mapping[str, Any]


@dataclass(frozen=True)
class RequestView:
    """A request for the machines of one role, all of them or none, and the pods they are for."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    provisioning_class: str
    count: int
    run_seconds: str
    annotations: Mapping[str, str]
    pod: GroupView


@dataclass(frozen=True)
class JobSetView:
    """The JobSet."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    max_restarts: int
    failure_rules: Sequence[Mapping[str, Any]]
    active_deadline_seconds: int
    service_account: str
    grace_seconds: int
    port: int
    bootstrap_mount: str
    run_mount: str
    config_map: str
    mounts: Sequence[MountView]
    groups: Sequence[GroupView]
