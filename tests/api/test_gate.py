"""What stands before the service: probes, and whose requests are taken without credentials."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from encamp.api.gate import Gate

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send


class App:
    """Answers 200 when it may."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun = asyncio.Semaphore(0)
        self.may = asyncio.Event()
        self.may.set()

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        self.asked += 1
        self.begun.release()
        await self.may.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


class Answer:
    """What was sent."""

    def __init__(self, sent: list[Message]) -> None:
        self.status = sent[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        self.body = b"".join(part.get("body", b"") for part in sent[1:])


async def ask(gate: Gate, path: str = "/v1/x", *, method: str = "GET", **headers: str) -> Answer:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:8484"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    await gate(scope, receive, send)
    return Answer(sent)


def gate_of(app: App, *, ready: Any = lambda: None, is_open: bool = True) -> Gate:
    return Gate(app, ready=ready, open_to_this_machine=is_open)


FOREIGN: tuple[dict[str, str], ...] = (
    {"host": "attacker.example"},
    {"host": "attacker.example:8484"},
    {"host": "127.0.0.1.attacker.example"},
    {"host": "localhost.attacker.example:8484"},
    {"host": "127.0.0.1:8484@attacker.example"},
    {"host": "attacker.example#127.0.0.1"},
    {"host": "127.0.0.1:http"},
    {"host": "0.0.0.0:8484"},
    {"host": ""},
    {"origin": "https://attacker.example"},
    {"origin": "null"},
    {"origin": "http://localhost:8888"},
    {"origin": "https://127.0.0.1:8484"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=[str(one) for one in FOREIGN])
def test_pages_and_strange_names_are_refused_without_credentials(headers: dict[str, str]) -> None:
    async def look() -> None:
        app = App()
        answer = await ask(gate_of(app), method="POST", **headers)
        assert (answer.status, json.loads(answer.body)["error"]["status"]) == (403, "PERMISSION_DENIED")
        assert app.asked == 0
        # Whoever is asked for credentials shows them; a page has none.
        assert (await ask(gate_of(app, is_open=False), method="POST", **headers)).status == 200

    asyncio.run(look())


OWN: tuple[dict[str, str], ...] = (
    {},
    {"host": "localhost"},
    {"host": "LOCALHOST:1"},
    {"host": "[::1]:8484"},
    {"host": "127.9.9.9"},
    {"origin": "http://127.0.0.1:8484", "sec_fetch_site": "same-origin"},
    {"sec_fetch_site": "none"},
)


@pytest.mark.parametrize("headers", OWN, ids=[str(one) for one in OWN])
def test_programs_and_our_own_page_are_answered(headers: dict[str, str]) -> None:
    assert asyncio.run(ask(gate_of(App()), **headers)).status == 200


def test_probes_ask_the_record_once_a_second_at_most() -> None:
    async def look() -> None:
        asked: list[int] = []
        gate = gate_of(App(), ready=lambda: asked.append(1), is_open=True)
        # A kubelet calls a pod by its address.
        answers = await asyncio.gather(*(ask(gate, "/readyz", host="10.20.0.7:8484") for _ in range(20)))
        assert {one.status for one in answers} == {200}
        assert len(asked) == 1

    asyncio.run(look())


def test_a_record_that_hangs_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.api.gate._ASKED_SECONDS", 0.05)
    monkeypatch.setattr("encamp.api.gate._KNOWN_SECONDS", 0.0)
    answers = threading.Event()

    async def look() -> None:
        asked: list[int] = []

        def hanging() -> None:
            asked.append(1)
            answers.wait(60)

        gate = gate_of(App(), ready=hanging)
        assert [(await ask(gate, "/readyz")).status for _ in range(3)] == [503] * 3
        assert len(asked) == 1
        answers.set()
        monkeypatch.setattr("encamp.api.gate._ASKED_SECONDS", 60)
        assert (await ask(gate, "/readyz")).status == 200

    asyncio.run(look())


def test_who_is_not_ready_or_ends_lives_but_gets_no_requests() -> None:
    def broken() -> None:
        raise OSError("no database")

    async def look() -> None:
        gate = gate_of(App(), ready=broken)
        assert [(await ask(gate, path)).status for path in ("/healthz", "/readyz")] == [200, 503]
        ending = gate_of(App())
        ending.ending = True
        assert [(await ask(ending, path)).status for path in ("/healthz", "/readyz", "/v1/x")] == [200, 503, 200]
        assert b"database" not in (await ask(gate, "/readyz")).body

    asyncio.run(look())


def test_what_the_end_cuts_off_is_told_so() -> None:
    async def look() -> Answer:
        app = App()
        app.may.clear()
        gate = gate_of(app)
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
        task = asyncio.create_task(gate(scope, receive, send))
        await app.begun.acquire()
        task.cancel()
        await task
        return Answer(sent)

    assert asyncio.run(look()).status == 503
