"""Machines that go away under their pods: stopped after their run duration, or taken by the cloud.

What GKE does when Compute Engine stops a machine (cloud.google.com/kubernetes-engine/docs/concepts/spot-vms): the
kubelet is told, takes no more pods, gives those it has a few seconds and says of each that it was a disruption; then
the machine and its Node are gone. A Node that somebody deletes stands here for a machine that the cloud takes back:
``kubectl delete node NAME`` is a preemption.

Beliefs: node-shutdown-grace, node-ends-with-its-run-duration.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.kubelet.times import now, stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from encamp_sandbox.kubelet.api import Api
    from encamp_sandbox.kubelet.pod import PodLife

_LOG = logging.getLogger(__name__)
_NODES = "/api/v1/nodes"
#: Seconds that GKE leaves to pods that are none of the system's.
_GRACE_SECONDS = 15.0
#: Seconds that the machine waits beyond that for its pods' last reports.
_REPORT_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class Departures:
    """Nodes that are going away.

    Args:
        lives: the pods that run on a node.
        remove: deletes a node for good.
    """

    def __init__(
        self,
        api: Api,
        lives: Callable[[str], Sequence[PodLife]],
        remove: Callable[[str], Awaitable[None]],
    ) -> None:
        self._api = api
        self._lives = lives
        self._remove = remove
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._tasks

    def begin(self, node: str, why: str) -> None:
        """Start the end of a node, unless it has started already."""
        if node not in self._tasks:
            _LOG.info("node %s goes: %s", node, why)
            self._tasks[node] = asyncio.create_task(self._go(node), name=f"departure of {node}")

    def stop(self) -> None:
        """Leave nodes that are going as they are."""
        for task in self._tasks.values():
            task.cancel()

    async def _go(self, node: str) -> None:
        try:
            await self._close(node)
            end = asyncio.get_running_loop().time() + _GRACE_SECONDS + _REPORT_SECONDS
            # Also a pod that comes while the others go.
            while (lives := self._alive(node)) and asyncio.get_running_loop().time() < end:
                for life in lives:
                    life.shut_down(_GRACE_SECONDS)
                await asyncio.sleep(_LOOK_SECONDS)
            await self._remove(node)
        except httpx.HTTPError as error:
            _LOG.info("node %s goes later: %s", node, error or type(error).__name__)
        finally:
            del self._tasks[node]

    def _alive(self, node: str) -> list[PodLife]:
        return [life for life in self._lives(node) if not life.reported]

    async def _close(self, node: str) -> None:
        """Accept no more pods for a node."""
        await self._api.patch(f"{_NODES}/{node}", {"spec": {"unschedulable": True}})
        moment = stamp(now())
        condition: dict[str, Any] = {
            "type": "Ready",
            "status": "False",
            "reason": "KubeletNotReady",
            "message": "node is shutting down",
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        await self._api.patch(f"{_NODES}/{node}/status", {"status": {"conditions": [condition]}})
