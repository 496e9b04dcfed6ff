"""The kubelet's servers, logs and runtimes, without a control plane."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import httpx
import pytest

from encamp.process import OutputLine
from encamp_sandbox.kubelet.hosts import Hosts
from encamp_sandbox.kubelet.isolation import NAMESPACES, NONE, isolation
from encamp_sandbox.kubelet.logs import LogFile, LogQuery, last_lines, read
from encamp_sandbox.kubelet.nodes import Nodes
from encamp_sandbox.kubelet.plain import Plain
from encamp_sandbox.kubelet.relay import relay
from encamp_sandbox.kubelet.runtime import ContainerRequest, PodRequest, StartError
from encamp_sandbox.kubelet.server import Answer, Request, serve
from encamp_sandbox.layout import Layout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow


def shown(path: Path, **query: str) -> bytes:
    async def collect() -> bytes:
        return b"".join([piece async for piece in read(path, LogQuery.from_parameters(query), lambda: True)])

    return asyncio.run(collect())


def test_a_log_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "c" / "0.log")
    for line in (
        OutputLine(b"one"),
        OutputLine(b"10%", redrawn=True),
        OutputLine(b"\xfftwo", ended=False),
        OutputLine(b" and more"),
        OutputLine(b"half", ended=False),
    ):
        log.write("stdout", line)
    log.close()
    log.write("stdout", OutputLine(b"too late"))
    whole = b"one\n10%\r\xfftwo and more\nhalf"
    assert shown(log.path) == whole
    assert shown(log.path, tailLines="2") == b"10%\r\xfftwo and more\nhalf"
    assert shown(log.path, tailLines="0") == b""
    assert shown(log.path, limitBytes="5") == whole[:5]
    assert shown(log.path, sinceTime="2999-01-01T00:00:00Z") == b""
    assert last_lines(log.path, lines=1, size=2) == "lf"
    assert last_lines(tmp_path / "none", lines=1, size=9) == ""


def test_following_a_log_ends_when_its_container_does(tmp_path: Path) -> None:
    async def run() -> bytes:
        log = LogFile(tmp_path / "0.log")
        ended = False

        async def write() -> None:
            nonlocal ended
            for text in (b"a", b"b"):
                log.write("stdout", OutputLine(text))
                await asyncio.sleep(0.15)
            ended = True

        writer = asyncio.create_task(write())
        query = LogQuery(follow=True)
        said = b"".join([piece async for piece in read(log.path, query, lambda: ended)])
        await writer
        log.close()
        return said

    assert asyncio.run(run()) == b"a\nb\n"


async def _ask(port: int, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answer


def test_the_server_answers_whole_and_in_pieces_and_survives_nonsense() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def handler(request: Request) -> Answer:
        if request.path == "/broken":
            raise KeyError("broken")
        return Answer(body=pieces()) if request.path == "/pieces" else Answer.json({"q": request.query["a"]})

    async def run() -> list[bytes]:
        server = await asyncio.start_server(partial(serve, handler), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        end = b" HTTP/1.1\r\nConnection: close\r\n\r\n"
        asked = [b"GET /x?a=b%20c" + end, b"GET /pieces" + end, b"GET /broken" + end, b"nonsense\r\n\r\n"]
        answers = [await _ask(port, text) for text in asked]
        server.close()
        return answers

    whole, pieced, broken, nonsense = asyncio.run(run())
    assert whole.endswith(b'\r\n\r\n{"q": "b c"}')
    assert pieced.endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert broken.startswith(b"HTTP/1.1 500")
    assert nonsense == b""


def test_a_relay_passes_bytes_and_ends_of_both_directions() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async def run() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        listener = socket.create_server(("127.0.0.1", 0))
        passing = await relay(listener, "127.0.0.1", server.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"hello")
        writer.write_eof()
        said = await reader.read()
        writer.close()
        passing.close()
        server.close()
        await asyncio.sleep(0.05)
        return said

    assert asyncio.run(run()) == b"HELLO"


def test_a_relayed_connection_whose_client_is_gone_still_ends() -> None:
    async def run() -> list[str]:
        troubles: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context["message"]))
        ended, may_end = asyncio.Event(), asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            ended.set()
            await may_end.wait()
            writer.write(b"too late")
            writer.close()

        server = await asyncio.start_server(slow, "127.0.0.1", 0)
        listener = socket.create_server(("127.0.0.1", 0))
        passing = await relay(listener, "127.0.0.1", server.sockets[0].getsockname()[1])
        _, writer = await asyncio.open_connection(*listener.getsockname())
        writer.transport.abort()
        await ended.wait()
        del writer
        await asyncio.sleep(0.05)
        gc.collect()
        may_end.set()
        await asyncio.sleep(0.05)
        passing.close()
        server.close()
        return troubles

    assert asyncio.run(run()) == []


class _Sandbox:
    def __init__(self, address: str) -> None:
        self.address = address
        self.entries: Sequence[tuple[str, str]] = []

    def set_hosts(self, entries: Sequence[tuple[str, str]]) -> None:
        self.entries = entries


def test_pods_of_one_service_know_each_other_and_no_others() -> None:
    def pod(hostname: str, subdomain: str | None) -> dict[str, Any]:
        spec = {"hostname": hostname} | ({"subdomain": subdomain} if subdomain else {})
        return {"metadata": {"name": hostname, "namespace": "n"}, "spec": spec}

    hosts = Hosts()
    a, b, other, alone = (_Sandbox(f"10.8.0.{index}") for index in range(2, 6))
    made: list[tuple[str, str | None, Any]] = [("a", "s", a), ("b", "s", b), ("c", "t", other), ("d", None, alone)]
    for name, subdomain, sandbox in made:
        hosts.add(name, pod(name, subdomain), sandbox)
    assert [address for address, _ in a.entries] == ["10.8.0.2", "10.8.0.3"]
    assert "b.s.n.svc.cluster.local b.s " in a.entries[1][1]
    assert [address for address, _ in other.entries] == ["10.8.0.4"]
    assert alone.entries == []
    hosts.remove("b")
    assert [address for address, _ in a.entries] == ["10.8.0.2"]


def test_the_verdict_on_isolation_has_a_reason_and_a_remedy() -> None:
    verdict = isolation()
    assert verdict.mode in (NAMESPACES, NONE)
    assert verdict.reason
    assert bool(verdict.remedy) == (verdict.mode == NONE)


def test_without_namespaces_pods_still_run(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path / "sb")

    async def run() -> tuple[list[str], list[str]]:
        runtime = Plain(layout)
        await runtime.open()
        lines: list[str] = []
        try:
            pod = await runtime.sandbox(PodRequest("u", "j-w-0-0", "n/j-w-0-0.j", tmp_path / "pod"))
            log = tmp_path / "termination"
            log.touch()
            (tmp_path / "v").mkdir()
            (tmp_path / "v" / "f").write_text("file")
            script = "import os, socket, sys; host, port = os.environ['ME'].split(':'); "
            script += "s = socket.create_server((host, int(port))); print(open('/encamp/f').read(), os.environ['ME']); "
            script += "open('/dev/termination-log', 'w').write('bye')"
            request = ContainerRequest(
                name="c",
                argv=[sys.executable, "-S", "-c", script],
                env={"ME": "j-w-0-0.j:2222", "PATH": "/usr/bin:/bin"},
                cwd="/",
                mounts=[{"source": str(tmp_path / "v"), "target": "/encamp", "read_only": True}],
                termination_log=(log, "/dev/termination-log"),
                output=lambda line: lines.append(line.text),
                errors=lambda line: lines.append(line.text),
            )
            outcome = await (await pod.run(request)).wait()
            assert outcome.ok, lines
            with pytest.raises(StartError):
                await pod.run(dataclasses.replace(request, argv=["no-such-program"]))
            await pod.close()
            return lines, [log.read_text(), str(runtime.port("n/j-w-0-0.j")), *pod.notes]
        finally:
            await runtime.close()

    lines, (message, port, *notes) = asyncio.run(run())
    assert lines == [f"file 127.0.0.1:{port}"]
    assert message == "bye"
    assert set(notes) == {"sandbox.encamp.dev/rewritten", "sandbox.encamp.dev/network-policies"}


def test_a_node_is_ours_before_a_pod_can_be_bound_to_it() -> None:
    class Server:
        """Hears of the node and fails or answers; a pod could be bound to it from then on."""

        def __init__(self, *, fails: bool) -> None:
            self.fails = fails
            self.ours: list[bool] = []

        async def create(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
            self.ours.append(nodes.is_ours("n-0"))
            if self.fails:
                raise httpx.ConnectError("nobody listens")
            return {**body, "status": {}}

        async def replace(self, *_: Any) -> dict[str, Any]:
            return {}

        async def patch(self, *_: Any) -> dict[str, Any]:
            return {}

    class Pool:
        system: tuple[Any, ...] = ()
        devices: ClassVar[dict[str, int]] = {}

        def node(self, *_: Any) -> dict[str, Any]:
            return {"metadata": {"name": "n-0"}}

    for fails in (False, True):
        server = Server(fails=fails)
        unused = cast("Any", None)
        nodes = Nodes(cast("Any", server), unused, unused, list, lambda _: [], host="127.0.0.1", port=1, idle_seconds=1)
        with contextlib.suppress(httpx.ConnectError):
            asyncio.run(nodes._make(cast("Any", Pool()), 0))
        assert server.ours[0]
        assert nodes.is_ours("n-0") is not fails


@pytest.mark.parametrize("bound", [False, True])
def test_no_pod_is_bound_to_a_node_while_it_is_taken_down(*, bound: bool) -> None:
    """A pod that was bound before the taint was seen keeps its node; else the taint comes before the end."""
    asked: list[tuple[str, Any]] = []
    stays = {"key": "encamp-job", "value": "j", "effect": "NoSchedule"}

    class Server:
        async def patch(self, path: str, body: dict[str, Any], *_: Any) -> dict[str, Any]:
            asked.append((path, [taint["key"] for taint in body["spec"]["taints"]]))
            return {}

        async def get(self, path: str) -> dict[str, Any]:
            assert path.endswith("fieldSelector=spec.nodeName%3Dn-0")
            ended = {"metadata": {"name": "ended"}, "status": {"phase": "Failed"}}
            runs = {"metadata": {"name": "runs"}, "status": {"phase": "Pending"}}
            return {"items": [ended, *([runs] if bound else [])]}

        async def delete(self, path: str, *_: Any) -> bool:
            asked.append((path.partition("?")[0], None))
            return True

    unused = cast("Any", None)
    nodes = Nodes(cast("Any", Server()), unused, unused, list, lambda _: [], host="127.0.0.1", port=1, idle_seconds=1)
    nodes._nodes["n-0"] = {"metadata": {"name": "n-0"}, "spec": {"taints": [stays]}}
    asyncio.run(nodes._take_down("n-0"))
    node = "/api/v1/nodes/n-0"
    assert asked[0] == (node, ["encamp-job", "ToBeDeletedByClusterAutoscaler"])
    assert nodes.is_ours("n-0") is bound
    assert (asked[1:] == [(node, ["encamp-job"])]) is bound
    assert ((node, None) in asked) is not bound
