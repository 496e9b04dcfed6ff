"""How the rules of pods are kept true: what waits, what is told, and what happens where the kernel refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.kubelet.network_policy.enforcer import NAMESPACES, POLICIES, Enforcer
from encamp_sandbox.kubelet.network_policy.rules import PodRules, Span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

LABELS = {"job": "mine"}


class _Pod:
    def __init__(self, address: str) -> None:
        self.address = address
        self.kept: list[PodRules] = []
        self.refuses = False

    def set_rules(self, rules: PodRules) -> None:
        if self.refuses:
            raise SandboxError("the kernel refuses it")
        self.kept.append(rules)


class _Api:
    """Gives the events that a test puts in."""

    def __init__(self) -> None:
        self.events: dict[str, asyncio.Queue[tuple[str, dict[str, Any]]]] = {}

    async def watch(self, path: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        queue = self.events.setdefault(path, asyncio.Queue())
        while True:
            yield await queue.get()

    def say(self, path: str, kind: str, body: dict[str, Any]) -> None:
        self.events.setdefault(path, asyncio.Queue()).put_nowait((kind, body))


class _World:
    """An enforcer at work."""

    def __init__(self) -> None:
        self.api = _Api()
        self.led: list[dict[str, Sequence[Span]]] = []
        self.enforcer = Enforcer("10.8.0.0/16", self._lead)
        api: Any = self.api
        self.task = asyncio.create_task(self.enforcer.run(api))

    def _lead(self, ways: Mapping[str, Sequence[Span]]) -> None:
        self.led.append(dict(ways))

    def listed(self, *policies: dict[str, Any]) -> None:
        self.api.say(POLICIES, "LIST", {"items": list(policies)})
        self.api.say(NAMESPACES, "LIST", {"items": [{"metadata": {"uid": "n", "name": "n"}}]})

    async def settled(self) -> None:
        await asyncio.sleep(0.05)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def pod(**labels: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": "p", "labels": labels}, "spec": {"containers": [{"name": "c"}]}}


def shut(uid: str = "shut", **spec: Any) -> dict[str, Any]:
    own = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Egress"], **spec}
    return {"metadata": {"uid": uid, "namespace": "n", "name": uid}, "spec": own}


def test_no_pod_is_let_go_before_all_policies_are_known() -> None:
    async def work() -> None:
        world, own = _World(), _Pod("10.8.0.2")
        added = asyncio.create_task(world.enforcer.add("u", pod(**LABELS), own))
        world.api.say(NAMESPACES, "LIST", {"items": []})
        await world.settled()
        assert not added.done()
        assert not own.kept
        assert not world.enforcer.rules_at("10.8.0.2").lets_out("8.8.8.8", 443)
        world.api.say(POLICIES, "LIST", {"items": [shut()]})
        await added
        assert own.kept == [PodRules(egress=())]
        await world.end()

    asyncio.run(work())


def test_a_pod_whose_rules_the_kernel_refuses_does_not_come() -> None:
    async def work() -> None:
        world, own = _World(), _Pod("10.8.0.2")
        world.listed(shut())
        own.refuses = True
        with pytest.raises(SandboxError, match="refuses"):
            await world.enforcer.add("u", pod(**LABELS), own)
        assert not world.enforcer.rules_at("10.8.0.2").lets_out("8.8.8.8", 443)
        own.refuses = False
        await world.enforcer.add("u", pod(**LABELS), own)
        assert own.kept == [PodRules(egress=())]
        await world.end()

    asyncio.run(work())


def test_rules_that_the_kernel_refuses_later_leave_those_before() -> None:
    async def work() -> None:
        world, own = _World(), _Pod("10.8.0.2")
        world.listed(shut())
        await world.enforcer.add("u", pod(**LABELS), own)
        own.refuses = True
        world.api.say(POLICIES, "DELETED", shut())
        await world.settled()
        assert not world.enforcer.rules_at("10.8.0.2").lets_out("8.8.8.8", 443)
        await world.end()

    asyncio.run(work())


def test_peers_policies_and_labels_that_come_and_go() -> None:
    async def work() -> None:
        world, own, peer = _World(), _Pod("10.8.0.2"), _Pod("10.8.0.3")
        world.listed(shut(egress=[{"to": [{"podSelector": {"matchLabels": LABELS}}]}]))
        await world.enforcer.add("u", pod(**LABELS), own)
        await world.enforcer.add("v", pod(**LABELS), peer)
        assert world.enforcer.rules_at(own.address).lets_out(peer.address, 2222)
        world.enforcer.update("v", pod(job="theirs"))
        await world.settled()
        assert not own.kept[-1].lets_out(peer.address, 2222)
        world.enforcer.update("v", pod(**LABELS))
        await world.settled()
        assert own.kept[-1].lets_out(peer.address, 2222)
        world.enforcer.remove("v")
        await world.settled()
        assert not own.kept[-1].lets_out(peer.address, 2222)
        assert not world.enforcer.rules_at(peer.address).lets_in(own.address, 2222)
        world.api.say(POLICIES, "LIST", {"items": []})  # the watch began anew, and the policy was gone
        await world.settled()
        assert own.kept[-1] == PodRules()
        await world.end()

    asyncio.run(work())


def test_networks_that_are_named_are_led() -> None:
    async def work() -> None:
        world, own, other = _World(), _Pod("10.8.0.2"), _Pod("10.8.0.3")
        world.listed(shut(egress=[{"to": [{"ipBlock": {"cidr": "10.4.0.0/16"}}]}]))
        await world.enforcer.add("u", pod(**LABELS), own)
        await world.enforcer.add("v", pod(), other)
        assert world.led[-1] == {own.address: (Span.of("10.4.0.0/16"),)}
        world.enforcer.remove("u")
        await world.settled()
        assert world.led[-1] == {}
        await world.end()

    asyncio.run(work())


def test_pods_that_come_together_are_evaluated_together() -> None:
    async def work() -> None:
        world, pods = _World(), [_Pod(f"10.8.{number // 250}.{number % 250 + 2}") for number in range(300)]
        world.listed(shut(egress=[{"to": [{"podSelector": {"matchLabels": LABELS}}]}]))
        await asyncio.gather(*(world.enforcer.add(one.address, pod(**LABELS), one) for one in pods))
        assert all(len(one.kept) == 1 for one in pods)
        (peers,) = pods[0].kept[0].egress or ()
        assert len(peers.addresses or ()) == 2
        await world.end()

    asyncio.run(work())
