"""The sandbox's ports: chosen free on loopback, kept in ``sandbox.json``, chosen again when somebody else took one.

They lie below the range that systems take for outgoing connections (Linux from 32768, macOS and IANA from
49152), so no client's own port can take one away between choosing and binding.
"""

from __future__ import annotations

import atexit
import dataclasses
import random
import socket
from typing import TYPE_CHECKING

from encamp.errors import SandboxError
from encamp.process.port_lock import lock_port

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK = "127.0.0.1"
#: Addresses of the cluster's Services; the first is the API server's.
SERVICES, API_ADDRESS = "10.0.0.0/20", "10.0.0.1"
_LOWEST, _HIGHEST = 17000, 32000
_TRIES = 4000


@dataclasses.dataclass(frozen=True)
class Ports:
    """The TCP port of each server, on 127.0.0.1. ``node_base`` is 0 unless a kubelet asks for ports of its own."""

    etcd_client: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    jobset_webhook: int
    storage: int
    front: int
    front_tls: int
    proxy: int
    gcp_provider: int
    kubernetes_provider: int
    kubelet: int
    kueue_webhook: int
    node_base: int = 0

    @classmethod
    def choose(cls) -> Ports:
        """Choose a free port for every server: neighbours, whose first one's lock this process keeps to its end.

        So no two sandboxes that start at once choose the same, before their servers listen.
        """
        names = _server_names()
        for _ in range(_TRIES):
            first = random.randrange(_LOWEST, _HIGHEST - len(names), len(names))  # noqa: S311 - a choice, no secret
            block = range(first, first + len(names))
            if _kept(first) and all(map(is_free, block)):
                return cls(**dict(zip(names, block, strict=True)))
        return cls(**_free(names, avoid=set()))

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Ports:
        """Read what ``to_json`` gave; an unknown name is ignored, a missing one is chosen now."""
        known = {name: port for name in _server_names() if isinstance(port := data.get(name), int)}
        missing = [name for name in _server_names() if name not in known]
        base = data.get("node_base", 0)
        return cls(
            **known,
            **_free(missing, avoid=set(known.values())),
            node_base=base if isinstance(base, int) else 0,
        )

    def to_json(self) -> dict[str, int]:
        """Return a mapping of name to port."""
        return dataclasses.asdict(self)

    def taken(self) -> list[str]:
        """Name the servers whose port somebody listens on now."""
        return [name for name in _server_names() if not is_free(getattr(self, name))]

    def renewed(self, names: list[str]) -> Ports:
        """Return the same ports but for ``names``, which get others."""
        return dataclasses.replace(self, **_free(names, avoid=set(self.to_json().values())))


def _kept(first: int) -> bool:
    """Whether a block of ports is this process' to choose."""
    lock = lock_port(first)
    if lock is not None:
        atexit.register(lock.close)
    return lock is not None


def _server_names() -> list[str]:
    return [field.name for field in dataclasses.fields(Ports) if field.name != "node_base"]


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def is_served(port: int, *, timeout: float = 0.5) -> bool:
    """Whether somebody accepts connections on this loopback port within ``timeout`` seconds."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=timeout).close()
    except OSError:
        return False
    return True


def _free(names: list[str], *, avoid: set[int]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    generator = random.SystemRandom()
    for _ in range(_TRIES):
        if len(chosen) == len(names):
            return chosen
        port = generator.randrange(_LOWEST, _HIGHEST)
        if port not in avoid and is_free(port):
            avoid.add(port)
            chosen[names[len(chosen)]] = port
    if len(chosen) == len(names):
        return chosen
    raise SandboxError(
        f"no {len(names)} free ports were found on {LOOPBACK} between {_LOWEST} and {_HIGHEST}",
        hint="end servers that you no longer need, or look whether this machine lets programs listen on loopback",
    )
