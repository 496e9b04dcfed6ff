"""How the API server reaches pods, and how readiness probes do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import pytest

from encamp_sandbox.kubelet.egress import serve_egress
from encamp_sandbox.kubelet.readiness import has_probe, until_ready

if TYPE_CHECKING:
    from pathlib import Path

POD = "10.8.0.4"


class Pod:
    """A server that stands for a pod at its address; answers with what it is asked, or as told."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.asked: list[bytes] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        self.asked.append(line)
        writer.write(self._answers.pop(0) if self._answers else line)
        writer.close()

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self._server is not None
        if (address, port) != (POD, 9443):
            raise ConnectionRefusedError(f"{address}:{port}")
        return await asyncio.open_connection(*self._server.sockets[0].getsockname()[:2])


async def asked(folder: Path, pod: Pod, *lines: bytes) -> list[bytes]:
    """What comes back when a client sends a head and, after its answer, a line."""
    path = folder / "egress.sock"
    server = await serve_egress(path, pod.dial)
    reader, writer = await asyncio.open_unix_connection(path)
    found = []
    for line in lines:
        writer.write(line)
        found.append(await reader.readline())
        if line.startswith(b"CONNECT"):
            await reader.readline()
    writer.close()
    server.close()
    # What serves the connection closes it; the loop does not wait for that.
    if serving := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(serving, timeout=10)
    return found


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        ((b"CONNECT 10.8.0.4:9443 HTTP/1.1\r\n\r\n", b"hello\n"), [b"HTTP/1.1 200 OK\r\n", b"hello\n"]),
        ((b"CONNECT 10.8.0.5:9443 HTTP/1.1\r\n\r\n",), [b"HTTP/1.1 502 Bad Gateway\r\n"]),
        ((b"CONNECT 10.8.0.4:https HTTP/1.1\r\n\r\n",), [b"HTTP/1.1 400 Bad Request\r\n"]),
        ((b"GET / HTTP/1.1\r\n\r\n",), [b"HTTP/1.1 400 Bad Request\r\n"]),
    ],
)
def test_the_api_server_reaches_pods_by_connect(tmp_path: Path, lines: tuple[bytes, ...], answers: list[bytes]) -> None:
    async def scene() -> list[bytes]:
        async with Pod() as pod:
            return await asked(tmp_path, pod, *lines)

    assert asyncio.run(scene()) == answers


@pytest.mark.parametrize(
    ("probe", "has"),
    [({"httpGet": {"port": 8081}}, True), ({"tcpSocket": {"port": 1}}, True), ({"exec": {"command": ["x"]}}, False)],
)
def test_a_probe_is_asked_where_it_can_be(probe: dict[str, Any], *, has: bool) -> None:
    assert has_probe({"readinessProbe": probe}) == has
    assert not has_probe({})


@pytest.mark.parametrize("port", [9443, "webhook"])
def test_a_container_is_ready_when_its_probe_succeeds(monkeypatch: pytest.MonkeyPatch, port: int | str) -> None:
    monkeypatch.setattr("encamp_sandbox.kubelet.readiness._EVERY_SECONDS", 0.01)
    container = {
        "ports": [{"name": "webhook", "containerPort": 9443}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": port}},
    }

    async def scene() -> list[bytes]:
        async with Pod(b"HTTP/1.1 500 starting\r\n", b"", b"HTTP/1.1 200 OK\r\n") as pod:
            await asyncio.wait_for(until_ready(container, POD, pod.dial), 10)
            return pod.asked

    assert asyncio.run(scene()) == [b"GET /readyz HTTP/1.1\r\n"] * 3
