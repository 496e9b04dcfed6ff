"""The runtime of containers: a port with two implementations, namespaces and plain processes.

A runtime makes a sandbox for a pod (its address, what its containers share) and runs commands in it. It knows no
Kubernetes objects; what a container is to be has been resolved before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from encamp_sandbox.ports import API_ADDRESS

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from encamp.process import LiveProcess, OutputLine
    from encamp_sandbox.kubelet.network_policy.rules import PodRules, Span

#: The annotation of a pod whose network policies are not enforced, with the reason.
UNENFORCED = "sandbox.encamp.dev/network-policies"
_API_SERVER = "kubernetes.default.svc kubernetes.default.svc.cluster.local kubernetes.default"


@dataclass(frozen=True)
class PodRequest:
    """A pod, as a runtime sees it.

    Attributes:
        key: tells the pod from all others; a Kubernetes UID.
        hostname: the pod's own host name.
        host_key: what keeps its address when the pod is replaced by another of the same host name.
        folder: a folder of the pod's own, for what the runtime needs on disk.
    """

    key: str
    hostname: str
    host_key: str
    folder: Path


@dataclass(frozen=True)
class ContainerRequest:
    """A container to be run: everything resolved.

    Attributes:
        name: unique in its pod.
        mounts: ``{source, target, read_only}``, outer ones first; those in memory have ``memory``, their size in bytes.
        termination_log: the file on disk, and the path that the container knows it by.
        serves: the open /dev/fuse of a file system of the pod's that the command serves; it does not see them.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    mounts: Sequence[dict[str, Any]]
    termination_log: tuple[Path, str]
    output: Callable[[OutputLine], None]
    errors: Callable[[OutputLine], None]
    serves: int | None = None


@dataclass(frozen=True)
class FuseVolume:
    """A file system that a program of ours is to serve to the containers of one pod.

    Attributes:
        place: the empty folder that stands for it; containers mount from there.
        source: what tables of mounts call it.
        flags: of ``ro``, ``noexec``, ``noatime``.
    """

    place: Path
    source: str
    flags: tuple[str, ...] = ()


class PodSandbox(Protocol):
    """The sandbox that the containers of one pod share."""

    @property
    def address(self) -> str:
        """The pod's IP address."""
        ...

    @property
    def metadata(self) -> socket.socket | None:
        """The socket of a metadata server of the pod's own; None if its address tells who it is."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that containers need here to find what a real node would give them."""
        ...

    @property
    def notes(self) -> Mapping[str, str]:
        """Annotations that say where this runtime departs from a real node."""
        ...

    def set_hosts(self, entries: Sequence[tuple[str, str]]) -> None:
        """Set the pod's host names and their addresses."""
        ...

    def set_rules(self, rules: PodRules) -> None:
        """Enforce what the pod may connect to and who to it, as far as this runtime can. Raises SandboxError."""
        ...

    async def mount(self, volumes: Sequence[FuseVolume]) -> list[int]:
        """Mount file systems that containers started from now on see; the open /dev/fuse of each is the caller's.

        Raises:
            SandboxError: this machine does not let us; says why.
        """
        ...

    def unmount(self) -> None:
        """Release all that ``mount`` mounted; it is gone when no container has it any more."""
        ...

    async def run(self, request: ContainerRequest) -> LiveProcess:
        """Start a container; returns when its command runs. Raises StartError."""
        ...

    async def close(self) -> None:
        """Release the address and all that the sandbox holds."""
        ...


class Runtime(Protocol):
    """A way to run pods on this machine."""

    async def open(self) -> None:
        """Make what all pods hang on. Raises SandboxError."""
        ...

    @property
    def listeners(self) -> Mapping[str, socket.socket]:
        """Listening sockets that pods reach: ``tls`` (Google's hosts), ``proxy``, ``metadata``, ``apiserver``.

        And ``direct``, which gets connections to networks that ``lead`` was told.
        """
        ...

    def lead(self, ways: Mapping[str, Sequence[Span]]) -> None:
        """Lead connections of pods, by address, to networks outside of the cluster to the listener ``direct``.

        Raises:
            SandboxError: this machine does not let us.
        """
        ...

    async def sandbox(self, request: PodRequest) -> PodSandbox:
        """Make the sandbox of a pod. Raises SandboxError."""
        ...

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a pod, or to this machine. Raises OSError and SandboxError."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


class StartError(Exception):
    """The command of a container could not be started; the message says why."""


@dataclass
class HostNames:
    """Names that every pod resolves besides those of pods: Google's hosts."""

    front: str
    metadata: str
    google: Sequence[str] = field(
        default=(
            "storage.googleapis.com",
            "www.googleapis.com",
            "oauth2.googleapis.com",
            "accounts.google.com",
            "sts.googleapis.com",
            "iam.googleapis.com",
            "iamcredentials.googleapis.com",
            "logging.googleapis.com",
            "monitoring.googleapis.com",
            "container.googleapis.com",
            "compute.googleapis.com",
            "cloudresourcemanager.googleapis.com",
            "artifactregistry.googleapis.com",
        )
    )

    def lines(self) -> list[tuple[str, str]]:
        """Return ``(address, names)`` of each."""
        return [
            (self.front, " ".join(self.google)),
            (self.metadata, "metadata.google.internal metadata"),
            (API_ADDRESS, _API_SERVER),
        ]
