"""Rules of the kernel's packet filter, by netlink messages of our own: the tool ``nft`` is not on every machine.

Who owns a user namespace may filter in its network namespaces, so this needs no root. A socket that was opened in a
network namespace is of that one wherever it is used: the kubelet changes the rules of a pod without entering it.
Numbers: linux/netfilter/nf_tables.h, nfnetlink.h.
"""

from __future__ import annotations

import os
import socket
import struct

TABLE = "encamp"
#: Points in the path of a packet (linux/netfilter.h).
PREROUTING, LOCAL_IN, LOCAL_OUT = 0, 1, 3
FILTER, DNAT = 0, -100
IPV4, INET = 2, 1

_NETLINK_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE, _DELETE_RULE = 0, 3, 6, 8
_REQUEST, _ACKNOWLEDGE, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NLMSG_ERROR = 2
_NESTED = 0x8000
_REGISTER = 1
_SECONDS = 5.0
_META_IIF, _META_OIF, _META_NFPROTO, _META_L4PROTO = 4, 5, 15, 16
_LOOPBACK_INDEX = 1
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_SOURCE, _DESTINATION = 12, 16
_ESTABLISHED, _RELATED = 0x2, 0x4
_DROP, _ACCEPT = 0, 1
_DESTINATION_PORT = 2
PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}


def open_filter() -> socket.socket:
    """Open the filter of the network namespace that the caller is in. Raises OSError."""
    channel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    channel.bind((0, 0))
    return channel


def make_chain(
    name: str, hook: int, priority: int = FILTER, *, family: int = INET, kind: str = "filter"
) -> list[bytes]:
    """Make a chain, and the table before it; what is there stays."""
    place = _attribute(1, _big(hook)) + _attribute(2, struct.pack(">i", priority))
    chain = _text(1, TABLE) + _text(3, name) + _nested(4, place) + _attribute(5, _big(_ACCEPT)) + _text(7, kind)
    return [
        _message(_NEW_TABLE, _CREATE, family, _text(1, TABLE)),
        _message(_NEW_CHAIN, _CREATE, family, chain),
    ]


def clear(chain: str, *, family: int = INET) -> bytes:
    """Delete all rules of a chain."""
    return _message(_DELETE_RULE, 0, family, _text(1, TABLE) + _text(2, chain))


def rule(chain: str, *expressions: bytes, family: int = INET) -> bytes:
    """Append a rule to a chain: what fulfils all expressions gets the verdict that is the last one."""
    body = _text(1, TABLE) + _text(2, chain) + _nested(4, b"".join(expressions))
    return _message(_NEW_RULE, _CREATE | _APPEND, family, body)


def change(channel: socket.socket, messages: list[bytes]) -> None:
    """Apply all of the messages, or none.

    Raises:
        OSError: the kernel refuses it.
    """
    channel.settimeout(_SECONDS)
    messages = [_batch_edge(_BATCH_BEGIN), *messages, _batch_edge(_BATCH_END)]
    last = len(messages) - 2
    numbered = []
    for number, message in enumerate(messages):
        length, kind, flags = struct.unpack_from("IHH", message)
        if number == last:
            flags |= _ACKNOWLEDGE
        numbered.append(struct.pack("IHHII", length, kind, flags, number, 0) + message[16:])
    whole = b"".join(numbered)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(whole) + 65536)
    channel.send(whole)
    while True:
        answer = channel.recv(1 << 16)
        while answer:
            length, kind, _, number, _ = struct.unpack_from("IHHII", answer)
            if kind == _NLMSG_ERROR:
                code = struct.unpack_from("i", answer, 16)[0]
                if code != 0:
                    _drain(channel)
                    raise OSError(-code, os.strerror(-code), "nftables")
                if number == last:
                    return
            answer = answer[(length + 3) // 4 * 4 :]


def _drain(channel: socket.socket) -> None:
    """Drop what else the kernel says of a batch that it refused."""
    channel.setblocking(False)
    try:
        while channel.recv(1 << 16):
            pass
    except BlockingIOError:
        return


def to_itself(hook: int) -> bytes:
    """Return the match of packets on the loopback interface."""
    key = _META_IIF if hook == LOCAL_IN else _META_OIF
    return _meta(key) + _equals(struct.pack("I", _LOOPBACK_INDEX))


def replies() -> bytes:
    """Return the match of packets of an accepted connection."""
    load = _expression("ct", _attribute(1, _big(_REGISTER)) + _attribute(2, _big(0)))
    bits = struct.pack("I", _ESTABLISHED | _RELATED)
    mask = [_attribute(1, _big(_REGISTER)), _attribute(2, _big(_REGISTER)), _attribute(3, _big(4))]
    mask += [_nested(4, _attribute(1, bits)), _nested(5, _attribute(1, bytes(4)))]
    return load + _expression("bitwise", b"".join(mask)) + _compare(1, bytes(4))


def ipv4() -> bytes:
    """Return packets of IPv4."""
    return _meta(_META_NFPROTO) + _equals(bytes([socket.AF_INET]))


def source(first: str, last: str) -> bytes:
    """Return the match of IPv4 packets from these addresses; follows ``ipv4``."""
    return _load(_NETWORK_HEADER, _SOURCE, 4) + _within(socket.inet_aton(first), socket.inet_aton(last))


def destination(first: str, last: str) -> bytes:
    """Return the match of IPv4 packets to these addresses; follows ``ipv4``."""
    return _load(_NETWORK_HEADER, _DESTINATION, 4) + _within(socket.inet_aton(first), socket.inet_aton(last))


def destination_elsewhere(first: str, last: str) -> bytes:
    """Return the match of IPv4 packets to other addresses than these; follows ``ipv4``."""
    return _load(_NETWORK_HEADER, _DESTINATION, 4) + _within(
        socket.inet_aton(first), socket.inet_aton(last), inverted=1
    )


def ports(protocol: str, first: int = 0, last: int = 65535) -> bytes:
    """Return packets of a protocol to these ports."""
    load = _meta(_META_L4PROTO) + _equals(bytes([PROTOCOLS[protocol]]))
    if (first, last) == (0, 65535):
        return load
    return (
        load
        + _load(_TRANSPORT_HEADER, _DESTINATION_PORT, 2)
        + _within(struct.pack(">H", first), struct.pack(">H", last))
    )


def accept() -> bytes:
    """Return the verdict that accepts a packet."""
    return _verdict(_ACCEPT)


def drop() -> bytes:
    """Drop it without an answer."""
    return _verdict(_DROP)


def redirect(port: int) -> bytes:
    """Lead it to a port of the interface that it came in by."""
    value = _nested(2, _attribute(1, struct.pack(">H", port)))
    load = _expression("immediate", _attribute(1, _big(_REGISTER)) + value)
    return load + _expression("redir", _attribute(1, _big(_REGISTER)))


def _verdict(code: int) -> bytes:
    verdict = _nested(2, _nested(2, _attribute(1, _big(code))))
    return _expression("immediate", _attribute(1, _big(0)) + verdict)


def _meta(key: int) -> bytes:
    return _expression("meta", _attribute(1, _big(_REGISTER)) + _attribute(2, _big(key)))


def _load(base: int, offset: int, length: int) -> bytes:
    values = (_REGISTER, base, offset, length)
    return _expression("payload", b"".join(_attribute(kind, _big(value)) for kind, value in enumerate(values, 1)))


def _equals(value: bytes) -> bytes:
    return _compare(0, value)


def _compare(operator: int, value: bytes) -> bytes:
    data = _nested(3, _attribute(1, value))
    return _expression("cmp", _attribute(1, _big(_REGISTER)) + _attribute(2, _big(operator)) + data)


def _within(first: bytes, last: bytes, *, inverted: int = 0) -> bytes:
    data = _nested(3, _attribute(1, first)) + _nested(4, _attribute(1, last))
    return _expression("range", _attribute(1, _big(_REGISTER)) + _attribute(2, _big(inverted)) + data)


def _expression(name: str, data: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, data))


def _message(kind: int, flags: int, family: int, body: bytes) -> bytes:
    header = struct.pack("IHHII", 20 + len(body), _SUBSYSTEM << 8 | kind, _REQUEST | flags, 0, 0)
    return header + struct.pack(">BBH", family, 0, 0) + body


def _batch_edge(kind: int) -> bytes:
    return struct.pack("IHHII", 20, kind, _REQUEST, 0, 0) + struct.pack(">BBH", 0, 0, _SUBSYSTEM)


def _big(value: int) -> bytes:
    return struct.pack(">I", value)


def _text(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _nested(kind: int, body: bytes) -> bytes:
    return _attribute(_NESTED | kind, body)


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("HH", length, kind) + value + bytes(-length % 4)
