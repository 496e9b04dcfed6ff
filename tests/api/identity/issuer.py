"""An issuer, a key server and a token service in this process, and tokens that they sign."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from encamp.api.access_tokens import USUAL_CLIENTS, AccessTokens
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER, IdTokens, Issuer
from encamp.api.identity import GoogleIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "https://jobs.example.com"


IDP = Issuer("https://idp.example.com", domains=("example.com",))


PEOPLE = Issuer("https://login.acme.example", pool="acme-people", subject="oid")


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
