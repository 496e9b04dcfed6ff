"""Verification of Google's access tokens by Google's token service: owner, application, scopes, expiry.

Whoever holds an access token can use it anywhere, so one that was given to some application says nothing of what its
owner wants from this service. It is taken from applications that are trusted with it (gcloud and application default
credentials, unless others are named), and from service accounts, whose tokens are their own. Source:
developers.google.com/identity/sign-in/web/backend-auth and the answers of oauth2.googleapis.com/tokeninfo; the token
goes in a header, as Google's own Node.js library sends it there, since addresses are written into logs.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

import httpx

from encamp.api.errors import ApiError
from encamp.api.id_tokens import google_caller, unauthenticated
from encamp.spec.members import is_service_account

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from encamp.api.caller import Caller

_LOG = logging.getLogger(__name__)
#: gcloud, and `gcloud auth application-default login`: google-cloud-sdk core/config.py, google.auth._cloud_sdk.
USUAL_CLIENTS: Final = (
    "32555940559.apps.googleusercontent.com",
    "764086051850-6qr4p6gpi6hn506pt8ejuq83di341hur.apps.googleusercontent.com",
)
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_EMAIL_SCOPE: Final = "https://www.googleapis.com/auth/userinfo.email"
_PATH: Final = "/tokeninfo"
_NO_TOKEN: Final = frozenset({400, 401})
#: After no answer at all nobody is asked again for so long: whoever waits for it would keep others from being served.
_REST_SECONDS: Final = 2.0


class AccessTokens:
    """Verifier of access tokens.

    Args:
        client: what asks.
        service: root URL of the token service.
        clients: OAuth client ids of the applications whose tokens are taken.
        now: seconds since the epoch.
    """

    def __init__(
        self, client: httpx.AsyncClient, service: str, clients: Collection[str], now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._url = service.rstrip("/") + _PATH
        self._clients = frozenset(clients)
        self._now = now
        self._silent = float("-inf")

    async def caller(self, token: str) -> tuple[Caller, float]:
        """Return a token's owner, and the end of its validity (seconds since the epoch).

        Raises:
            ApiError: UNAUTHENTICATED; PERMISSION_DENIED where it is not for Google Cloud; UNAVAILABLE where the token
                service does not answer.
        """
        asked = self._now()
        info = await self._asked(token)
        left = _seconds(info.get("expires_in"))
        if left is None:
            raise _unavailable("an answer without expires_in")
        if left <= 0:
            raise unauthenticated("it has expired; get a new one")
        scopes = info.get("scope")
        if not isinstance(scopes, str) or _SCOPE not in scopes.split():
            raise ApiError("PERMISSION_DENIED", f"Request had insufficient authentication scopes; ask for {_SCOPE}.")
        caller = google_caller(info.get("email"), info.get("email_verified"))
        if caller is None:
            raise unauthenticated(f"it does not say whose it is; ask for the scope {_EMAIL_SCOPE} too")
        self._check_client(info, caller)
        return caller, asked + left

    def _check_client(self, info: Mapping[str, Any], caller: Caller) -> None:
        audience = info.get("aud")
        if isinstance(audience, str) and audience in self._clients:
            return
        # The id of a service account itself: nobody else was given its token.
        own = isinstance(audience, str) and audience.isascii() and audience.isdigit() and info.get("azp") == audience
        if not own or not is_service_account(caller.email):
            raise unauthenticated("it was given to an application that is not trusted here; use gcloud's")

    async def _asked(self, token: str) -> dict[str, Any]:
        if self._now() - self._silent < _REST_SECONDS:
            raise _unavailable("it was silent a moment ago")
        answer = await self._sent(token)
        if isinstance(answer, str) or answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            answer = await self._sent(token)
        if isinstance(answer, str):
            self._silent = self._now()
            raise _unavailable(answer)
        if answer.status_code in _NO_TOKEN:
            raise unauthenticated("it has expired, or is none of Google's; get a new one")
        if answer.status_code != httpx.codes.OK:
            raise _unavailable(str(answer.status_code))
        return _object(answer)

    async def _sent(self, token: str) -> httpx.Response | str:
        """Return the answer, or why there is none."""
        headers = {"authorization": f"Bearer {token}", "content-type": "application/x-www-form-urlencoded"}
        try:
            return await self._client.post(self._url, headers=headers, content=b"")
        except httpx.HTTPError as error:
            return type(error).__name__


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _unavailable("an answer that is no JSON object")
    return found


def _seconds(value: Any) -> float | None:
    """Return tokeninfo's number of seconds, which is a text; None if it is no number."""
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _unavailable(reason: str) -> ApiError:
    _LOG.warning("the token service does not answer: %s", reason)
    return ApiError("UNAVAILABLE", "The token service does not answer, so callers cannot be identified; try again.")
