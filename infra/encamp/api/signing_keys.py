"""Public keys that an issuer signs its tokens with: fetched when they are needed, kept as long as the issuer says.

Sources: RFC 7517 (key sets), RFC 7518 (algorithms), openid.net/specs/openid-connect-discovery-1_0.html.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOG = logging.getLogger(__name__)
#: Seconds that keys are kept: where the issuer says nothing, at least, and at most.
_USUAL_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 3600.0, 60.0, 6 * 3600.0
#: An unknown key may be a new one; nobody makes us look for it more often than this.
_LOOK_AGAIN_SECONDS: Final = 60.0
#: After a failure nobody is asked again for so long.
_REST_SECONDS: Final = 5.0
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})\b")
_RSA_BITS: Final = range(2048, 8193)
_CURVES: Final = {"P-256": (SECP256R1, "ES256"), "P-384": (SECP384R1, "ES384")}
_DISCOVERY: Final = "/.well-known/openid-configuration"


@dataclass(frozen=True)
class SigningKey:
    """A key and the one algorithm that it is for; ``pem`` is a SubjectPublicKeyInfo."""

    algorithm: str
    pem: bytes


class SigningKeys:
    """The keys of one issuer.

    Args:
        client: what asks.
        issuer: its URL, under which its discovery document is found.
        url: where its key set is; None: where the discovery document says.
        now: seconds since the epoch.
    """

    def __init__(
        self, client: httpx.AsyncClient, issuer: str, url: str | None, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._issuer = issuer
        self._url = url
        self._now = now
        self._keys: dict[str, SigningKey] = {}
        self._fresh_until = self._looked = self._failed = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, key_id: str) -> SigningKey | None:
        """Return the key of an id, None if the issuer has none with it.

        Raises:
            ApiError: UNAVAILABLE; the issuer does not answer, and the cached keys are too old or lack this one.
        """
        if self._now() < self._fresh_until and key_id in self._keys:
            return self._keys[key_id]
        async with self._fetching:
            old = self._now() >= self._fresh_until
            if old or (key_id not in self._keys and self._now() - self._looked >= _LOOK_AGAIN_SECONDS):
                await self._fetch()
        return self._keys.get(key_id)

    async def _fetch(self) -> None:
        if self._now() - self._failed < _REST_SECONDS:
            raise _unavailable(self._issuer)
        try:
            answer = await self._get(self._url or await self._discovered())
            keys = dict(keys_of(answer.json()))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            self._failed = self._now()
            _LOG.warning("no keys of %s: %s", self._issuer, type(error).__name__)
            raise _unavailable(self._issuer) from None
        self._keys = keys
        self._looked = self._now()
        self._fresh_until = self._looked + _kept_seconds(answer)

    async def _discovered(self) -> str:
        found = (await self._get(self._issuer.rstrip("/") + _DISCOVERY)).json()
        url = found.get("jwks_uri") if isinstance(found, dict) and found.get("issuer") == self._issuer else None
        if not isinstance(url, str) or not url.startswith("https://"):
            raise ValueError(self._issuer)
        return url

    async def _get(self, url: str) -> httpx.Response:
        answer = await self._client.get(url, headers={"accept": "application/json"})
        if answer.status_code != httpx.codes.OK:
            raise ValueError(answer.status_code)
        return answer


def keys_of(data: Any) -> Iterator[tuple[str, SigningKey]]:
    """Yield the keys of a key set that sign tokens, by id. What is no such key is passed over, as RFC 7517 wants it.

    Raises:
        ValueError: it is no key set.
    """
    found = data.get("keys") if isinstance(data, dict) else None
    if not isinstance(found, list):
        raise ValueError("no key set")  # noqa: TRY004 - what a server sent
    for one in found:
        key = _key(one) if isinstance(one, dict) else None
        if key is not None:
            yield one["kid"], key


def _key(data: dict[str, Any]) -> SigningKey | None:
    usable = data.get("use") in (None, "sig") and "verify" in (data.get("key_ops") or ["verify"])
    if not usable or not isinstance(data.get("kid"), str) or not data["kid"]:
        return None
    try:
        if data.get("kty") == "RSA":
            algorithm, public = "RS256", RSAPublicNumbers(_number(data["e"]), _number(data["n"])).public_key()
            fits = public.key_size in _RSA_BITS
        else:
            curve, algorithm = _CURVES[data["crv"]]
            public = EllipticCurvePublicNumbers(_number(data["x"]), _number(data["y"]), curve()).public_key()
            fits = data.get("kty") == "EC"
    except (KeyError, TypeError, ValueError):
        return None
    if not fits or data.get("alg") not in (None, algorithm):
        return None
    return SigningKey(algorithm, public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def _number(text: Any) -> int:
    if not isinstance(text, str):
        raise TypeError(type(text))
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _kept_seconds(answer: httpx.Response) -> float:
    said = _MAX_AGE.search(answer.headers.get("cache-control", "").lower())
    return min(max(float(said[1]) if said else _USUAL_SECONDS, _LEAST_SECONDS), _MOST_SECONDS)


def _unavailable(issuer: str) -> ApiError:
    return ApiError(
        "UNAVAILABLE", f"The keys of {issuer} cannot be had now, so callers cannot be identified; try again."
    )
