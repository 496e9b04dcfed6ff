"""The user who made the other end of a TCP connection within this machine, as Linux knows it.

Asks the kernel for exactly one socket (sock_diag(7), some 15 µs); where netlink is refused, reads /proc/net/tcp. Both
also show sockets that no process holds any more, with user 0: these have no inode and count as nobody's.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_HEADER: Final = struct.Struct("=IHHII")
# struct inet_diag_req_v2 and the beginning and end of struct inet_diag_msg, linux/inet_diag.h.
_REQUEST: Final = struct.Struct("=BBBxI2s2s16s16sI8s")
_MESSAGE: Final = struct.Struct("=BBBB2s2s16s16sI8sIIIII")
_LISTEN: Final = 10
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"

Address = tuple[str, int]


def can_tell() -> bool:
    """Whether this system says whose a connection is."""
    return sys.platform == "linux"


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user id of a connected socket's other end; None if no process of this machine holds it."""
    try:
        peer, own = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError:
        return None
    return uid_of(peer, own)


def uid_of(local: Address, remote: Address) -> int | None:
    """Return the user id of the socket at ``local`` that is connected to ``remote``; None if no process holds it."""
    near, far = _plain(local[0]), _plain(remote[0])
    try:
        return _asked((near, local[1]), (far, remote[1]))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        return _listed((near, local[1]), (far, remote[1]))


def _asked(local: tuple[bytes, int], remote: tuple[bytes, int]) -> int | None:
    """Ask for the one socket. Raises OSError: ENOENT for no such socket, others where the kernel does not answer."""
    family = socket.AF_INET if len(local[0]) == 4 else socket.AF_INET6  # noqa: PLR2004 - bytes of an IPv4 address
    ports = (struct.pack("!H", local[1]), struct.pack("!H", remote[1]))
    addresses = (local[0].ljust(16, b"\0"), remote[0].ljust(16, b"\0"))
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES, *ports, *addresses, 0, _NO_COOKIE)
    head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as channel:
        channel.send(head + body)
        answer = channel.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _SOCK_DIAG_BY_FAMILY:
        number = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    _, state, _, _, *place, _, _, _, _, _, uid, inode = _MESSAGE.unpack_from(answer, _HEADER.size)
    # The kernel answers with a listening socket where none is connected.
    return uid if state != _LISTEN and place[:2] == list(ports) and inode else None


def _listed(local: tuple[bytes, int], remote: tuple[bytes, int]) -> int | None:
    """Look the socket up in the tables that everybody may read."""
    wanted = {(_word(local[0], local[1], mapped), _word(remote[0], remote[1], mapped)) for mapped in (False, True)}
    for table in _TABLES:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if (fields[1], fields[2]) in wanted and int(fields[3], 16) != _LISTEN and int(fields[9]):
                return int(fields[7])
    return None


def _word(address: bytes, port: int, mapped: bool) -> str:
    """Return an address as the tables spell it: words of four bytes in the machine's order."""
    whole = _MAPPED + address if mapped and len(address) == 4 else address  # noqa: PLR2004 - as above
    words = struct.unpack(f"={len(whole) // 4}I", whole)
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"


def _plain(address: str) -> bytes:
    """Return an address's bytes; IPv4 in IPv6 as what it stands for."""
    text = address.partition("%")[0]
    if ":" not in text:
        return socket.inet_aton(text)
    found = socket.inet_pton(socket.AF_INET6, text)
    return found[12:] if found.startswith(_MAPPED) else found
