"""How the provider waits for operations of the APIs, and when it gives up."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.gcp_provider.client import Patience, Rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

RUNNING: dict[str, Any] = {"name": "operations/one", "done": False}
REFUSED = {"error": {"code": 403, "message": "Quota exceeded for requests per minute", "status": "PERMISSION_DENIED"}}


def rest(*answers: tuple[int, dict[str, Any]]) -> tuple[Rest, Callable[[], int]]:
    """A client of a server with these answers, the last one again and again; and how often it was asked."""
    asked = iter(range(1000))

    async def answer(_request: Request) -> JSONResponse:
        code, body = answers[min(next(asked), len(answers) - 1)]
        return JSONResponse(body, code)

    return Rest.inside(Starlette(routes=[Route("/{path:path}", answer)]), "token"), lambda: next(asked)


def wait(client: Rest, operation: dict[str, Any], seconds: float = 30) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        try:
            return await client.finished(operation, "/operations/one", Patience.within(asyncio.Event(), seconds))
        finally:
            await client.close()

    return asyncio.run(work())


@pytest.mark.parametrize("done", [{"done": True, "response": {}}, {"status": "DONE"}])
def test_an_operation_is_asked_for_until_it_is_done(done: dict[str, Any]) -> None:
    client, asked = rest((200, RUNNING), (200, RUNNING), (200, done))
    assert wait(client, RUNNING) == done
    assert asked() == 3


def test_an_operation_that_is_done_is_not_asked_for() -> None:
    client, asked = rest((500, {}))
    assert wait(client, {"status": "DONE"}) == {"status": "DONE"}
    assert asked() == 0


def test_an_operation_that_fails_says_why() -> None:
    failed = {"done": True, "error": {"code": 9, "message": "The key is destroyed."}}
    client, _ = rest((200, failed))
    with pytest.raises(GoogleError, match=r"The key is destroyed\."):
        wait(client, RUNNING)


def test_a_refused_poll_is_retried() -> None:
    client, _ = rest((503, {}), (403, REFUSED), (200, {"done": True}))
    assert wait(client, RUNNING) == {"done": True}


def test_waiting_ends_with_the_time_that_the_engine_gives() -> None:
    client, _ = rest((200, RUNNING))
    began = time.monotonic()
    with pytest.raises(GoogleError, match="timed out"):
        wait(client, RUNNING, seconds=0.5)
    assert time.monotonic() - began < 5
