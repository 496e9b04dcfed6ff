"""How the serving process ends: told once it answers what it has taken, told twice it goes, and it never stays."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from encamp.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
#: Serves an app whose ``/held`` answers after a second line of stdin, and whose ``/stuck`` never does.
PROGRAM = """
import asyncio, sys, threading, time
from encamp.api.connections import Limits
from encamp.api.listening import listen
from encamp.api.server import Service, serve

may = threading.Event()

async def app(scope, receive, send):
    print("begun", flush=True)
    if scope["path"] == "/held":
        await asyncio.to_thread(may.wait)
    if scope["path"] == "/stuck":
        await asyncio.to_thread(time.sleep, 3600)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})

def reading():
    sys.stdin.readline()
    may.set()

threading.Thread(target=reading, daemon=True).start()
listening = listen("127.0.0.1", 0, credentials=False)
port = listening.sockets[0].getsockname()[1]
serve(
    Service(app, lambda: None, credentials=False),
    listening,
    limits=Limits(grace_seconds=GRACE),
    started=lambda: print(port, flush=True),
    say=lambda line: print(line, flush=True),
)
print("closed", flush=True)
"""


class Process:
    """The program, and connections to it."""

    def __init__(self, grace: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("GRACE", str(grace))],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "infra")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, path: str) -> socket.socket:
        """A connection whose request the app has begun with."""
        asking = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        asking.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert self.line() == "begun"
        return asking

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)


@contextlib.contextmanager
def started(grace: int = 30) -> Iterator[Process]:
    found = Process(grace)
    with found.process:
        try:
            yield found
        finally:
            found.process.kill()


def whole(asking: socket.socket) -> bytes:
    with contextlib.closing(asking):
        parts = []
        while part := asking.recv(4096):
            parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_once_it_answers_what_is_in_flight_and_ends_well(number: signal.Signals) -> None:
    with started() as found:
        held = found.ask("/held")
        found.tell(number)
        assert number.name in found.line()
        assert found.process.stdin is not None
        found.process.stdin.write("go\n")
        found.process.stdin.flush()
        answer = whole(held)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer.lower()
        assert found.line() == "closed"
        assert found.process.wait(60) == ExitCode.OK


def test_told_twice_it_ends_at_once() -> None:
    with started() as found, contextlib.closing(found.ask("/stuck")):
        found.tell()
        assert "SIGTERM" in found.line()
        found.tell(signal.SIGINT)
        assert found.process.wait(60) == ExitCode.CANCELLED
        assert found.line() == ""


def test_a_call_that_never_ends_is_told_of_the_end_and_left() -> None:
    with started(grace=0) as found:
        stuck = found.ask("/stuck")
        found.tell()
        answer = whole(stuck)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"UNAVAILABLE" in answer
        assert found.process.wait(60) == ExitCode.INFRASTRUCTURE_FAILED
