"""Signing keys: cache, expiry, discovery, and key servers that are down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER, IdTokens, Issuer
from encamp.api.identity import GoogleIdentity
from encamp.api.signing_keys import keys_of

if TYPE_CHECKING:
    from encamp.api.caller import Caller

from tests.api.identity.issuer import IDP, OURS, World, codes, ec_jwk, rsa_jwk, text_of, token


def test_unknown_keys_are_looked_for_once_and_not_for_every_request() -> None:
    world = World()
    strangers = [token({"kid": f"k{n}"}) for n in range(20)]
    assert set(codes(world.told(token(), *strangers, token(sub="2")))) == {200, 401}
    assert len(world.asked) == 1
    world.asked.clear()

    async def turning() -> list[int]:
        identity, seen = world.identity(), list[int]()
        for step in ("g1", "new", "new"):
            try:
                await identity.caller("Bearer " + token({"kid": step}, by="new" if step == "new" else "good", sub=step))
                seen.append(200)
            except ApiError as error:
                seen.append(error.code)
            # The issuer has a new key; the token that it signed is another one each time, since a refusal is kept.
            world.keys = [rsa_jwk("g1"), rsa_jwk("new", "new")]
            world.offset += 61
        return seen

    assert asyncio.run(turning()) == [200, 200, 200]
    assert len(world.asked) == 2


def test_fifty_at_once_fetch_the_keys_once() -> None:
    world = World()

    async def work() -> list[Caller]:
        identity = world.identity()
        return await asyncio.gather(*(identity.caller(f"Bearer {token(sub=str(n))}") for n in range(50)))

    assert {one.email for one in asyncio.run(work())} == {"ana@example.com"}
    assert len(world.asked) == 1


def test_keys_are_kept_as_long_as_the_issuer_says_and_no_longer() -> None:
    world = World(cache_control="public, max-age=600, must-revalidate")

    async def work() -> list[int]:
        identity, seen = world.identity(), list[int]()
        for number, step in enumerate((0, 590, 20)):
            world.offset += step
            await identity.caller(f"Bearer {token(exp=int(world.now()) + 99, sub=str(number))}")
            seen.append(len(world.asked))
        return seen

    assert asyncio.run(work()) == [1, 1, 2]


@pytest.mark.parametrize("issuer", [GOOGLE_ISSUER, IDP])
def test_a_key_server_that_is_down_lets_nobody_in(issuer: Issuer) -> None:
    world = World(down=True)
    found = world.told(token(iss=issuer.url), token(iss=issuer.url, sub="2"))
    assert codes(found) == [503, 503]
    assert all(isinstance(one, ApiError) and one.status == "UNAVAILABLE" for one in found)
    # It is left alone for a while.
    assert len(world.asked) == 1


def test_known_keys_go_on_while_the_key_server_is_down_until_they_are_old() -> None:
    world = World()

    async def work() -> list[int]:
        identity, seen = world.identity(), list[int]()
        for number, step in enumerate((0, 1000, 3000, 10)):
            world.offset += step
            world.down = number > 0 and number < 3
            try:
                await identity.caller(f"Bearer {token(exp=int(world.now()) + 99, sub=str(number))}")
                seen.append(200)
            except ApiError as error:
                seen.append(error.code)
        return seen

    assert asyncio.run(work()) == [200, 200, 503, 200]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"location": "https://evil.example"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"keys": {}}),
        httpx.Response(200, content=b"[" * 100_000),
    ],
)
def test_answers_that_are_no_keys(answer: httpx.Response) -> None:
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer))
    identity = GoogleIdentity(IdTokens(client, (GOOGLE_ISSUER,), (OURS,)), None)
    with pytest.raises(ApiError) as refused:
        asyncio.run(identity.caller(f"Bearer {token()}"))
    assert refused.value.code == 503


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example", "jwks_uri": "https://keys.example.com/set"},
        {"issuer": IDP.url, "jwks_uri": "http://keys.example.com/set"},
        {"issuer": IDP.url},
        [],
    ],
)
def test_discovery_documents_that_are_not_believed(document: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=document if "well-known" in request.url.path else {"keys": [rsa_jwk("g1")]})

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    identity = GoogleIdentity(IdTokens(client, (IDP,), (OURS,)), None)
    with pytest.raises(ApiError) as refused:
        asyncio.run(identity.caller(f"Bearer {token(iss=IDP.url)}"))
    assert refused.value.code == 503


def test_keys_that_sign_no_tokens_are_passed_over() -> None:
    others: list[Any] = [
        rsa_jwk("enc", use="enc"),
        rsa_jwk("ops", key_ops=["sign"]),
        rsa_jwk("alg", alg="RS512"),
        rsa_jwk("none", n=None),
        rsa_jwk("small") | {"n": text_of((1 << 1023) + 1, 128)},
        rsa_jwk(""),
        rsa_jwk("x") | {"kid": 7},
        {"kty": "oct", "kid": "o", "k": "c2VjcmV0"},
        {"kty": "EC", "kid": "c", "crv": "P-521", "x": "AA", "y": "AA"},
        ec_jwk("p", "P-256") | {"x": "AAAA"},
        ec_jwk("kty", "P-256") | {"kty": "OKP"},
        "text",
        {},
    ]
    assert [kid for kid, _ in keys_of({"keys": [*others, rsa_jwk("g1"), ec_jwk("e", "P-256")]})] == ["g1", "e"]
