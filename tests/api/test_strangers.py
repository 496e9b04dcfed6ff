"""Callers whom nobody knows, over real sockets: they take no place of those who work, and are on record."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.api.test_wire import JOBS, Reply, Wire, ask, request
from tests.api.world import DEVELOPER, World, served, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

_FORM = "application/x-www-form-urlencoded"
#: A request that says by its head that its query is in a body, which then comes slowly or never.
_HELD = {"x_http_method_override": "GET", "content_type": _FORM, "content_length": "1000"}


@contextlib.contextmanager
def serving(found: World, **limits: float) -> Iterator[tuple[str, int]]:
    with served(found.app, **limits) as url:
        host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
        yield host, int(port)


def held(address: tuple[str, int], count: int, opened: contextlib.ExitStack, **headers: str) -> list[Wire]:
    """Connections whose requests have begun, and whose bodies do not come."""
    wires = [opened.enter_context(Wire(address)) for _ in range(count)]
    for wire in wires:
        wire.send(request("POST", JOBS, b"", **{**_HELD, **headers}) + b"filter=")
    return wires


def probe(address: tuple[str, int], path: str) -> int:
    with Wire(address) as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        return int(wire.rest().split()[1])


def entries(found: World) -> list[dict[str, Any]]:
    return [json.loads(line)["protoPayload"] for line in (found.folder / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("token", ["", "Bearer of-nobody"])
def test_bodies_of_strangers_that_do_not_come_stop_nobody(tmp_path: Path, token: str) -> None:
    with world(tmp_path) as found, serving(found) as address, contextlib.ExitStack() as opened:
        strangers = held(address, 100, opened, authorization=token)
        answers = [ask(address, request("GET", JOBS, authorization=f"Bearer {DEVELOPER}")) for _ in range(20)]
        assert [one.code for one in answers] == [200] * 20
        assert [probe(address, path) for path in ("/healthz", "/readyz")] == [200, 200]
        # They are refused by their heads alone, before a byte of a body is waited for.
        refused: list[Reply] = [wire.reply() for wire in strangers]
        assert {(one.code, one.status) for one in refused} == {(401, "UNAUTHENTICATED")}


def test_more_connections_of_strangers_than_there_are_let_others_in(tmp_path: Path) -> None:
    with world(tmp_path) as found, serving(found, connections=40) as address, contextlib.ExitStack() as opened:
        for _ in range(100):
            wire = opened.enter_context(Wire(address))
            wire.send(request("GET", JOBS)[:30])
        held(address, 100, opened, authorization="")
        assert ask(address, request("GET", JOBS, authorization=f"Bearer {DEVELOPER}")).code == 200
        assert [probe(address, path) for path in ("/healthz", "/readyz")] == [200, 200]


def test_what_strangers_try_is_on_record(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        with serving(found) as address, contextlib.ExitStack() as opened:
            for wire in held(address, 3, opened, authorization=""):
                wire.reply()
        shown = entries(found)
    assert [one["status"] for one in shown] == [{"code": 16, "message": shown[0]["status"]["message"]}] * 3
    assert {one["methodName"] for one in shown} == {"google.cloud.ml.v1.JobService.ListJobs"}


def test_a_flood_of_strangers_fills_no_disk(tmp_path: Path) -> None:
    with world(tmp_path) as found:
        with serving(found) as address, Wire(address) as wire:
            for _ in range(500):
                wire.send(request("GET", JOBS, authorization=""))
                assert wire.reply().code == 401
        found.audit.close()
        *listed, count = entries(found)
    assert len(listed) + count["metadata"]["calls"] == 500
    assert len(listed) < 50
    assert set(count["metadata"]["by"]) == {"127.0.0.1"}
