"""What the jobs API costs a request, against the bare framework: get, list and create, each beside its floor.

The floor is a starlette app with one route that answers the very same bytes, served with the same settings of uvicorn,
as a process of its own like the service. create has a second one, which also commits a row to SQLite. Each process is
asked in turns, by connections that are kept and send their next request when they have their answer; what asks is a
process of its own as well, of asyncio and nothing else, and says how busy it was: where that is near 100 %, it and not
the server is measured. The record has 10,000 jobs.

    python benchmarks/api.py [SECONDS OF A TURN] [CONNECTIONS]
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from encamp.api.caller import Caller

TESTS = Path(__file__).resolve().parents[1] / "tests"
ROUNDS = 3
JOBS = 10_000
PROJECT = "sandbox-encamp"
CASES = ("get", "list", "create")


@dataclass(frozen=True)
class Turn:
    """What the requests of a turn took.

    Attributes:
        each: seconds of each.
        whole: seconds of all.
        busy: how much of that the process that asks was at work, 0 to 1.
        server: seconds of processors that the server took.
    """

    each: list[float]
    whole: float
    busy: float
    server: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.each) / self.whole

    def part(self, share: float) -> float:
        """Milliseconds that such a share of the requests took at most."""
        return 1000 * sorted(self.each)[int(share * (len(self.each) - 1))]


class Connection(asyncio.Protocol):
    """Sends a request, waits for all of its answer, sends the next one, until the time is over."""

    def __init__(self, requests: Iterator[bytes], until: float, taken: list[float]) -> None:
        self._requests = requests
        self._until = until
        self._taken = taken
        self._begun = 0.0
        self._got = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first one."""
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Take an answer; its length is what its head says."""
        self._got += data
        head, found, rest = self._got.partition(b"\r\n\r\n")
        if not found or len(rest) < _length(head):
            return
        now = time.perf_counter()
        self._taken.append(now - self._begun)
        if not head.startswith(b"HTTP/1.1 200"):
            self._end(RuntimeError(self._got.decode()))
        elif now >= self._until:
            self._end(None)
        else:
            self._got = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody may hang up first."""
        self._end(exc or RuntimeError("the server hung up"))

    def _send(self) -> None:
        self._begun = time.perf_counter()
        self._transport.write(next(self._requests))

    def _end(self, error: Exception | None) -> None:
        if not self.done.done():
            self._transport.close()
            self.done.set_exception(error) if error else self.done.set_result(None)


def _length(head: bytes) -> int:
    lower = head.lower()
    at = lower.index(b"content-length:") + len(b"content-length:")
    end = lower.find(b"\r\n", at)
    return int(lower[at : end if end >= 0 else None])


async def ask(port: int, requests: Iterator[bytes], seconds: float, connections: int) -> list[float]:
    """Seconds of each request."""
    taken: list[float] = []
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    made = [
        (await loop.create_connection(lambda: Connection(requests, until, taken), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(one.done for one in made))
    return taken


def requests_of(case: str, unique: str) -> Iterator[bytes]:
    """Requests of a case, of create each with an id of its own."""
    jobs = f"/v1/projects/{PROJECT}/jobs"
    if case == "get":
        known = itertools.cycle(range(0, JOBS, 7))
        yield from (_request("GET", f"{jobs}/job_{number}") for number in known)
    elif case == "list":
        yield from itertools.repeat(_request("GET", f"{jobs}?pageSize=100"))
    else:
        jobs = f"/commit{jobs}" if case == "commit" else jobs
        for number in itertools.count():
            yield _request("POST", jobs, job(f"made_{unique}_{number}"))


def _request(verb: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    sent = json.dumps(body).encode() if body is not None else b""
    head = (
        f"{verb} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer benchmark\r\naccept: application/json\r\n"
    )
    if sent:
        head += f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n"
    return f"{head}\r\n".encode() + sent


def job(job_id: str) -> dict[str, Any]:
    """A job as gcloud sends one."""
    return {
        "jobId": job_id,
        "labels": {"team": "vision"},
        "trainingInput": {
            "args": ["--epochs", "3"],
            "jobDir": "gs://my-bucket/out",
            "packageUris": ["gs://my-bucket/trainer-0.1.tar.gz"],
            "pythonModule": "trainer.task",
            "pythonVersion": "3.7",
            "region": "us-central1",
            "runtimeVersion": "2.11",
            "scaleTier": "BASIC",
        },
    }


def answer_of(port: int, request: bytes) -> bytes:
    """The body that a server answers."""
    verb, path, _ = request.split(b"\r\n", 1)[0].decode().split()
    body = request.partition(b"\r\n\r\n")[2]
    headers = {"Authorization": "Bearer benchmark", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body or None, headers, method=verb)
    with urllib.request.urlopen(asked, timeout=60) as found:  # noqa: S310 - as above
        content: bytes = found.read()
        return content


def floor_app(folder: Path) -> ASGIApp:
    """The bare framework: it answers the bytes of the files in a folder; below ``/commit`` it commits a row before."""
    from starlette.applications import Starlette  # noqa: PLC0415 - who asks needs none of it
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
    from starlette.responses import Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    content = {case: (folder / case).read_bytes() for case in CASES}
    database = sqlite3.connect(folder / "floor.db", check_same_thread=False, isolation_level=None)
    for line in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE rows (body BLOB)"):
        database.execute(line)

    async def get(_: Request) -> Response:
        return Response(content["get"], media_type="application/json")

    async def jobs(request: Request) -> Response:
        if request.method == "GET":
            return Response(content["list"], media_type="application/json")
        await request.body()
        return Response(content["create"], media_type="application/json")

    async def commit(request: Request) -> Response:
        await run_in_threadpool(database.execute, "INSERT INTO rows VALUES (?)", (await request.body(),))
        return Response(content["create"], media_type="application/json")

    path = "/v1/projects/{project}/jobs"
    routes = [Route(f"{path}/{{job}}", get), Route(path, jobs, methods=["GET", "POST"])]
    return Starlette(routes=[*routes, Route(f"/commit{path}", commit, methods=["POST"])])


def service_app(folder: Path) -> ASGIApp:
    """The service over a record of its own, with an audit log; whose a token is, is known after the first time."""
    found = module("encamp_test_world", "api/world.py")
    from encamp.api.identity import bearer_of  # noqa: PLC0415 - who asks needs none of it
    from encamp.api.known_tokens import KnownTokens  # noqa: PLC0415
    from encamp.api.queue_limits import QueueLimits  # noqa: PLC0415

    administrator = found.CALLERS[found.ADMIN]

    async def told(_: str) -> tuple[Caller, float]:
        return administrator, time.time() + 3600

    class Known:
        def __init__(self) -> None:
            self.tokens = KnownTokens(told)

        async def caller(self, authorization: str | None, address: str = "") -> Caller:
            return await self.tokens.caller(bearer_of(authorization), address)

    # All that is created waits, and all callers are one: what bounds these is none of what is measured here.
    queue = QueueLimits(all=sys.maxsize, caller=sys.maxsize)
    made = found.World(folder, authenticator=Known(), queue=queue)
    made.records.transactions.write(write_jobs)
    app: ASGIApp = made.app
    return app


def write_jobs(connection: Any) -> None:
    """Jobs that have succeeded, each with the entries of a whole life."""
    from sqlalchemy import insert  # noqa: PLC0415 - who asks needs none of it

    from encamp.run.store.journal import SUBMITTED, digest  # noqa: PLC0415
    from encamp.run.store.tables import JOBS as ROWS  # noqa: PLC0415
    from encamp.run.store.tables import JOURNAL  # noqa: PLC0415

    rows, lines = [], []
    for number in range(JOBS):
        name = f"job_{number}"
        begun = time.time() - JOBS + number
        rows.append({"job_id": name, "name": f"job-{number}", "created": begun})
        sent = {
            "name": f"job-{number}",
            "environment": "sandbox",
            "job": job(name),
            "by": "ana@example.com",
            "priority": 0,
        }
        states = [("state", {"state": state}) for state in ("QUEUED", "PREPARING", "RUNNING")]
        ended = [("outcome", {"state": "SUCCEEDED", "message": ""}), ("state", {"state": "SUCCEEDED"}), ("gone", {})]
        for at, (kind, data) in enumerate([(SUBMITTED, sent), *states, *ended]):
            text = json.dumps(data, sort_keys=True)
            line = {"job_id": name, "at": begun + at, "kind": kind, "data": text, "digest": digest(kind, text)}
            lines.append(line)
    connection.execute(insert(ROWS), rows)
    connection.execute(insert(JOURNAL), lines)


def module(name: str, path: str) -> Any:
    """A module of the tests by its file."""
    spec = importlib.util.spec_from_file_location(name, TESTS / path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"no {path}")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def serve(what: str, folder: Path) -> None:
    """Serve until the process is ended, with the settings of the service; the floor without what is before it."""
    from encamp.api.connections import Limits  # noqa: PLC0415 - who asks needs none of it
    from encamp.api.gate import Gate  # noqa: PLC0415
    from encamp.api.listening import listen  # noqa: PLC0415
    from encamp.api.server import Server  # noqa: PLC0415

    app = floor_app(folder) if what == "floor" else service_app(folder)
    listening = listen("127.0.0.1", 0, credentials=False)
    limits = Limits()
    gate = Gate(app, ready=lambda: None, open_to_this_machine=True)
    port = listening.sockets[0].getsockname()[1]
    server = Server(gate, limits, lambda: print(port, flush=True))
    if what == "floor":
        server.config.app = app
    asyncio.run(server.serve(sockets=list(listening.sockets)))


@contextlib.contextmanager
def serving(what: str, folder: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A process that serves; its port."""
    arguments = [sys.executable, __file__, "serve", what, str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int((process.stdout.readline() if process.stdout else "") or 0), psutil.Process(process.pid)
        finally:
            process.kill()


def turn(port: int, process: psutil.Process, case: str, seconds: float, connections: int) -> Turn:
    """Ask for some time."""
    before = process.cpu_times()
    arguments = ["ask", str(port), case, str(seconds), str(connections)]
    ended = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return Turn(**json.loads(ended.stdout), server=used)


def asked(port: int, case: str, seconds: float, connections: int) -> dict[str, Any]:
    """Ask a server from this process."""
    unique = f"{time.time_ns()}"
    begun, busy = time.perf_counter(), time.process_time()
    each = asyncio.run(ask(port, requests_of(case, unique), seconds, connections))
    whole = time.perf_counter() - begun
    return {"each": each, "whole": whole, "busy": (time.process_time() - busy) / whole}


def main(seconds: float, connections: int) -> None:
    """Take turns, so that whatever else the machine does hits each alike."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        ours = stack.enter_context(serving("service", folder))
        for case in CASES:
            (folder / case).write_bytes(answer_of(ours[0], next(requests_of(case, "first"))))
        floor = stack.enter_context(serving("floor", folder))
        print(f"{JOBS} jobs on record, {connections} connections, {ROUNDS} turns of {seconds:g} s each")
        print(f"{'':22} {'a second':>9} {'p50 ms':>7} {'p99 ms':>7} {'CPU ms':>7}  asking busy")
        for case in CASES:
            sides = {"service": (*ours, case), "floor": (*floor, case)}
            if case == "create":
                sides["floor, one commit"] = (*floor, "commit")
            turns: dict[str, list[Turn]] = {side: [] for side in sides}
            for _ in range(ROUNDS):
                for side, given in sides.items():
                    turns[side].append(turn(*given, seconds, connections))
            show(case, turns)


def show(case: str, turns: dict[str, list[Turn]]) -> None:
    """A line a side, with the medians of its turns, and how many times worse the service is."""

    def middle(side: str, what: Any) -> float:
        return statistics.median(what(one) for one in turns[side])

    figures = (Turn.rate.fget, lambda one: one.part(0.5), lambda one: one.part(0.99), _processor)
    for side in turns:
        rate, half, most, used = (middle(side, what) for what in figures)
        print(
            f"{case + ', ' + side:22} {rate:9.0f} {half:7.2f} {most:7.2f} {used:7.3f}  "
            f"{middle(side, lambda one: one.busy):4.0%}"
        )
    for side in list(turns)[1:]:
        slower = middle(side, figures[0]) / middle("service", figures[0])
        longer = middle("service", figures[2]) / middle(side, figures[2])
        print(f"  against the {side}: {slower:.2f} x fewer a second, p99 {longer:.2f} x")


def _processor(one: Turn) -> float:
    return 1000 * one.server / len(one.each)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", what, folder]:
            serve(what, Path(folder))
        case ["ask", port, case, seconds, connections]:
            print(json.dumps(asked(int(port), case, float(seconds), int(connections))))
        case [*given]:
            main(float(given[0]) if given else 2.0, int(given[1]) if len(given) > 1 else 16)
