"""The enforcement of network policies: the rules of all pods follow policies, namespaces and pods."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from encamp.errors import SandboxError
from encamp_sandbox.kubelet.network_policy.evaluation import Evaluation, PolicyPod
from encamp_sandbox.kubelet.network_policy.rules import PodRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp_sandbox.kubelet.api import Api
    from encamp_sandbox.kubelet.network_policy.rules import Span

_LOG = logging.getLogger(__name__)
POLICIES: Final = "/apis/networking.k8s.io/v1/networkpolicies"
NAMESPACES: Final = "/api/v1/namespaces"
#: Changes that come together are evaluated together.
_TOGETHER_SECONDS: Final = 0.01


class Filtered(Protocol):
    """A pod on the network."""

    @property
    def address(self) -> str:
        """Its IP address."""
        ...

    def set_rules(self, rules: PodRules) -> None:
        """Replace its rules at once. Raises SandboxError."""
        ...


class Enforcer:
    """Enforces NetworkPolicies.

    Args:
        pods_network: all addresses that pods may have.
        lead: is told which networks outside of the cluster the rules of each pod name, by the pod's address.
            Raises SandboxError.
    """

    def __init__(self, pods_network: str, lead: Callable[[Mapping[str, Sequence[Span]]], None]) -> None:
        self._pods_network = pods_network
        self._lead = lead
        self._pods: dict[str, tuple[PolicyPod, Filtered]] = {}
        self._rules: dict[str, PodRules] = {}
        self._troubles: dict[str, SandboxError] = {}
        self._seen: dict[str, dict[str, dict[str, Any]]] = {POLICIES: {}, NAMESPACES: {}}
        self._lacking = {POLICIES, NAMESPACES}
        self._changed = asyncio.Event()
        self._evaluated: asyncio.Future[None] | None = None

    async def run(self, api: Api) -> None:
        """Watch policies and namespaces and enforce them, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for path in self._seen:
                group.create_task(self._watch(api, path))
            group.create_task(self._work())

    async def add(self, uid: str, pod: Mapping[str, Any], filtered: Filtered) -> None:
        """Take a pod that has got its address; returns when its rules are in force.

        Belief: network-policy-before-the-first-process.

        Raises:
            SandboxError: its rules cannot be put in force.
        """
        self._pods[uid] = (PolicyPod.of(pod, filtered.address), filtered)
        await self._next()
        if trouble := self._troubles.get(uid):
            raise trouble

    def update(self, uid: str, pod: Mapping[str, Any]) -> None:
        """Note that a pod changed; its labels may have."""
        if uid in self._pods:
            before, filtered = self._pods[uid]
            now = PolicyPod.of(pod, before.address)
            if now != before:
                self._pods[uid] = (now, filtered)
                self._changed.set()

    def remove(self, uid: str) -> None:
        """Note that a pod has left the network."""
        if self._pods.pop(uid, None) is not None:
            self._rules.pop(uid, None)
            self._troubles.pop(uid, None)
            self._changed.set()

    def rules_at(self, address: str) -> PodRules:
        """Return the rules of the pod that has an address; those of nobody let nothing out."""
        found = (self._rules.get(uid) for uid, (pod, _) in self._pods.items() if pod.address == address)
        return next((one for one in found if one is not None), PodRules(ingress=(), egress=()))

    def see(self, path: str, kind: str, body: dict[str, Any]) -> None:
        """Take an event of a watch."""
        known = self._seen[path]
        if kind == "LIST":
            known.clear()
            known.update({one["metadata"]["uid"]: one for one in body.get("items") or []})
            self._lacking.discard(path)
        elif kind == "DELETED":
            known.pop(body["metadata"]["uid"], None)
        else:
            known[body["metadata"]["uid"]] = body
        self._changed.set()

    async def _watch(self, api: Api, path: str) -> None:
        async for kind, body in api.watch(path):
            self.see(path, kind, body)

    async def _next(self) -> None:
        """Wait for an evaluation that begins from now on."""
        if self._evaluated is None:
            self._evaluated = asyncio.get_running_loop().create_future()
        self._changed.set()
        await asyncio.shield(self._evaluated)

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_TOGETHER_SECONDS)
            self._changed.clear()
            if self._lacking:  # no pod starts before all policies are known
                continue
            waiting, self._evaluated = self._evaluated, None
            self._enforce()
            if waiting is not None:
                waiting.set_result(None)

    def _enforce(self) -> None:
        pods = [pod for pod, _ in self._pods.values()]
        labels = {
            one["metadata"]["name"]: one["metadata"].get("labels") or {} for one in self._seen[NAMESPACES].values()
        }
        evaluation = Evaluation(list(self._seen[POLICIES].values()), pods, labels, self._pods_network)
        for uid, (pod, filtered) in self._pods.items():
            rules = evaluation.rules(pod)
            try:
                filtered.set_rules(rules)
            except SandboxError as error:
                _LOG.warning("rules of %s are not in force: %s", uid, error)
                self._troubles[uid] = error
            else:
                self._rules[uid] = rules
                self._troubles.pop(uid, None)
        ways = {pod.address: self._rules[uid].named for uid, (pod, _) in self._pods.items() if uid in self._rules}
        try:
            self._lead({address: named for address, named in ways.items() if named})
        except SandboxError as error:
            _LOG.warning("%s", error)
