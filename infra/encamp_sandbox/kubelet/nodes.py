"""The nodes of the sandbox: made for pods that wait, kept alive, removed when idle or with their pool.

A node that has run for its pool's maximum run duration is shut down, and one that somebody deleted as well (see
``departures``).

Beliefs: node-lease-is-renewed, autoscaler-removes-idle-nodes, node-deletion-of-pool-drains.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.kubelet import autoscaler, fit, pools, provisioning
from encamp_sandbox.kubelet.api import MERGE
from encamp_sandbox.kubelet.departures import Departures
from encamp_sandbox.kubelet.network_devices import NetworkDevices
from encamp_sandbox.kubelet.system_pods import SystemPods, is_stand_in, pod_name
from encamp_sandbox.kubelet.times import micro_stamp, now, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from datetime import datetime
    from fractions import Fraction

    from encamp_sandbox.kubelet.api import Api
    from encamp_sandbox.kubelet.events import Events
    from encamp_sandbox.kubelet.front import Front
    from encamp_sandbox.kubelet.pod import PodLife

_LOG = logging.getLogger(__name__)
_STEP_SECONDS = 0.5
_IDLE_STEP_SECONDS = 2.0
_LEASE_SECONDS = 40
_RENEW_SECONDS = 10
#: Time that a new node is expected to take pods that wait, before another one is made for them.
_FRESH = timedelta(seconds=8)
#: Time that queued machines wait for their pods: GKE's page of flex-start with queued provisioning.
_UNUSED = timedelta(minutes=10)
#: Time until a node's system pods are looked after: machines of short jobs are gone by then.
_SETTLED = timedelta(minutes=1)
_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_REPEAT = timedelta(seconds=30)
#: The autoscaler's taint of nodes that go: k8s.io/autoscaler/cluster-autoscaler/utils/taints.
_GOING = "ToBeDeletedByClusterAutoscaler"
#: Seconds after which a binding from before the taint has been written.
_SEEN_SECONDS = 0.1
_ENDED = ("Succeeded", "Failed")


class Nodes:
    """Autoscaler and keeper of Node objects.

    Args:
        pods: every pod of the cluster, as the API server has it now.
        lives: the pods that run on a node.
        idle_seconds: how long a node stays without a pod.
    """

    def __init__(
        self,
        api: Api,
        front: Front,
        events: Events,
        pods: Callable[[], list[dict[str, Any]]],
        lives: Callable[[str], Sequence[PodLife]],
        *,
        host: str,
        port: int,
        idle_seconds: float,
    ) -> None:
        self._api = api
        self._front = front
        self._events = events
        self._pods = pods
        self._host = host
        self._port = port
        self._idle = timedelta(seconds=idle_seconds)
        self._nodes: dict[str, dict[str, Any]] = {}
        self._pools: dict[str, pools.Pool] = {}
        self._busy_at: dict[str, datetime] = {}
        self._told: dict[str, int] = {}
        self._noted: dict[str, tuple[str, datetime]] = {}
        self._wake = asyncio.Event()
        self._departures = Departures(api, lives, self._unmake)
        self._system = SystemPods(api)
        self._devices = NetworkDevices(api)

    def wake(self) -> None:
        """Look at once, since something has changed."""
        self._wake.set()

    def allocatable(self, name: str) -> Mapping[str, str]:
        """Return a node's allocatable resources."""
        return (self._nodes.get(name) or {}).get("status", {}).get("allocatable", {})

    def get(self, name: str) -> Mapping[str, Any]:
        """Return a node as we know it; empty if it is none of ours."""
        return self._nodes.get(name) or {}

    def is_ours(self, name: str) -> bool:
        """Whether this kubelet is the kubelet of a node."""
        return name in self._nodes

    async def load(self) -> None:
        """Take over the nodes of an earlier kubelet: give them this one's address."""
        await self._devices.prepare()
        found = await self._api.get(_NODES) or {}
        for node in found.get("items") or []:
            if pools.POOL_NAME in (node["metadata"].get("annotations") or {}):
                name = node["metadata"]["name"]
                self._nodes[name] = node
                known = node["status"]
                kind = known["nodeInfo"]["architecture"]
                status = pools.node_status(
                    known["capacity"], known["allocatable"], name, self._host, self._port, architecture=kind
                )
                await self._api.patch(f"{_NODES}/{name}/status", {"status": status})
        await self._renew()

    async def run(self) -> None:
        """Keep nodes as they have to be, for ever."""
        renewer = asyncio.create_task(self._keep_leases())
        try:
            while True:
                self._wake.clear()
                try:
                    await self._step()
                except httpx.HTTPError as error:
                    _LOG.info("nodes are looked at again soon: %s", error or type(error).__name__)
                except Exception:  # noqa: BLE001 - one odd node pool must not end every pod of the sandbox
                    _LOG.exception("nodes are looked at again soon")
                waiting = any(autoscaler.waits(pod) for pod in self._pods())
                pause = asyncio.create_task(self._wake.wait())
                await asyncio.wait({pause}, timeout=_STEP_SECONDS if waiting else _IDLE_STEP_SECONDS)
                pause.cancel()
                await asyncio.sleep(0.1)  # changes come in bursts
        finally:
            renewer.cancel()
            self._departures.stop()

    async def _step(self) -> None:
        self._pools = {pool.full_name: pool for pool in await self._front.node_pools()}
        await self._let_go()
        await self._remove_orphans()
        await self._provision()
        await self._scale_up()
        await self._scale_down()
        await self._keep_system_pods()
        await self._tell_sizes()

    def _of(self, pool: str) -> list[dict[str, Any]]:
        return [node for node in self._nodes.values() if node["metadata"]["annotations"][pools.POOL_NAME] == pool]

    def _on(self, name: str) -> list[dict[str, Any]]:
        """Return pods of a node that have not ended, GKE's own left out."""
        return [pod for pod in self._pods() if pod["spec"].get("nodeName") == name and _holds(pod)]

    async def _let_go(self) -> None:
        """Start the end of nodes that have run for as long as they may, and of those that somebody has deleted."""
        found = await self._api.get(_NODES) or {}
        there = {node["metadata"]["name"] for node in found.get("items") or []}
        for name, node in self._nodes.items():
            pool = self._pools.get(node["metadata"]["annotations"][pools.POOL_NAME])
            longest = provisioning.longest(node, pool.max_run if pool is not None else None)
            if name not in there:
                self._departures.begin(name, "it was deleted")
            elif pool and longest and now() - parse(node["metadata"]["creationTimestamp"]) >= longest:
                self._departures.begin(name, f"it has run for {longest.total_seconds():g} s")

    async def _provision(self) -> None:
        """Answer requests for machines, where there are queued pools to answer them with."""
        queued = [pool for pool in self._pools.values() if pool.queued]
        found = await self._api.get(provisioning.REQUESTS) if queued else None
        for request in filter(provisioning.is_open, (found or {}).get("items") or []):
            metadata, (pods, *_) = request["metadata"], request["spec"]["podSets"]
            name, count = pods["podTemplateRef"]["name"], int(pods["count"])
            template = await self._api.get(f"/api/v1/namespaces/{metadata['namespace']}/podtemplates/{name}")
            sizes = {pool.full_name: len(self._of(pool.full_name)) for pool in queued}
            pool, reason = (
                provisioning.place(template["template"], count, queued, sizes)
                if template
                else (None, f"pod template {name} is missing")
            )
            if pool is not None:
                places = ((pool, sizes[pool.full_name] + ordinal) for ordinal in range(count))
                marks = provisioning.marks(request)
                await _at_once(self._make(*place, marks) for place in places)
            if provisioning.says_new(request, status := provisioning.status(request, pool, reason)):
                path = provisioning.path(metadata["namespace"], metadata["name"])
                await self._api.patch(f"{path}/status", {"status": status}, MERGE)

    async def _scale_up(self) -> None:
        sizes = {name: len(self._of(name)) for name in self._pools}
        waiting = {pod["metadata"]["uid"]: pod for pod in self._pods() if autoscaler.waits(pod)}
        new = {
            name: pool
            for name, node in self._nodes.items()
            if (pool := self._pools.get(node["metadata"]["annotations"][pools.POOL_NAME])) is not None
            and name not in self._departures
            and now() - parse(node["metadata"]["creationTimestamp"]) < _FRESH
        }
        claimed = await self._devices.asked([*waiting.values(), *(pod for name in new for pod in self._on(name))])
        fresh = [(pool, self._free(pool, name, claimed)) for name, pool in new.items()]
        plan = autoscaler.plan(list(waiting.values()), list(self._pools.values()), sizes, fresh, claimed)
        for uid, pool in plan.triggered.items():
            size = sizes[pool.full_name]
            change = f"{pool.group} {size}->{size + plan.add[pool.full_name]} (max: {pool.maximum})"
            self._note(waiting[uid], "TriggeredScaleUp", f"pod triggered scale-up: [{{{change}}}]")
        for uid, reason in plan.unschedulable.items():
            self._note(waiting[uid], "NotTriggerScaleUp", reason)
        for uid in self._noted.keys() - waiting.keys():
            del self._noted[uid]
        wanted = {name: max(pool.minimum - sizes[name], plan.add[name]) for name, pool in self._pools.items()}
        await _at_once(
            self._make(pool, sizes[name] + ordinal)
            for name, pool in self._pools.items()
            for ordinal in range(wanted[name])
        )

    def _free(self, pool: pools.Pool, node: str, claimed: Mapping[str, Mapping[str, int]]) -> dict[str, Fraction]:
        """Return the unused resources of a node."""
        left = pool.free()
        for pod in self._on(node):
            fit.take(left, pod, claimed.get(pod["metadata"]["uid"]))
        return left

    def _note(self, pod: dict[str, Any], reason: str, message: str) -> None:
        uid, moment = pod["metadata"]["uid"], now()
        before = self._noted.get(uid)
        if before is None or before[0] != message or moment - before[1] > _REPEAT:
            self._noted[uid] = (message, moment)
            self._events.send({"kind": "Pod", **pod}, reason, message)

    async def _make(self, pool: pools.Pool, ordinal: int, marks: provisioning.NodeMarks | None = None) -> None:
        wished = pool.node(ordinal, self._host, self._port)
        metadata = wished["metadata"]
        if marks is not None:
            metadata["labels"] |= marks.labels
            metadata["annotations"] |= marks.annotations
        name = metadata["name"]
        # Ours before it exists: a pod may be bound to it, and heard of, before the answer to its creation is.
        self._nodes[name] = wished
        node = None
        try:
            await asyncio.gather(self._system.place(name, pool.system), self._devices.place(name, pool.devices))
            node = await self._api.create(_NODES, wished)
        finally:
            if node is None:
                del self._nodes[name]
        if node is None:
            return
        self._nodes[name] = node
        self._busy_at[name] = now()
        await self._make_lease(name)
        _LOG.info("node %s", name)

    async def _scale_down(self) -> None:
        moment = now()
        going: list[str] = []
        for name, pool in self._pools.items():
            nodes = [node["metadata"]["name"] for node in self._of(name)]
            for node in nodes:
                if self._on(node) or node not in self._busy_at:
                    self._busy_at[node] = moment
            patience = max(self._idle, _UNUSED) if pool.queued else self._idle
            idle = [node for node in nodes if moment - self._busy_at[node] > patience and node not in self._departures]
            if not pool.autoscaled or (pool.atomic and len(idle) < len(nodes)):
                idle = idle[: max(len(nodes) - pool.maximum, 0)]
            going += idle[: len(nodes) - pool.minimum]
        await _at_once(self._take_down(node) for node in going)

    async def _take_down(self, name: str) -> None:
        """Remove an idle node as the autoscaler does: its taint keeps pods away first, and one that came before stays.

        The scheduler may bind a pod until it has seen the taint, so the API server is asked, not what was heard so far.
        """
        taints = self._nodes[name]["spec"].get("taints") or []
        mark = {"key": _GOING, "value": str(int(now().timestamp())), "effect": "NoSchedule"}
        await self._api.patch(f"{_NODES}/{name}", {"spec": {"taints": [*taints, mark]}}, MERGE)
        await asyncio.sleep(_SEEN_SECONDS)
        query = httpx.QueryParams({"fieldSelector": f"spec.nodeName={name}"})
        found = await self._api.get(f"/api/v1/pods?{query}") or {}
        if any(map(_holds, found.get("items") or [])):
            self._busy_at[name] = now()
            await self._api.patch(f"{_NODES}/{name}", {"spec": {"taints": taints}}, MERGE)
            return
        await self._unmake(name)

    async def _remove_orphans(self) -> None:
        """Drain nodes of deleted pools, and remove them at once."""
        for name, node in list(self._nodes.items()):
            orphaned = node["metadata"]["annotations"][pools.POOL_NAME] not in self._pools
            if orphaned and name not in self._departures:
                for pod in self._on(name):
                    await self._evict(pod, name)
                await self._unmake(name)

    async def _evict(self, pod: dict[str, Any], node: str) -> None:
        """Evict a pod by the Eviction API, as a drain does: it marks the pod as disrupted."""
        metadata = pod["metadata"]
        self._events.send({"kind": "Pod", **pod}, "TaintManagerEviction", f"node {node} is being deleted")
        same = {"preconditions": {"uid": metadata["uid"]}}
        name = {"name": metadata["name"], "namespace": metadata["namespace"]}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name, "deleteOptions": same}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
        try:
            await self._api.create(path, eviction)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise

    async def _keep_system_pods(self) -> None:
        """Make system pods again that somebody deleted, and report those of settled nodes as running."""
        there: dict[str, list[dict[str, Any]]] = {}
        for pod in filter(is_stand_in, self._pods()):
            there.setdefault(pod["spec"]["nodeName"], []).append(pod)
        for name, node in list(self._nodes.items()):
            pool = self._pools.get(node["metadata"]["annotations"][pools.POOL_NAME])
            age = now() - parse(node["metadata"]["creationTimestamp"])
            if pool is None or name in self._departures or age < _SETTLED:
                continue
            found = there.get(name, [])
            names = {pod["metadata"]["name"] for pod in found}
            await self._system.place(name, [pod for pod in pool.system if pod_name(pod, name) not in names])
            await self._system.report(found)

    async def _unmake(self, name: str) -> None:
        await self._system.remove(name)
        await self._devices.remove(self._nodes.get(name) or {})
        await self._api.delete(f"{_NODES}/{name}")
        await self._api.delete(f"{_LEASES}/{name}")
        self._nodes.pop(name, None)
        self._busy_at.pop(name, None)
        self._wake.set()
        _LOG.info("node %s removed", name)

    async def _tell_sizes(self) -> None:
        for name in self._pools:
            size = len(self._of(name))
            if self._told.get(name) != size:
                await self._front.set_size(name, size)
                self._told[name] = size
        for name in self._told.keys() - self._pools.keys():
            del self._told[name]

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._renew()
            except httpx.HTTPError as error:
                _LOG.warning("leases not renewed: %s", error)

    async def _renew(self) -> None:
        for name in list(self._nodes):
            await self._renew_one(name)

    async def _renew_one(self, name: str) -> None:
        if await self._api.patch(f"{_LEASES}/{name}", {"spec": _lease_spec(name)}, MERGE) is None:
            await self._make_lease(name)

    async def _make_lease(self, name: str) -> None:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": _lease_spec(name)}
        await self._api.create(_LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})


def _holds(pod: Mapping[str, Any]) -> bool:
    """Whether a pod keeps its node there: it has not ended, and is none of GKE's own."""
    return (pod.get("status") or {}).get("phase") not in _ENDED and not is_stand_in(pod)


async def _at_once(changes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Change nodes at once. One that fails stops no other; the first error is raised."""
    done = await asyncio.gather(*changes, return_exceptions=True)
    for error in filter(None, done):
        raise error


def _lease_spec(node: str) -> dict[str, Any]:
    return {"holderIdentity": node, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": micro_stamp(now())}
