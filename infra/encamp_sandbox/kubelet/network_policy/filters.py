"""The rules of a pod in the kernel: two chains in the pod's own network namespace, where its processes have no rights.

What is refused is dropped without an answer, and whoever connects waits until their own timeout.
Belief: network-policy-drops.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp_sandbox.kubelet.launcher import nftables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from encamp_sandbox.kubelet.network_policy.rules import Allowed, PodRules, Span

_IN, _OUT, _DIRECT = "ingress", "egress", "direct"


@dataclass(frozen=True)
class Node:
    """The addresses that are open to every pod, whatever its policies say.

    Attributes:
        address: of the node, from which the kubelet and the API server reach pods.
            Belief: network-policy-never-closes-the-node.
        proxy: port of the proxy at this address, which asks for the rules itself.
    """

    address: str
    proxy: int


class PodFilter:
    """The packet filter of one pod.

    Args:
        channel: opened in the pod's network namespace by ``nftables.open_filter``.
        node: what is always open.
    """

    def __init__(self, channel: socket.socket, node: Node) -> None:
        self._channel = channel
        self._node = node
        self._kept: PodRules | None = None

    def keep(self, rules: PodRules) -> None:
        """Replace all rules at once. Raises OSError; those before stay then."""
        if rules == self._kept:
            return
        node = self._node
        from_node = nftables.source(node.address, node.address)
        to_proxy = nftables.destination(node.address, node.address) + nftables.ports("TCP", node.proxy, node.proxy)
        ways: list[tuple[str, int, bytes, tuple[Allowed, ...] | None, Callable[[str, str], bytes]]] = [
            (_IN, nftables.LOCAL_IN, from_node, rules.ingress, nftables.source),
            (_OUT, nftables.LOCAL_OUT, to_proxy, rules.egress, nftables.destination),
        ]
        messages: list[bytes] = []
        for chain, hook, always, allowed, peer in ways:
            messages += [*nftables.make_chain(chain, hook), nftables.clear(chain)]
            messages += _chain(chain, hook, always, allowed, peer)
        nftables.change(self._channel, messages)
        self._kept = rules

    def close(self) -> None:
        """Release the filter; the rules stay as long as the pod's network does."""
        self._channel.close()


class DirectWays:
    """Leads connections of pods to networks that their rules name to a listener of ours, which connects them.

    Args:
        channel: opened in the nodes' network namespace by ``nftables.open_filter``.
        port: of the listener, at the address of the interface that pods come in by.
    """

    def __init__(self, channel: socket.socket, port: int) -> None:
        self._channel = channel
        self._port = port
        self._kept: Mapping[str, Sequence[Span]] = {}

    def keep(self, ways: Mapping[str, Sequence[Span]]) -> None:
        """Replace all at once; networks by the address of the pod. Raises OSError; those before stay then."""
        if ways == self._kept:
            return
        chain = nftables.make_chain(_DIRECT, nftables.PREROUTING, nftables.DNAT, family=nftables.IPV4, kind="nat")
        rules = [
            nftables.rule(
                _DIRECT,
                nftables.ports("TCP"),
                nftables.source(address, address),
                nftables.destination(_text(span.first), _text(span.last)),
                nftables.redirect(self._port),
                family=nftables.IPV4,
            )
            for address, spans in ways.items()
            for span in spans
        ]
        nftables.change(self._channel, [*chain, nftables.clear(_DIRECT, family=nftables.IPV4), *rules])
        self._kept = dict(ways)

    def close(self) -> None:
        """Release the filter."""
        self._channel.close()


def _chain(
    chain: str, hook: int, always: bytes, allowed: tuple[Allowed, ...] | None, peer: Callable[[str, str], bytes]
) -> Iterator[bytes]:
    accept = nftables.accept()
    # Connections of every pod are tracked, since a policy may come to it later.
    yield nftables.rule(chain, nftables.replies(), accept)
    if allowed is None:
        return
    yield nftables.rule(chain, nftables.to_itself(hook), accept)
    yield nftables.rule(chain, nftables.ipv4(), always, accept)
    for one in allowed:
        for conditions in _conditions(one, peer):
            yield nftables.rule(chain, conditions, accept)
    yield nftables.rule(chain, nftables.drop())


def _conditions(allowed: Allowed, peer: Callable[[str, str], bytes]) -> Iterator[bytes]:
    """Yield the conditions on a packet of these connections, one for each way to match."""
    addresses = [b""]
    if allowed.addresses is not None:
        addresses = [nftables.ipv4() + peer(_text(one.first), _text(one.last)) for one in allowed.addresses]
    ports = [b""]
    if allowed.ports is not None:
        ports = [nftables.ports(one.protocol, one.first, one.last) for one in allowed.ports]
    for address in addresses:
        for port in ports:
            yield address + port


def _text(number: int) -> str:
    return socket.inet_ntoa(number.to_bytes(4, "big"))
