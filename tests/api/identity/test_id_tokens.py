"""ID tokens: whose they are, and which are refused."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER

if TYPE_CHECKING:
    from collections.abc import Callable

from tests.api.identity.issuer import GCLOUD, IDP, OURS, PEOPLE, In, World, codes, ec_jwk, encoded, rsa_jwk, token

POOL = "principal://iam.googleapis.com/locations/global/workforcePools/acme-people/subject"


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
