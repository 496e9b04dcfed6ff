"""Whose a connection is, by the kernel's two ways of telling."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

import pytest

from encamp.guard import peers

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say whose a connection is")


@pytest.fixture(params=["netlink", "tables"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "tables":

        def refused(*_: object) -> int:
            raise PermissionError("netlink is not for everybody")

        monkeypatch.setattr(peers, "_asked", refused)
    return str(request.param)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_a_connection_is_its_makers(way: str, server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
        assert peers.peer_uid(accepted) == os.getuid(), way


def test_ipv6_and_ipv4_in_ipv6(way: str, server: socket.socket) -> None:
    with socket.socket(socket.AF_INET6) as client:
        client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
        with server.accept()[0] as accepted:
            assert peers.peer_uid(accepted) == os.getuid(), way
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as six:
        client = socket.create_connection(six.getsockname()[:2])
        with client, six.accept()[0] as accepted:
            assert peers.peer_uid(accepted) == os.getuid(), way


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_whose_maker_left_is_nobodys(way: str, server: socket.socket, reset: bool) -> None:
    """The kernel shows such sockets with user 0: a guard of root's would let them in."""
    client = socket.create_connection(server.getsockname())
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with server.accept()[0] as accepted:
        client.sendall(b"all that it wants")
        client.close()
        time.sleep(0.05)
        assert peers.peer_uid(accepted) is None, way


def test_a_listening_socket_is_no_peer(way: str, server: socket.socket) -> None:
    """The kernel's look-up falls back to one that listens at the same port."""
    assert peers.uid_of(server.getsockname(), ("127.0.0.1", 1)) is None, way
