"""Authentication: from an Authorization header to a caller. A request without a known caller is refused.

In production these are ID tokens of issuers that are trusted, and Google's access tokens; in the sandbox the tokens
that it gives itself, which its own token service tells.
"""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx

from encamp.api.access_tokens import USUAL_CLIENTS, AccessTokens
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.id_tokens import GOOGLE_ISSUER, IdTokens, Issuer, unauthenticated
from encamp.api.known_tokens import KnownTokens
from encamp.cloud.endpoints import Service, endpoint, is_loopback
from encamp.errors import UsageError
from encamp.spec.members import canonical_email

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.spec.environment.model import EnvironmentSpec

#: Longer than any of Google's: cloud.google.com/iam/docs/service-account-creds (12 KB for federated ones).
_LONGEST: Final = 16 * 1024
#: RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_TIMEOUT = httpx.Timeout(5.0, connect=3.0)
_POOL = re.compile(r"[a-z][a-z0-9-]{2,61}[a-z0-9]")
_SCHEME: Final = "bearer"


@dataclass(frozen=True)
class IdentityOptions:
    """Options of authentication: the credentials that are accepted.

    Attributes:
        audiences: of ID tokens: what callers ask their tokens for, such as the service's own URL. None are taken where
            this is empty.
        issuers: of ID tokens, beside Google.
        clients: OAuth client ids of the applications whose access tokens are taken.
        access_tokens: whether access tokens are taken at all.
        admins: e-mails of who may do everything; of a sandbox alone.
    """

    audiences: tuple[str, ...] = ()
    issuers: tuple[Issuer, ...] = ()
    clients: tuple[str, ...] = USUAL_CLIENTS
    access_tokens: bool = True
    admins: frozenset[str] = frozenset()


class NoIdentity:
    """Lets in everybody as one caller who may do everything: for a service that only this machine's own user reaches.

    Args:
        email: whom the record and the audit log name.
    """

    def __init__(self, email: str) -> None:
        self._caller = Caller(email, frozenset(), admin=True)

    async def caller(self, authorization: str | None, address: str = "") -> Caller:
        """Return the one caller, whatever the header says."""
        del authorization, address
        return self._caller

    async def close(self) -> None:
        """Close nothing: there is nothing to close."""


class GoogleIdentity:
    """Tells callers by their bearer tokens; for one event loop.

    Args:
        id_tokens: the verifier of OpenID Connect's.
        access_tokens: the verifier of all others; None if none are accepted.
        admins: e-mails of who may do everything.
        assertions: whether JSON Web Tokens too are for the token service, as in a sandbox.
        client: what both ask with; closed with this.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        id_tokens: IdTokens,
        access_tokens: AccessTokens | None,
        *,
        admins: frozenset[str] = frozenset(),
        assertions: bool = False,
        client: httpx.AsyncClient | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._id_tokens = id_tokens
        self._access_tokens = access_tokens
        self._admins = frozenset(filter(None, map(canonical_email, admins)))
        self._assertions = assertions
        self._client = client
        self._known = KnownTokens(self._told, now)

    async def caller(self, authorization: str | None, address: str = "") -> Caller:
        """Return the caller of an Authorization header; ``address`` is where it came from.

        Raises:
            ApiError: UNAUTHENTICATED; PERMISSION_DENIED where the token is not for Google Cloud; UNAVAILABLE where who
                could tell does not answer; RESOURCE_EXHAUSTED where very many unknown tokens came from the address.
        """
        return await self._known.caller(bearer_of(authorization), address)

    async def close(self) -> None:
        """Close the connections to who was asked."""
        if self._client is not None:
            await self._client.aclose()

    async def _told(self, token: str) -> tuple[Caller, float]:
        if _is_jwt(token) and not self._assertions:
            caller, until = await self._id_tokens.caller(token)
        elif self._access_tokens is not None:
            caller, until = await self._access_tokens.caller(token)
        else:
            raise unauthenticated("the service takes ID tokens only")
        return (replace(caller, admin=True) if caller.email in self._admins else caller), until


def identity_for(
    spec: EnvironmentSpec, options: IdentityOptions, environ: Mapping[str, str] | None = None
) -> GoogleIdentity:
    """Return the authenticator of an environment's service.

    The token service is Google's, whatever this shell's variables say; that of a sandbox for its own environments.

    Raises:
        UsageError: the options contradict each other, or let nobody in.
    """
    _check(spec, options)
    service = endpoint(Service.OAUTH2, environ if spec.is_sandbox else {})
    if spec.is_sandbox and not is_loopback(service):
        raise UsageError(
            "only a sandbox can verify its tokens, and nothing says where it is",
            where=f"environment {spec.name}",
            hint='eval "$(encamp sandbox env)"',
        )
    client = httpx.AsyncClient(timeout=_TIMEOUT, trust_env=not is_loopback(service))
    return GoogleIdentity(
        IdTokens(client, (GOOGLE_ISSUER, *options.issuers), options.audiences),
        AccessTokens(client, service, options.clients) if options.access_tokens else None,
        admins=options.admins,
        assertions=spec.is_sandbox,
        client=client,
    )


def bearer_of(authorization: str | None) -> str:
    """Return the token of an Authorization header.

    Raises:
        ApiError: UNAUTHENTICATED; there is no token.
    """
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip(" ")
    if not token or scheme.lower() != _SCHEME:
        raise ApiError(
            "UNAUTHENTICATED",
            "Request is missing required authentication credential."
            " Expected OAuth 2 access token, or an ID token, as a bearer token.",
        )
    if len(token) > _LONGEST or not _TOKEN.fullmatch(token):
        raise unauthenticated("it is no token")
    return token


def _is_jwt(token: str) -> bool:
    """Whether a token begins with a JSON object; an access token with two dots does not."""
    first, *rest = token.split(".")
    try:
        return len(rest) > 1 and isinstance(json.loads(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))), dict)
    except (ValueError, RecursionError):
        return False


def _check(spec: EnvironmentSpec, options: IdentityOptions) -> None:
    if options.admins and not spec.is_sandbox:
        raise UsageError(
            "there are administrators in a sandbox only",
            where=f"environment {spec.name}",
            hint="give people roles in encamp:environment.access",
        )
    if not options.audiences and not options.access_tokens:
        raise UsageError(
            "no caller could sign in: ID tokens and access tokens are both refused", hint="name an audience"
        )
    if options.issuers and not options.audiences:
        raise UsageError("issuers of ID tokens need an audience", hint="name the service's own URL as audience")
    for audience in options.audiences:
        if not audience.strip() or audience in USUAL_CLIENTS:
            message = "every receiver of a token of gcloud's could use it here"
            raise UsageError(message, where=f"audience {audience!r}", hint="name the service's own URL as audience")
    urls = [GOOGLE_ISSUER.url, *(issuer.url for issuer in options.issuers)]
    for issuer in options.issuers:
        _check_issuer(issuer, urls)


def _check_issuer(issuer: Issuer, urls: list[str]) -> None:
    where = f"issuer {issuer.url}"
    if urls.count(issuer.url) > 1:
        raise UsageError("is named twice; Google is always there", where=where, hint="name it once")
    for url in filter(None, (issuer.url, issuer.keys)):
        if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
            raise UsageError(f"{url!r} is no https URL", where=where, hint="write https://")
    if issuer.pool is not None and not _POOL.fullmatch(issuer.pool):
        raise UsageError(f"{issuer.pool!r} is no id of a workforce pool", where=where, hint="such as acme-people")
    if issuer.pool is None and not issuer.domains:
        hint = "name the domains of its people's e-mails, such as example.com"
        raise UsageError("it could speak for everybody's e-mail", where=where, hint=hint)
