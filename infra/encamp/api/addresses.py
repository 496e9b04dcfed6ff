"""The address of a request's client: that of its connection, or the one that a trusted gateway forwards.

A gateway appends the address that it was called from to ``X-Forwarded-For``, so the header is read from its right end:
each hop that is trusted is believed about the one before it, and what stands left of the first that is not may be
anybody's invention. Source: developer.mozilla.org/docs/Web/HTTP/Reference/Headers/X-Forwarded-For;
cloud.google.com/load-balancing/docs/https (it appends the client's address and its own).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    _Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Longer chains of gateways are nobody's.
_MOST_HOPS: Final = 20


class Addresses:
    """Tells the addresses of clients.

    Args:
        trusted: networks of gateways that are believed about who called them.
    """

    def __init__(self, trusted: Iterable[str] = ()) -> None:
        self._trusted = tuple(ipaddress.ip_network(one) for one in trusted)

    def client(self, peer: str, forwarded: Sequence[str]) -> str:
        """Return the address of the client of a request.

        Args:
            peer: the connection's own.
            forwarded: values of X-Forwarded-For, in the order of the request's head.
        """
        hop = _address(peer)
        if not self._trusted or hop is None or not self._is_trusted(hop):
            return peer
        named = [part for value in forwarded for part in value.split(",")]
        for part in reversed(named[-_MOST_HOPS:]):
            before = _address(part.strip())
            if before is None:
                break
            hop = before
            if not self._is_trusted(hop):
                break
        return str(hop)

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def _address(text: str) -> _Address | None:
    """Return an address, with or without a port; None if it is malformed. IPv4 in IPv6 counts as IPv4."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
