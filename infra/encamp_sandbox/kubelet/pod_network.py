"""The network configuration of a pod: names of its peers, and the rules of its policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from encamp_sandbox.kubelet.hosts import Hosts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubelet.network_policy.enforcer import Enforcer
    from encamp_sandbox.kubelet.runtime import PodSandbox


class PodNetwork:
    """The network of all pods."""

    def __init__(self, enforcer: Enforcer) -> None:
        self._hosts = Hosts()
        self._enforcer = enforcer

    async def join(self, uid: str, pod: Mapping[str, Any], sandbox: PodSandbox) -> None:
        """Take a pod in; its rules are in force when this returns.

        Raises:
            SandboxError: its rules cannot be put in force; the sandbox is closed then.
        """
        try:
            await self._enforcer.add(uid, pod, sandbox)
        except BaseException:
            self._enforcer.remove(uid)
            await sandbox.close()
            raise
        self._hosts.add(uid, pod, sandbox)

    def update(self, uid: str, pod: Mapping[str, Any]) -> None:
        """Note that a pod changed."""
        self._enforcer.update(uid, pod)

    def leave(self, uid: str) -> None:
        """Note that a pod is gone."""
        self._hosts.remove(uid)
        self._enforcer.remove(uid)
