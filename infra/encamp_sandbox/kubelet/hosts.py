"""Host names of pods for each other: those of one headless service, as its DNS records would say.

Belief: pod-finds-its-peers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubelet.runtime import PodSandbox


@dataclass(frozen=True)
class _Entry:
    group: tuple[str, str]
    hostname: str
    sandbox: PodSandbox


class Hosts:
    """Keeps /etc/hosts of all pods."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, uid: str, pod: Mapping[str, Any], sandbox: PodSandbox) -> None:
        """Add a pod that has its address: its peers learn its name, and it learns theirs."""
        spec = pod["spec"]
        group = (pod["metadata"]["namespace"], spec.get("subdomain") or "")
        hostname = spec.get("hostname") or pod["metadata"]["name"]
        self._entries[uid] = _Entry(group, hostname, sandbox)
        self._tell(group, uid)

    def remove(self, uid: str) -> None:
        """Remove a pod that is gone."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._tell(entry.group, uid)

    def _tell(self, group: tuple[str, str], uid: str) -> None:
        namespace, subdomain = group
        peers = {key: one for key, one in self._entries.items() if one.group == group and (subdomain or key == uid)}
        names = [
            (one.sandbox.address, _names(one.hostname, subdomain, namespace)) for one in peers.values() if subdomain
        ]
        for peer in peers.values():
            peer.sandbox.set_hosts(names)


def _names(hostname: str, subdomain: str, namespace: str) -> str:
    short = f"{hostname}.{subdomain}"
    return f"{short}.{namespace}.svc.cluster.local {short} {short}.{namespace} {short}.{namespace}.svc"
