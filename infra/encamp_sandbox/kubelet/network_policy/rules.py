"""Allowed connections of a pod in both directions: plain data, and the decision about one connection."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TCP: Final = "TCP"
_LAST_PORT: Final = 65535


@dataclass(frozen=True, order=True)
class Span:
    """IPv4 addresses as numbers, from the first to the last."""

    first: int
    last: int

    @classmethod
    def of(cls, network: str) -> Span:
        """Return all addresses of a network such as ``10.4.0.0/16``, or one address. Raises ValueError."""
        found = ipaddress.IPv4Network(network)
        return cls(int(found.network_address), int(found.broadcast_address))


@dataclass(frozen=True, order=True)
class Ports:
    """Ports of a protocol (``TCP``, ``UDP``, ``SCTP``), from the first to the last."""

    protocol: str
    first: int = 0
    last: int = _LAST_PORT


@dataclass(frozen=True)
class Allowed:
    """Connections that one rule allows.

    Attributes:
        addresses: of the other end; None for every address.
        ports: of the end that is connected to; None for every port and protocol.
    """

    addresses: tuple[Span, ...] | None = None
    ports: tuple[Ports, ...] | None = None

    def holds(self, address: int, protocol: str, port: int) -> bool:
        """Whether a connection is among them."""
        return (self.addresses is None or any(one.first <= address <= one.last for one in self.addresses)) and (
            self.ports is None or any(one.protocol == protocol and one.first <= port <= one.last for one in self.ports)
        )


@dataclass(frozen=True)
class PodRules:
    """Rules of one pod; replies to what is allowed are allowed.

    Attributes:
        ingress: what may connect to the pod; None if no policy isolates it in this direction.
        egress: what the pod may connect to; None in the same way.
        named: addresses outside of the cluster that egress rules name, by blocks narrow enough to be somebody's
            network rather than the internet.
    """

    ingress: tuple[Allowed, ...] | None = None
    egress: tuple[Allowed, ...] | None = None
    named: tuple[Span, ...] = ()

    def lets_in(self, address: str, port: int, protocol: str = TCP) -> bool:
        """Whether an address may connect to a port of the pod."""
        return _allowed(self.ingress, address, protocol, port)

    def lets_out(self, address: str, port: int, protocol: str = TCP) -> bool:
        """Whether the pod may connect to a port of an address."""
        return _allowed(self.egress, address, protocol, port)

    def names(self, address: str) -> bool:
        """Whether egress rules name an address, alone or in a network."""
        number = _number(address)
        return number is not None and any(one.first <= number <= one.last for one in self.named)

    def names_alone(self, address: str) -> bool:
        """Whether egress rules name an address alone, as a network of one."""
        number = _number(address)
        return number is not None and Span(number, number) in self.named


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Join spans that overlap or touch."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.first <= found[-1].last + 1:
            found[-1] = Span(found[-1].first, max(found[-1].last, span.last))
        else:
            found.append(span)
    return tuple(found)


def without(span: Span, excepted: Iterable[Span]) -> tuple[Span, ...]:
    """Cut spans out of another one."""
    left: list[Span] = []
    first = span.first
    for one in merged(excepted):
        if one.last < first or one.first > span.last:
            continue
        if one.first > first:
            left.append(Span(first, one.first - 1))
        first = max(first, one.last + 1)
    if first <= span.last:
        left.append(Span(first, span.last))
    return tuple(left)


def _allowed(rules: tuple[Allowed, ...] | None, address: str, protocol: str, port: int) -> bool:
    if rules is None:
        return True
    number = _number(address)
    if number is None:  # IPv6, which no block or pod has here
        return any(one.addresses is None and one.holds(0, protocol, port) for one in rules)
    return any(one.holds(number, protocol, port) for one in rules)


def _number(address: str) -> int | None:
    found = ipaddress.ip_address(address.partition("%")[0])
    return int(found) if found.version == 4 else None  # noqa: PLR2004 - the version's number is its name
