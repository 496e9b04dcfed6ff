"""Access tokens: whose they are, which are refused, and a token service without an answer."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from tests.api.identity.issuer import CLOUD, GCLOUD, World, codes, info

from encamp.api.access_tokens import USUAL_CLIENTS
from encamp.api.caller import Caller
from encamp.api.errors import ApiError

ROBOT = {"email": "ci@p.iam.gserviceaccount.com", "aud": "1142", "azp": "1142"}


@pytest.mark.parametrize(
    ("changes", "member"),
    [
        ({}, "user:ana@example.com"),
        ({"aud": USUAL_CLIENTS[1]}, "user:ana@example.com"),
        ({"expires_in": 1800}, "user:ana@example.com"),
        (ROBOT, "serviceAccount:ci@p.iam.gserviceaccount.com"),
    ],
)
def test_whose_an_access_token_is(changes: dict[str, Any], member: str) -> None:
    (found,) = World(tokeninfo=info(**changes)).told("ya29.a.b.c")
    assert found == Caller(member.partition(":")[2], frozenset({member}))


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"aud": "1234.apps.googleusercontent.com"}, 401, "not trusted"),
        ({"aud": None}, 401, "not trusted"),
        ({"aud": [GCLOUD]}, 401, "not trusted"),
        # A person's token is not a service account's own, whatever application it is for.
        ({"aud": "1142", "azp": "1142"}, 401, "not trusted"),
        (ROBOT | {"azp": GCLOUD}, 401, "not trusted"),
        (ROBOT | {"aud": "1234.apps.googleusercontent.com"}, 401, "not trusted"),
        ({"scope": "openid email"}, 403, "insufficient authentication scopes"),
        ({"scope": f"{CLOUD}.read-only"}, 403, "insufficient authentication scopes"),
        ({"scope": None}, 403, "insufficient authentication scopes"),
        ({"scope": [CLOUD]}, 403, "insufficient authentication scopes"),
        ({"email": None}, 401, "userinfo.email"),
        ({"email_verified": "false"}, 401, "userinfo.email"),
        ({"email_verified": None}, 401, "userinfo.email"),
        ({"expires_in": "0"}, 401, "expired"),
        ({"expires_in": "-5"}, 401, "expired"),
        ({"expires_in": "soon"}, 503, "does not answer"),
        ({"expires_in": "nan"}, 503, "does not answer"),
        ({"expires_in": 10**400}, 503, "does not answer"),
        ({"expires_in": True}, 503, "does not answer"),
        ({"expires_in": None}, 503, "does not answer"),
    ],
)
def test_access_tokens_that_let_nobody_in(changes: dict[str, Any], code: int, words: str) -> None:
    (found,) = World(tokeninfo=info(**changes)).told("ya29.token")
    assert isinstance(found, ApiError)
    assert (found.code, words in found.message) == (code, True)


@pytest.mark.parametrize(
    ("answer", "code", "times"),
    [
        (httpx.Response(400, json={"error": "invalid_token"}), 401, 1),
        (httpx.Response(401), 401, 1),
        (httpx.Response(403), 503, 1),
        (httpx.Response(404), 503, 1),
        (httpx.Response(429), 503, 1),
        (httpx.Response(500), 503, 2),
        (httpx.Response(503), 503, 2),
        (httpx.Response(302, headers={"location": "https://evil.example"}), 503, 1),
        (httpx.Response(200, text="ok"), 503, 1),
        (httpx.Response(200, json=["ana@example.com"]), 503, 1),
        (httpx.Response(200, content=b"[" * 100_000), 503, 1),
        (httpx.ConnectError("refused"), 503, 2),
        (httpx.ReadTimeout("slow"), 503, 2),
        (httpx.RemoteProtocolError("closed"), 503, 2),
    ],
    ids=repr,
)
def test_a_token_service_that_gives_no_answer_lets_nobody_in(
    answer: httpx.Response | Exception, code: int, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    def tokeninfo(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    world = World(tokeninfo=tokeninfo)
    with caplog.at_level(logging.DEBUG):
        (found,) = world.told("ya29.verysecret")
    assert isinstance(found, ApiError)
    assert (found.code, len(world.asked)) == (code, times)
    assert "verysecret" not in found.message + caplog.text


def test_a_silent_token_service_is_left_alone_for_a_moment() -> None:
    def silent(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("silent")

    world = World(tokeninfo=silent)

    async def work() -> list[tuple[int, int]]:
        identity, seen = world.identity(), list[tuple[int, int]]()
        for number, step in enumerate((0, 1, 2, 3)):
            world.offset += step
            if number == 2:
                world.tokeninfo = info()
            try:
                await identity.caller(f"Bearer ya29.{number}")
                seen.append((200, len(world.asked)))
            except ApiError as error:
                seen.append((error.code, len(world.asked)))
        return seen

    assert asyncio.run(work()) == [(503, 2), (503, 2), (200, 3), (200, 4)]


def test_a_token_is_sent_in_a_header_and_nowhere_else() -> None:
    seen: list[httpx.Request] = []

    def tokeninfo(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return info()(request)

    World(tokeninfo=tokeninfo).told("ya29.verysecret")
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "https://oauth2.googleapis.com/tokeninfo")
    assert request.headers["authorization"] == "Bearer ya29.verysecret"
    assert request.content == b""


def test_applications_are_trusted_as_they_are_named() -> None:
    ours = "77.apps.googleusercontent.com"
    assert codes(World(tokeninfo=info(aud=ours)).told("ya29.t", clients=(ours,))) == [200]
    assert codes(World(tokeninfo=info()).told("ya29.t", clients=(ours,))) == [401]
    assert codes(World(tokeninfo=info(**ROBOT)).told("ya29.t", clients=())) == [200]
    assert codes(World(tokeninfo=info()).told("ya29.t", access=None)) == [401]
