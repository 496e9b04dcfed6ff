"""Allowed destinations of pods: public addresses at ports 80 and 443, and the owner's configured package index.

Within that, and beyond it where they name a network, the pod's network policies decide.

A name is looked up once, and the connection goes to the address that was judged. Every address that stands for another
one (IPv4 in IPv6, NAT64, 6to4, Teredo) is judged as that one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from encamp_sandbox.outbound.owner import OwnerIndexes

PORTS: Final = (80, 443)
_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
#: An address and port of pypi.org. Indexes that the owner configured, and mirrors, stand for it wherever they lie.
_PYPI: Final = ("151.101.0.223", 443)
CLOSED: Final = "the pod's network policies do not allow it"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedError(Exception):
    """A destination that may not be reached; the message says why."""


class Destinations(Protocol):
    """Ways to hosts, as far as they are allowed."""

    async def connect(self, host: str, port: int, client: str) -> Stream:
        """Connect for a client, which is an address. Raises RefusedError and OSError."""
        ...


class Rules(Protocol):
    """The decisions of network policies about a pod's connections."""

    def lets_out(self, address: str, port: int) -> bool:
        """Whether the pod may connect to a port of an address, by TCP."""
        ...

    def names(self, address: str) -> bool:
        """Whether they name an address, alone or in a network."""
        ...

    def names_alone(self, address: str) -> bool:
        """Whether they name an address alone."""
        ...


class NoRules:
    """The rules of a pod that no policy speaks of."""

    def lets_out(self, address: str, port: int) -> bool:
        """Return True: everything is let out."""
        del address, port
        return True

    def names(self, address: str) -> bool:
        """Return False: nothing is named."""
        del address
        return False

    names_alone = names


@dataclass(frozen=True)
class Public:
    """Destinations of pods.

    Attributes:
        indexes: what the owner of this machine configured for pip.
        own: gives every address of this machine.
        rules_at: gives the rules of the pod that has an address.
    """

    indexes: OwnerIndexes
    own: Callable[[], frozenset[Address]]
    rules_at: Callable[[str], Rules] = lambda _: NoRules()

    async def connect(self, host: str, port: int, client: str = "") -> Stream:
        """Connect to the first address that answers. Raises RefusedError and OSError."""
        last: OSError = TimeoutError("it does not answer")
        for address in await self.addresses(host, port, client):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                last = error
        raise last

    async def addresses(self, host: str, port: int, client: str = "") -> list[str]:
        """Look a host up and give its addresses that a pod may reach. Raises RefusedError and OSError."""
        rules = self.rules_at(client)
        named = (host, port) in self.indexes.named
        mirrored = (host, port) in self.indexes.usual
        if (named or mirrored) and not rules.lets_out(*_PYPI):
            raise RefusedError(f"{CLOSED}; an index of packages is judged as pypi.org")
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        places = list(dict.fromkeys(str(place[0]) for family, *_, place in found if family in _FAMILIES))
        if named:
            return places
        own = self.own()
        reasons = {place: _reason(place, port, own, rules, mirrored=mirrored) for place in places}
        allowed = [place for place, reason in reasons.items() if reason is None]
        if not allowed:
            raise RefusedError(next(iter(reasons.values()), None) or "it has no address")
        return allowed


def _reason(place: str, port: int, own: frozenset[Address], rules: Rules, *, mirrored: bool) -> str | None:
    """Return why a pod may not reach a port of an address; None if it may."""
    named = rules.names(place)
    if port not in PORTS and not named:
        return f"pods reach ports {PORTS[0]} and {PORTS[1]} of other hosts, not {port}"
    if rules.names_alone(place):  # the owner's environment means this very machine
        own = frozenset()
    return refusal(place, own, private=named or mirrored) or (
        None if mirrored or rules.lets_out(place, port) else CLOSED
    )


def refusal(text: str, own: Iterable[Address], *, private: bool = False) -> str | None:
    """Return why a pod may not reach an address; None if it may. ``private`` says that private ones are allowed."""
    address = ipaddress.ip_address(text.partition("%")[0])
    for one in [address, *stands_for(address)]:
        if one.is_loopback or one.is_unspecified or one in own:
            return f"{text} is this machine"
        if one.is_link_local or one.is_multicast:
            return f"{text} is of this machine's own network"
        if not one.is_global and not private and not stands_for(one):
            return f"{text} is a private or reserved address"
    return None


def stands_for(address: Address) -> list[ipaddress.IPv4Address]:
    """Return IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def own_addresses() -> frozenset[Address]:
    """Return every address of this machine's interfaces."""
    texts = (one.address for card in psutil.net_if_addrs().values() for one in card if one.family in _FAMILIES)
    return frozenset(ipaddress.ip_address(text.partition("%")[0]) for text in texts)
