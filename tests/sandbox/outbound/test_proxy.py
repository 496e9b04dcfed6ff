"""The CONNECT proxy: what it passes on, what it refuses, and what it tells of it."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import pytest

from encamp.guard.listening import listen
from encamp_sandbox.outbound.anywhere import Anywhere
from encamp_sandbox.outbound.destinations import Public, own_addresses
from encamp_sandbox.outbound.owner import OWN_PROXY, OWNER_PROXY, OwnerIndexes, owner_proxy
from encamp_sandbox.outbound.proxy import ConnectProxy, Front

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp_sandbox.outbound.destinations import Destinations

OK, FORBIDDEN, GATEWAY = "200 Connection Established", "403 Forbidden", "502 Bad Gateway"


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(4))
    writer.close()


async def _asked(port: int, target: str) -> tuple[str, bytes]:
    """Status of a CONNECT, and what came back of ``ping`` where it was let through."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    status = (await reader.readline()).decode().partition(" ")[2].strip()
    came = b""
    if status == OK:
        await reader.readline()
        writer.write(b"ping")
        came = await reader.read()
    writer.close()
    return status, came


def answers(
    destinations: Destinations, *targets: str, admits: Callable[[str, int], bool] = lambda _client, _port: True
) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """What a proxy answers to each target, ``PORT`` in it being a server's here, and what it told."""
    told: list[tuple[str, str]] = []

    async def work() -> list[tuple[str, bytes]]:
        there = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = there.sockets[0].getsockname()[1]
        listener = listen(0)
        proxy = ConnectProxy(
            listener, Front(port, admits), destinations, lambda _, target, refusal: told.append((target, refusal))
        )
        await proxy.start()
        try:
            at = listener.getsockname()[1]
            return [await _asked(at, target.replace("PORT", str(port))) for target in targets]
        finally:
            await proxy.stop()
            there.close()

    return asyncio.run(work()), told


def test_pods_do_not_reach_this_machine_and_the_log_says_so() -> None:
    targets = ["127.0.0.1:PORT", "localhost:443", "[::ffff:127.0.0.1]:443", "0x7f.1:80"]
    found, told = answers(Public(OwnerIndexes(), own_addresses), *targets)
    assert {status for status, _ in found} <= {FORBIDDEN, GATEWAY}
    assert ("localhost:443", "127.0.0.1 is this machine") in told or ("localhost:443", "::1 is this machine") in told


def test_googles_hosts_are_the_front_and_nothing_is_told_of_them() -> None:
    hosts = ["storage.googleapis.com:443", "IAMCREDENTIALS.googleapis.com.:443", "accounts.google.com:443"]
    found, told = answers(Public(OwnerIndexes(), own_addresses), *hosts)
    assert found == [(OK, b"ping")] * 3
    assert told == []


def test_googles_hosts_are_judged_by_the_rules_of_whoever_asks() -> None:
    asked: list[tuple[str, int]] = []

    def admits(client: str, port: int) -> bool:
        asked.append((client, port))
        return port == 443

    targets = ["storage.googleapis.com:443", "storage.googleapis.com:80"]
    found, told = answers(Public(OwnerIndexes(), own_addresses), *targets, admits=admits)
    assert found == [(OK, b"ping"), (FORBIDDEN, b"")]
    assert asked == [("127.0.0.1", 443), ("127.0.0.1", 80)]
    assert told == [("storage.googleapis.com:80", "the pod's network policies do not allow it")]


def test_the_sandboxs_own_user_reaches_everything() -> None:
    found, told = answers(Anywhere(), "127.0.0.1:PORT")
    assert found == [(OK, b"ping")]
    assert told[0][1] == ""


@pytest.mark.parametrize(("without", "asked"), [("", True), ("corp,.example.com", True), ("127.0.0.1", False)])
def test_a_proxy_of_the_owners_own_is_used(without: str, asked: bool) -> None:
    heads: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await _echo(reader, writer)

    async def work() -> bytes:
        proxy = await asyncio.start_server(upstream, "127.0.0.1", 0)
        there = await asyncio.start_server(_echo, "127.0.0.1", 0)
        ports = [one.sockets[0].getsockname()[1] for one in (proxy, there)]
        way = Anywhere(f"http://ana:se%20cret@127.0.0.1:{ports[0]}", without)
        reader, writer = await way.connect("127.0.0.1", ports[1])
        writer.write(b"ping")
        came = await reader.read()
        for one in (writer, proxy, there):
            one.close()
        return came

    assert asyncio.run(work()) == b"ping"
    assert bool(heads) is asked
    assert not heads or base64.b64encode(b"ana:se cret") in heads[0]


def test_the_owners_proxy_is_told_from_the_sandboxs() -> None:
    ours = {OWN_PROXY: "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
    assert owner_proxy({}) == ""
    assert owner_proxy({"HTTPS_PROXY": "http://corp:3128"}) == "http://corp:3128"
    assert owner_proxy(ours) == ""
    assert owner_proxy({**ours, OWNER_PROXY: "http://corp:3128"}) == "http://corp:3128"
