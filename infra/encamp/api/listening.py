"""The service's listening sockets: addresses are looked up once, checked, and bound as they were checked."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.guard.listening import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

_BACKLOG = 512
#: A free port of one address may be taken at another: so often another one is tried.
_TRIES = 10
_IPv4, _IPv6 = socket.AF_INET, socket.AF_INET6


@dataclass(frozen=True)
class Listening:
    """Bound sockets, not yet listened on.

    Attributes:
        sockets: one an address, all of one port.
        url: where a client of this machine reaches them, without a slash at its end.
    """

    sockets: tuple[socket.socket, ...]
    url: str

    @property
    def addresses(self) -> tuple[str, ...]:
        """Such as ``127.0.0.1:8484`` and ``[::1]:8484``."""
        names = [sock.getsockname()[:2] for sock in self.sockets]
        return tuple(f"{_shown(host)}:{port}" for host, port in names)

    def close(self) -> None:
        """Close every socket."""
        for sock in self.sockets:
            sock.close()


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address; one of IPv4 in IPv6 counts as what it stands for."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def listen(host: str, port: int, *, credentials: bool) -> Listening:
    """Bind what ``host`` stands for; port 0 takes a free one.

    ``credentials`` says whether callers are asked for any: nobody listens wider than loopback without.

    Raises:
        UsageError: the host is unknown, too wide, or none of this machine's; the port is taken or not allowed.
    """
    found = _addresses(host, port)
    wide = [address for _, address in found if not is_loopback(address)]
    if wide and not credentials:
        raise UsageError(
            f"{wide[0]} can be reached by others, and callers are asked for no credentials",
            where="--host",
            hint="leave --no-credentials out, or listen on 127.0.0.1",
        )
    for _ in range(_TRIES):
        sockets = _bound(found, port, credentials=credentials)
        if sockets is not None:
            return Listening(sockets, f"http://{_shown(_reached(sockets))}:{sockets[0].getsockname()[1]}")
    raise UsageError(f"no port is free at every address of {host}", where="--port", hint="name an address")


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    if not host.strip():
        raise UsageError("an empty host means every address", where="--host", hint="write 0.0.0.0 where that is meant")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host!r} cannot be looked up: {error}", where="--host") from None
    # Names may stand for an address twice.
    return list(dict.fromkeys((family, str(place[0])) for family, *_, place in found if family in (_IPv4, _IPv6)))


def _bound(
    found: Sequence[tuple[socket.AddressFamily, str]], port: int, *, credentials: bool
) -> tuple[socket.socket, ...] | None:
    """Return a socket for each address; None if a port that was free at one address is taken at another.

    Without credentials only this user's own programs are let in, as far as the system says whose a connection is.
    """
    with contextlib.ExitStack() as undo:
        sockets: list[socket.socket] = []
        missing: OSError | None = None
        for family, address in found:
            # asyncio sends small writes at once (TCP_NODELAY) on sockets that say they are TCP, and on no others: head
            # and body of an answer are two, and the second would wait 40 ms for a delayed acknowledgement.
            sock = undo.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            wanted = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                _bind(sock, address, wanted)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    # localhost may stand for an IPv6 address that this machine has not.
                    missing = error
                    sock.close()
                    continue
                if error.errno == errno.EADDRINUSE and not port:
                    return None
                raise _refused(error, address, wanted) from error
            sockets.append(sock)
        if not sockets and missing is not None:
            raise _refused(missing, found[0][1], port)
        for sock in sockets:
            sock.set_inheritable(False)
        undo.pop_all()
    return tuple(sockets if credentials else map(guarded, sockets))


def _bind(sock: socket.socket, address: str, port: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == _IPv6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not _is_mapped(address)))
    sock.bind((address, port))
    # SO_REUSEADDR lets two of us bind one port; only one of them can listen on it.
    sock.listen(_BACKLOG)


def _is_mapped(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    return isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None


def _refused(error: OSError, address: str, port: int) -> UsageError:
    where = f"{_shown(address)}:{port}"
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            "another program listens there already", where=where, hint="another --port; 0 takes a free one"
        )
    if error.errno == errno.EACCES:
        return UsageError("this port is not for every user", where=where, hint="a --port from 1024 on")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError("this is no address of this machine", where=where, hint="--host 127.0.0.1")
    return UsageError(f"cannot be listened on: {error.strerror}", where=where)


def _reached(sockets: Sequence[socket.socket]) -> str:
    """Return the address that a client of this machine calls: the wildcard is none."""
    address = str(sockets[0].getsockname()[0])
    if not ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return address
    return "::1" if sockets[0].family == _IPv6 else "127.0.0.1"


def _shown(address: str) -> str:
    return f"[{address}]" if ":" in address else address
