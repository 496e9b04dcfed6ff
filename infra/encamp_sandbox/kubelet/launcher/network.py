"""Interfaces, addresses and routes, by the kernel's oldest calls, which need no library.

Only a pair of virtual Ethernet ends has to be asked for by netlink (rtnetlink(7), linux/veth.h); the rest is ioctl
(netdevice(7)).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct

BRIDGE = "encamp0"
#: Of the bridge, locally administered. Without one of its own a bridge takes the lowest of its ports', which changes as
#: pods come and go, and leaves the others with a gateway and a metadata server that they cannot reach for a while.
BRIDGE_ADDRESS = "02:65:6e:63:61:6d"

_SIOCADDRT = 0x890B
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFNETMASK = 0x891C
_SIOCSIFHWADDR = 0x8924
_SIOCGIFINDEX = 0x8933
_SIOCBRADDBR = 0x89A0
_SIOCBRADDIF = 0x89A2
_ARPHRD_ETHER = 1
_IFF_UP = 1
_RTF_UP_GATEWAY = 3

_RTM_NEWLINK = 16
_NLM_FLAGS = 0x1 | 0x4 | 0x200 | 0x400  # request, acknowledge, exclusive, create
_NLMSG_ERROR = 2
_IFLA_IFNAME = 3
_IFLA_LINKINFO = 18
_IFLA_NET_NS_FD = 28
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1
_NO_LINK = struct.pack("BxHiII", 0, 0, 0, 0, 0)


def make_bridge(gateway: str, prefix_length: int, further: list[str]) -> None:
    """Bring up the loopback and a bridge that has the gateway's address and, as host addresses, ``further``."""
    up("lo")
    with _socket() as control:
        fcntl.ioctl(control, _SIOCBRADDBR, BRIDGE.encode() + b"\0")
        hardware = bytes.fromhex(BRIDGE_ADDRESS.replace(":", ""))
        fcntl.ioctl(control, _SIOCSIFHWADDR, struct.pack("16sH6s16x", BRIDGE.encode(), _ARPHRD_ETHER, hardware))
    add_address(BRIDGE, gateway, prefix_length)
    for number, address in enumerate(further, 1):
        add_address(f"{BRIDGE}:{number}", address, 32)
    up(BRIDGE)


def attach(name: str, peer_namespace: int) -> None:
    """Make a pair: ``name`` on the bridge, ``eth0`` in the network namespace behind ``peer_namespace``."""
    peer = (
        _NO_LINK + _attribute(_IFLA_IFNAME, b"eth0\0") + _attribute(_IFLA_NET_NS_FD, struct.pack("I", peer_namespace))
    )
    data = _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, peer))
    info = _attribute(_IFLA_LINKINFO, _attribute(_IFLA_INFO_KIND, b"veth") + data)
    _netlink(_NO_LINK + _attribute(_IFLA_IFNAME, name.encode() + b"\0") + info)
    with _socket() as control:
        index = struct.unpack("16si", fcntl.ioctl(control, _SIOCGIFINDEX, struct.pack("16si", name.encode(), 0)))[1]
        fcntl.ioctl(control, _SIOCBRADDIF, struct.pack("16si20x", BRIDGE.encode(), index))
    up(name)


def configure_pod(address: str, prefix_length: int, gateway: str) -> None:
    """Bring up loopback and ``eth0`` of a pod, with its address and the way out."""
    up("lo")
    add_address("eth0", address, prefix_length)
    up("eth0")
    everywhere = _inet("0.0.0.0")  # noqa: S104 - of a route, nothing is bound
    route = struct.pack("Q16s16s16sHh4xQ", 0, everywhere, _inet(gateway), everywhere, _RTF_UP_GATEWAY, 0, 0)
    with _socket() as control:
        fcntl.ioctl(control, _SIOCADDRT, route + bytes(64))


def up(interface: str) -> None:
    """Switch an interface on."""
    with _socket() as control:
        request = struct.pack("16sH14x", interface.encode(), 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), flags | _IFF_UP))


def add_address(interface: str, address: str, prefix_length: int) -> None:
    """Give an interface an IPv4 address; a name like ``encamp0:1`` adds a further one."""
    mask = socket.inet_ntoa(struct.pack("!I", (0xFFFFFFFF << (32 - prefix_length)) & 0xFFFFFFFF))
    with _socket() as control:
        for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, mask)):
            fcntl.ioctl(control, request, struct.pack("16s16s8x", interface.encode(), _inet(value)))


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _inet(address: str) -> bytes:
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("HH", length, kind) + value + bytes(-length % 4)


def _netlink(body: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as channel:
        channel.bind((0, 0))
        channel.send(struct.pack("IHHII", 16 + len(body), _RTM_NEWLINK, _NLM_FLAGS, 1, 0) + body)
        answer = channel.recv(65536)
    kind, code = struct.unpack_from("H", answer, 4)[0], struct.unpack_from("i", answer, 16)[0]
    if kind != _NLMSG_ERROR or code != 0:
        raise OSError(-code, os.strerror(-code), "netlink")
