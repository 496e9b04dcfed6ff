"""ID tokens of OpenID Connect: signature, trusted issuer, our audience, and owner.

PyJWT verifies the signature. Header and claims are checked here, since PyJWT accepts times that are texts, a token that
is for others as well, and every ``typ``.
Sources: openid.net/specs/openid-connect-core-1_0.html section 3.1.3.7; RFC 7515 section 4.1.11; RFC 8725.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt
from jwt.utils import base64url_decode

from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.signing_keys import SigningKeys
from encamp.spec.members import canonical_email, domain_of, is_service_account

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import httpx
    from jwt.types import Options

GOOGLE: Final = "https://accounts.google.com"
#: Google's tokens name their issuer in one of these two ways.
_ALIASES: Final = {"accounts.google.com": GOOGLE}
_GOOGLE_KEYS: Final = "https://www.googleapis.com/oauth2/v3/certs"
#: Seconds that clocks may be apart.
SKEW_SECONDS: Final = 30
_ALGORITHMS: Final = frozenset({"RS256", "ES256", "ES384"})
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f]{1,255}")
#: The year 9999; no NaN is less.
_LATEST: Final = 253_402_300_800
_FORBIDDEN_HEADERS: Final = frozenset({"crit", "b64"})
_SIGNATURE_ONLY: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True)
class Issuer:
    """A trusted issuer of ID tokens.

    Attributes:
        url: as its tokens have it (``iss``).
        keys: URL of its key set; None: where its discovery document says.
        pool: id of the workforce pool whose people it signs in. They are the pool's ``principal://`` members, by the
            claim ``subject``. None: they are ``user:`` members, by an e-mail that the issuer has verified.
        subject: the claim that the pool takes for ``google.subject``.
        domains: of the e-mails that it may speak for, each in lower case; of its people that are ``user:`` members.
            Google speaks for whatever e-mail an account of it has.
    """

    url: str
    keys: str | None = None
    pool: str | None = None
    subject: str = "sub"
    domains: tuple[str, ...] = ()


GOOGLE_ISSUER: Final = Issuer(GOOGLE, _GOOGLE_KEYS)


class IdTokens:
    """Verifier of ID tokens.

    Args:
        client: what asks for keys.
        issuers: the trusted issuers.
        audiences: whom a token may be for; every audience of a token has to be among them.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        issuers: Sequence[Issuer],
        audiences: Sequence[str],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._issuers = {one.url: (one, SigningKeys(client, one.url, one.keys, now)) for one in issuers}
        self._audiences = frozenset(audiences)
        self._now = now

    async def caller(self, token: str) -> tuple[Caller, float]:
        """Return a token's owner, and the end of its validity (seconds since the epoch).

        Raises:
            ApiError: UNAUTHENTICATED; UNAVAILABLE where the issuer's keys cannot be had.
        """
        header, unverified = _parts(token)
        algorithm, key_id = _signed_how(header)
        url = unverified.get("iss")
        issuer, keys = self._issuers.get(_ALIASES.get(url, url) if isinstance(url, str) else "", (None, None))
        if issuer is None or keys is None:
            raise unauthenticated("its issuer is none that is trusted here")
        if not self._audiences:
            raise unauthenticated("the service takes no ID tokens; send an access token")
        key = await keys.find(key_id)
        if key is None or key.algorithm_name != algorithm:
            raise unauthenticated("its issuer has no such key")
        try:
            claims = jwt.decode(token, key, algorithms=[algorithm], options=_SIGNATURE_ONLY)
        except jwt.InvalidTokenError:
            raise unauthenticated("its signature is not right") from None
        until = self._times(claims)
        self._check_audience(claims.get("aud"))
        return _whose(issuer, claims), until

    def _times(self, claims: Mapping[str, Any]) -> float:
        """Return the end of a token that is valid now."""
        issued, ends = _time(claims.get("iat")), _time(claims.get("exp"))
        begins = _time(claims.get("nbf", issued))
        if issued is None or ends is None or begins is None:
            raise unauthenticated("its times are no numbers")
        if max(issued, begins) > self._now() + SKEW_SECONDS:
            raise unauthenticated("it is not valid yet")
        if ends < self._now() - SKEW_SECONDS:
            raise unauthenticated("it has expired; get a new one")
        return ends

    def _check_audience(self, claimed: Any) -> None:
        named = claimed if isinstance(claimed, list) else [claimed]
        if not named or not all(isinstance(one, str) and one in self._audiences for one in named):
            known = " or ".join(sorted(self._audiences))
            raise unauthenticated(f"it is for another audience; get one for {known}")


def unauthenticated(reason: str) -> ApiError:
    """Return the error for a token that is not accepted, with its reason."""
    return ApiError("UNAUTHENTICATED", f"The request's token is not accepted: {reason}.")


def google_caller(email: Any, verified: Any) -> Caller | None:
    """Return an account by its e-mail, None if there is none or it was not verified.

    ``verified`` is a boolean in ID tokens, and a text in answers of tokeninfo.
    """
    found = canonical_email(email) if isinstance(email, str) else None
    if found is None or not (verified is True or verified == "true"):
        return None
    kind = "serviceAccount" if is_service_account(found) else "user"
    return Caller(found, frozenset({f"{kind}:{found}"}))


def _parts(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header and claims, which nobody has verified yet."""
    try:
        header, claims, _ = token.split(".")
        return _object(header), _object(claims)
    except (ValueError, RecursionError):
        raise unauthenticated("it is no JSON Web Token") from None


def _object(part: str) -> Mapping[str, Any]:
    found = json.loads(base64url_decode(part))
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004 - what a caller sent
    return found


def _signed_how(header: Mapping[str, Any]) -> tuple[str, str]:
    """Return algorithm and key id; anything else that a header asks for is refused."""
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
        raise unauthenticated("it is not signed by RS256, ES256 or ES384")
    if not isinstance(key_id, str) or not key_id:
        raise unauthenticated("it does not say which key signed it")
    if not isinstance(kind, str) or kind.upper() != "JWT" or not _FORBIDDEN_HEADERS.isdisjoint(header):
        raise unauthenticated("it is no ID token")
    return algorithm, key_id


def _whose(issuer: Issuer, claims: Mapping[str, Any]) -> Caller:
    if issuer.pool is not None:
        subject = claims.get(issuer.subject)
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            raise unauthenticated(f"it has no {issuer.subject}")
        pool = f"principal://iam.googleapis.com/locations/global/workforcePools/{issuer.pool}"
        return Caller(f"{pool}/subject/{subject}", frozenset({f"{pool}/subject/{subject}"}))
    caller = google_caller(claims.get("email"), claims.get("email_verified"))
    if caller is None:
        raise unauthenticated("it has no verified e-mail")
    if issuer.url == GOOGLE:
        return caller
    if is_service_account(caller.email):
        raise unauthenticated("Google alone speaks for service accounts")
    if domain_of(caller.email) not in issuer.domains:
        raise unauthenticated("its issuer does not speak for the domain of its e-mail")
    return caller


def _time(value: Any) -> float | None:
    """Return seconds since the epoch, None if it is no such number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LATEST
    return float(value) if known else None
