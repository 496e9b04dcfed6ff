"""Callers by their tokens, against an issuer, a key server and a token service in this process."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from encamp.api.access_tokens import USUAL_CLIENTS, AccessTokens
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER, IdTokens, Issuer
from encamp.api.identity import GoogleIdentity, IdentityOptions, NoIdentity, identity_for
from encamp.api.known_tokens import KnownTokens
from encamp.api.signing_keys import keys_of
from encamp.errors import UsageError
from encamp.spec.environment.model import EnvironmentSpec

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "https://jobs.example.com"
IDP = Issuer("https://idp.example.com", domains=("example.com",))
PEOPLE = Issuer("https://login.acme.example", pool="acme-people", subject="oid")
POOL = "principal://iam.googleapis.com/locations/global/workforcePools/acme-people/subject"
GCLOUD = USUAL_CLIENTS[0]
CLOUD = "https://www.googleapis.com/auth/cloud-platform"


@cache
def rsa_key(name: str) -> rsa.RSAPrivateKey:
    del name
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key(curve: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1() if curve == "P-256" else ec.SECP384R1())


def text_of(number: int, size: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(size)).decode().rstrip("=")


def rsa_jwk(kid: str, name: str = "good", **more: Any) -> dict[str, Any]:
    numbers = rsa_key(name).public_key().public_numbers()
    return {"kty": "RSA", "kid": kid, "n": text_of(numbers.n, 256), "e": "AQAB", "use": "sig", "alg": "RS256", **more}


def ec_jwk(kid: str, curve: str) -> dict[str, Any]:
    numbers, size = ec_key(curve).public_key().public_numbers(), 32 if curve == "P-256" else 48
    return {"kty": "EC", "kid": kid, "crv": curve, "x": text_of(numbers.x, size), "y": text_of(numbers.y, size)}


def encoded(data: Any) -> bytes:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def signature(algorithm: str, data: bytes, name: str) -> bytes:
    if algorithm == "RS256":
        return rsa_key(name).sign(data, padding.PKCS1v15(), SHA256())
    if algorithm == "HS256":
        # The public key, taken for a shared secret.
        public = rsa_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return hmac.digest(public, data, hashlib.sha256)
    if algorithm in ("ES256", "ES384"):
        curve, size, digest = ("P-256", 32, SHA256()) if algorithm == "ES256" else ("P-384", 48, SHA384())
        first, second = decode_dss_signature(ec_key(curve).sign(data, ec.ECDSA(digest)))
        return first.to_bytes(size) + second.to_bytes(size)
    return b""


@dataclass(frozen=True)
class In:
    """So many seconds from when a token is made: tests may come long after they were collected."""

    seconds: int


def token(header: dict[str, Any] | None = None, *, by: str = "good", signed: str | None = None, **claims: Any) -> str:
    """A token of Google's for us, but for what is said otherwise; a claim of None is left out."""
    head = {"alg": "RS256", "kid": "g1", "typ": "JWT"} | (header or {})
    now = time.time()
    body = {
        "iss": "https://accounts.google.com",
        "aud": OURS,
        "sub": "1",
        "email": "ana@example.com",
        "email_verified": True,
        "iat": int(now - 10),
        "exp": int(now + 3600),
    } | claims
    data = encoded({k: v for k, v in head.items() if v is not None})
    claimed = {key: value for key, value in body.items() if value is not None}
    data += b"." + encoded(
        {key: int(now) + value.seconds if isinstance(value, In) else value for key, value in claimed.items()}
    )
    return (data + b"." + encoded(signature(signed or str(head["alg"]), data, by))).decode()


@dataclass
class World:
    """Every server that is asked, and what it was asked."""

    keys: list[dict[str, Any]] = field(default_factory=lambda: [rsa_jwk("g1")])
    down: bool = False
    cache_control: str = "public, max-age=3600"
    tokeninfo: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(500)
    asked: list[str] = field(default_factory=list)
    offset: float = 0.0

    def now(self) -> float:
        return time.time() + self.offset

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        await asyncio.sleep(0)
        if self.down:
            raise httpx.ConnectError("no route")
        match request.url.host, request.url.path:
            case ("www.googleapis.com", "/oauth2/v3/certs") | ("keys.example.com", "/set"):
                return httpx.Response(200, json={"keys": self.keys}, headers={"cache-control": self.cache_control})
            case ("idp.example.com" | "login.acme.example" as host, "/.well-known/openid-configuration"):
                document = {"issuer": f"https://{host}", "jwks_uri": "https://keys.example.com/set"}
                return httpx.Response(200, json=document)
            case "oauth2.googleapis.com", "/tokeninfo":
                return self.tokeninfo(request)
        return httpx.Response(404)

    def identity(self, **more: Any) -> GoogleIdentity:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        audiences = more.pop("audiences", (OURS, "https://other.example.com"))
        clients = more.pop("clients", USUAL_CLIENTS)
        ids = IdTokens(client, (GOOGLE_ISSUER, IDP, PEOPLE), audiences, self.now)
        access = AccessTokens(client, "https://oauth2.googleapis.com", clients, self.now)
        return GoogleIdentity(ids, more.pop("access", access), client=client, now=self.now, **more)

    def told(self, *tokens: str, **more: Any) -> list[Caller | ApiError]:
        """What an identity says of tokens, one after the other."""

        async def work() -> list[Caller | ApiError]:
            identity, found = self.identity(**more), list[Caller | ApiError]()
            for one in tokens:
                try:
                    found.append(await identity.caller(f"Bearer {one}"))
                except ApiError as error:
                    found.append(error)
            await identity.close()
            return found

        return asyncio.run(work())


def codes(found: list[Caller | ApiError]) -> list[int]:
    return [200 if isinstance(one, Caller) else one.code for one in found]


@pytest.mark.parametrize(
    ("given", "member"),
    [
        ({}, "user:ana@example.com"),
        ({"iss": "accounts.google.com"}, "user:ana@example.com"),
        ({"email": "ci@p.iam.gserviceaccount.com"}, "serviceAccount:ci@p.iam.gserviceaccount.com"),
        ({"aud": [OURS]}, "user:ana@example.com"),
        ({"aud": [OURS, "https://other.example.com"]}, "user:ana@example.com"),
        ({"iss": IDP.url}, "user:ana@example.com"),
        ({"email": "Ana@Example.COM"}, "user:ana@example.com"),
        ({"iss": PEOPLE.url, "oid": "Eve-7", "email": None}, f"{POOL}/Eve-7"),
        ({"nbf": In(-5)}, "user:ana@example.com"),
        # Clocks differ by half a minute.
        ({"exp": In(-5)}, "user:ana@example.com"),
        ({"iat": In(15)}, "user:ana@example.com"),
    ],
    ids=str,
)
def test_whose_an_id_token_is(given: dict[str, Any], member: str) -> None:
    (found,) = World().told(token(**given))
    name = member if member.startswith("principal:") else member.partition(":")[2]
    assert found == Caller(name, frozenset({member}))


@pytest.mark.parametrize(("algorithm", "curve"), [("ES256", "P-256"), ("ES384", "P-384")])
def test_other_algorithms_with_keys_of_their_own(algorithm: str, curve: str) -> None:
    world = World(keys=[ec_jwk("e", curve)])
    assert codes(world.told(token({"alg": algorithm, "kid": "e"}))) == [200]


def broken(how: str) -> str:
    """A token whose parts are not what they were."""
    head, body, end = token().split(".")
    now = time.time()
    times = {"iat": now - 120, "exp": now + 120}
    other = encoded({"iss": GOOGLE_ISSUER.url, "aud": OURS, **times, "email": "eve@example.com"})
    return {
        "unsigned": f"{head}.{body}.",
        "cut": f"{head}.{body}.{end[:-4]}",
        "other body": f"{head}.{other.decode()}.{end}",
        "two parts": f"{head}.{body}",
        "four parts": f"{head}.{body}.{end}.x",
        "a list": f"{head}.{encoded([1]).decode()}.{end}",
        "deep": f"{head}.{encoded(b'[' * 9000).decode()}.{end}",
        "no base64": f"{head}.!!!!.{end}",
    }[how]


def like(header: dict[str, Any] | None = None, **changes: Any) -> Callable[[], str]:
    """Such a token, once it is needed."""
    return partial(token, header, **changes)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        # Algorithm confusion.
        (like({"alg": "none"}), "not signed by"),
        (like({"alg": "None"}), "not signed by"),
        (like({"alg": "HS256"}), "not signed by"),
        (like({"alg": None}, signed="RS256"), "not signed by"),
        (like({"alg": ["RS256"]}, signed="RS256"), "not signed by"),
        (like({"alg": "ES256"}), "no such key"),
        (like({"alg": "RS256", "kid": "e1"}), "no such key"),
        (like({"alg": "PS256"}, signed="RS256"), "not signed by"),
        # Keys.
        (like(by="somebody's"), "signature"),
        (like({"kid": "g2"}), "no such key"),
        (like({"kid": None}), "which key"),
        (like({"kid": 1}), "which key"),
        (like({"kid": ""}), "which key"),
        (like({"jwk": {"kty": "RSA"}, "jku": "https://evil.example"}, by="somebody's"), "signature"),
        (partial(broken, "unsigned"), "signature"),
        (partial(broken, "cut"), "signature"),
        (partial(broken, "other body"), "signature"),
        # What else a header may ask for.
        (like({"crit": ["exp"]}), "no ID token"),
        (like({"b64": False}), "no ID token"),
        (like({"typ": "at+jwt"}), "no ID token"),
        (like({"typ": 7}), "no ID token"),
        # Issuers.
        (like(iss="https://accounts.google.com.evil.example"), "issuer"),
        (like(iss="https://accounts.google.com/"), "issuer"),
        (like(iss=None), "issuer"),
        (like(iss=["https://accounts.google.com"]), "issuer"),
        # Audiences.
        (like(aud="https://evil.example.com"), "another audience"),
        (like(aud=[OURS, "https://evil.example.com"]), "another audience"),
        (like(aud=[]), "another audience"),
        (like(aud=None), "another audience"),
        (like(aud={OURS: 1}), "another audience"),
        (like(aud=GCLOUD), "another audience"),
        # Times.
        (like(exp=In(-120)), "expired"),
        (like(exp=None), "no numbers"),
        (like(iat=None), "no numbers"),
        (like(exp="4102444800"), "no numbers"),
        (like(exp=True), "no numbers"),
        (like(exp=float("nan")), "no numbers"),
        (like(exp=float("inf")), "no numbers"),
        (like(exp=10**400), "no numbers"),
        (like(iat=In(120)), "not valid yet"),
        (like(nbf=In(120)), "not valid yet"),
        (like(nbf="soon"), "no numbers"),
        # Whose it is.
        (like(email=None), "verified e-mail"),
        (like(email_verified=False), "verified e-mail"),
        (like(email_verified=None), "verified e-mail"),
        (like(email_verified=1), "verified e-mail"),
        (like(email_verified="yes"), "verified e-mail"),
        (like(email=["ana@example.com"]), "verified e-mail"),
        (like(email="ana"), "verified e-mail"),
        (like(email="ana@example.com\nuser:bob@example.com"), "verified e-mail"),
        (like(email="group:x@example.com"), "verified e-mail"),
        (like(iss=IDP.url, email="ci@p.iam.gserviceaccount.com"), "Google alone"),
        (like(iss=IDP.url, email="ci@P.IAM.gserviceaccount.COM"), "Google alone"),
        (like(iss=IDP.url, email="ana@other.example"), "does not speak for"),
        (like(iss=IDP.url, email="ana@mail.example.com"), "does not speak for"),
        (like(iss=IDP.url, email="ana@gmail.com"), "does not speak for"),
        # Letters that Unicode's rules of case would make ASCII ones.
        (like(email="\u212aai@example.com"), "verified e-mail"),
        (like(iss=IDP.url, email="an\u0131@example.com"), "verified e-mail"),
        (like(iss=IDP.url, email="ana@stra\u00dfe.example"), "verified e-mail"),
        (like(iss=PEOPLE.url), "has no oid"),
        (like(iss=PEOPLE.url, oid="a b"), "has no oid"),
        (like(iss=PEOPLE.url, oid=7), "has no oid"),
        # No tokens at all.
        (partial(broken, "two parts"), "none of Google's"),
        (partial(broken, "four parts"), "no JSON Web Token"),
        (partial(broken, "a list"), "no JSON Web Token"),
        (partial(broken, "deep"), "no JSON Web Token"),
        (partial(broken, "no base64"), "no token"),
        (like(padding="x" * 16_000), "no token"),
    ],
)  # fmt: skip
def test_id_tokens_that_let_nobody_in(make: Callable[[], str], words: str) -> None:
    forged = make()
    world = World(keys=[rsa_jwk("g1"), ec_jwk("e1", "P-256")], tokeninfo=lambda _: httpx.Response(400, json={}))
    (found,) = world.told(forged)
    assert isinstance(found, ApiError)
    assert (found.code, found.status) == (401, "UNAUTHENTICATED")
    assert words in found.message
    assert forged not in found.message


def test_no_id_token_is_taken_where_no_audience_is_named() -> None:
    (found,) = World().told(token(), audiences=())
    assert isinstance(found, ApiError)
    assert "takes no ID tokens" in found.message


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


def info(**changes: Any) -> Callable[[httpx.Request], httpx.Response]:
    """A token service that says one thing of every token."""
    said = {
        "azp": GCLOUD,
        "aud": GCLOUD,
        "sub": "1",
        "scope": f"openid https://www.googleapis.com/auth/userinfo.email {CLOUD}",
        "exp": str(int(time.time()) + 1800),
        "expires_in": "1800",
        "email": "ana@example.com",
        "email_verified": "true",
        "access_type": "offline",
    } | changes
    return lambda _: httpx.Response(200, json={key: value for key, value in said.items() if value is not None})


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


def test_an_id_token_is_no_access_token() -> None:
    world = World(tokeninfo=info(), keys=[])
    assert codes(world.told(token())) == [401]
    assert not any("tokeninfo" in url for url in world.asked)
    # A sandbox's own token service tells assertions too.
    assert codes(world.told(token(), assertions=True)) == [200]


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic YTpi", "ya29.t", "Bearer a b", "Bearer é", "Bearer a\nb", "Bearer a,b",
     "Bearer " + "a" * 20_000, "Token ya29.t"],
)  # fmt: skip
def test_headers_without_a_token(header: str | None) -> None:
    world = World(tokeninfo=info())
    with pytest.raises(ApiError) as refused:
        asyncio.run(world.identity().caller(header))
    assert (refused.value.code, world.asked) == (401, [])


def test_the_scheme_is_read_whatever_its_case() -> None:
    world = World(tokeninfo=info())
    assert asyncio.run(world.identity().caller("bEARER  ya29.t ")).email == "ana@example.com"


def test_administrators_are_told_by_their_e_mails() -> None:
    (found,) = World(tokeninfo=info()).told("ya29.t", admins=frozenset({"Ana@Example.com"}))
    assert isinstance(found, Caller)
    assert found.admin


def test_tokens_are_known_for_minutes_and_never_beyond_their_end() -> None:
    world = World(tokeninfo=info(expires_in="1800"))

    async def work(*steps: float) -> list[int]:
        identity, seen = world.identity(), list[int]()
        for step in steps:
            world.offset += step
            await identity.caller("Bearer ya29.t")
            seen.append(len(world.asked))
        world.asked.clear()
        return seen

    assert asyncio.run(work(0, 290, 20)) == [1, 1, 2]
    world.tokeninfo = info(expires_in="60")
    assert asyncio.run(work(0, 55, 10)) == [1, 1, 2]


def test_refusals_are_known_for_seconds_and_outages_not_at_all() -> None:
    world = World(tokeninfo=lambda _: httpx.Response(400))

    async def work(*steps: float) -> list[int]:
        identity = world.identity()
        for step in steps:
            world.offset += step
            with pytest.raises(ApiError):
                await identity.caller("Bearer ya29.t")
        return [len(world.asked)]

    assert asyncio.run(work(0, 5, 6)) == [2]
    world.asked.clear()
    world.tokeninfo = lambda _: httpx.Response(429)
    assert asyncio.run(work(0, 0, 0)) == [3]


def test_fifty_at_once_ask_once_and_one_that_goes_away_takes_nobody_along() -> None:
    asked: list[str] = []

    async def ask(one: str) -> tuple[Caller, float]:
        asked.append(one)
        await asyncio.sleep(0.01)
        return Caller("ana@example.com", frozenset()), time.time() + 60

    async def work() -> list[Caller | BaseException]:
        known = KnownTokens(ask)
        tasks = [asyncio.create_task(known.caller("t")) for _ in range(50)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = asyncio.run(work())
    assert isinstance(first, asyncio.CancelledError)
    assert {one.email for one in others if isinstance(one, Caller)} == {"ana@example.com"}
    assert (len(others), asked) == (49, ["t"])


def test_no_more_tokens_are_known_than_there_is_room_for() -> None:
    asked: list[str] = []

    async def ask(one: str) -> tuple[Caller, float]:
        asked.append(one)
        if one.startswith("bad"):
            raise ApiError("UNAUTHENTICATED", "no")
        return Caller(one, frozenset()), time.time() + 60

    async def work() -> None:
        known = KnownTokens(ask, most=3)
        for one in ("a", "b", "c", "a", "bad1", "bad2", "bad3", "bad4", "d", "a", "b"):
            try:
                await known.caller(one)
            except ApiError:
                assert one.startswith("bad")
        assert len(known._known._values) == 3
        assert len(known._refused._values) == 3

    asyncio.run(work())
    # What was used last is kept, and strangers push nobody out.
    assert asked == ["a", "b", "c", "bad1", "bad2", "bad3", "bad4", "d", "b"]


def environment(project: str = "my-project") -> EnvironmentSpec:
    return EnvironmentSpec(name="lab", project=project)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (IdentityOptions(admins=frozenset({"ana@example.com"})), "in a sandbox only"),
        (IdentityOptions(access_tokens=False), "no caller could sign in"),
        (IdentityOptions(issuers=(IDP,)), "need an audience"),
        (IdentityOptions(audiences=("",)), "could use it here"),
        (IdentityOptions(audiences=(GCLOUD,)), "could use it here"),
        (IdentityOptions(audiences=(OURS,), issuers=(IDP, IDP)), "named twice"),
        (IdentityOptions(audiences=(OURS,), issuers=(GOOGLE_ISSUER,)), "named twice"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer("http://idp.example.com"),)), "no https URL"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url, "ftp://x/keys"),)), "no https URL"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url, pool="a/b"),)), "workforce pool"),
        (IdentityOptions(audiences=(OURS,), issuers=(Issuer(IDP.url),)), "everybody's e-mail"),
    ],
)
def test_options_that_contradict_each_other(options: IdentityOptions, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        identity_for(environment(), options)
    assert words in str(refused.value)


def test_a_sandboxs_tokens_are_sent_to_nobody_else() -> None:
    with pytest.raises(UsageError, match="only a sandbox can verify"):
        identity_for(environment("sandbox-encamp"), IdentityOptions(), {})


def test_only_a_sandboxs_own_environment_asks_another_token_service() -> None:
    environ = {"CLOUDSDK_API_ENDPOINT_OVERRIDES_OAUTH2": "http://127.0.0.1:9/oauth2/"}

    def url(project: str) -> str:
        identity = identity_for(environment(project), IdentityOptions(), environ)
        assert identity._access_tokens is not None
        asyncio.run(identity.close())
        return identity._access_tokens._url

    assert url("sandbox-encamp") == "http://127.0.0.1:9/oauth2/tokeninfo"
    assert url("my-project") == "https://oauth2.googleapis.com/tokeninfo"


def test_without_credentials_there_is_one_caller() -> None:
    identity = NoIdentity("me@laptop")
    found = asyncio.run(identity.caller(None))
    assert found == asyncio.run(identity.caller("Bearer x")) == Caller("me@laptop", frozenset(), admin=True)
    asyncio.run(identity.close())
