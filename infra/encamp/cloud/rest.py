"""The one way to Google's REST APIs: application default credentials, bounded retries, errors that say what to try."""

from __future__ import annotations

import logging
import random
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from encamp.cloud.endpoints import Service, endpoint, is_loopback
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

_LOG = logging.getLogger(__name__)
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Answers after which the same request may succeed (https://cloud.google.com/storage/docs/retry-strategy).
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 20.0
_TIMEOUT_SECONDS = (10.0, 120.0)
_EXCERPT_CHARACTERS = 500

_HINTS = {
    HTTPStatus.UNAUTHORIZED: "renew the credentials with `gcloud auth application-default login`",
    HTTPStatus.FORBIDDEN: "ask for the permission that the message names",
    HTTPStatus.TOO_MANY_REQUESTS: "wait a minute and run the command again",
}


class RestError(EngineError):
    """Google refused a request, or gave no answer (``status`` 0)."""

    def __init__(self, what: str, *, status: int, where: str, hint: str | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.status = status


class GoogleClient:
    """Requests with credentials, repeated while an error may pass.

    Args:
        session: what sends; None for application default credentials.
        environ: where endpoint overrides are looked up; None for the process's environment.
        sleep: pauses between attempts, in seconds.
    """

    def __init__(
        self,
        session: requests.Session | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        attempts: int = _ATTEMPTS,
    ) -> None:
        self._session = session
        self._environ = environ
        self._sleep = sleep
        self._attempts = attempts

    def url(self, service: Service, path: str) -> str:
        """The full URL of a path that begins with ``/``."""
        return endpoint(service, self._environ) + path

    def request(
        self,
        service: Service,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        accept: frozenset[int] = frozenset(),
        attempts: int | None = None,
    ) -> requests.Response:
        """Send a request until it has an answer that is final.

        ``accept`` holds the statuses beside 2xx that are an answer, not an error; ``attempts`` how often it is tried at
        most, for requests that must not simply be repeated; the rest is as in ``requests``.

        Raises:
            RestError: the answer is an error, or none came within the attempts.
        """
        url = self.url(service, path)
        # The path of an upload's session ends with what lets anybody write to it.
        where = f"{method} {path.partition('?')[0]}"
        last = "no answer"
        most = attempts or self._attempts
        for attempt in range(most):
            if attempt:
                self._pause(attempt, where, last)
            answer = self._send(url, method, params=params, json=json, data=data, headers=headers, stream=stream)
            if isinstance(answer, str):
                last = answer
            elif answer.ok or answer.status_code in accept:
                return answer
            elif answer.status_code not in RETRYABLE:
                raise _refused(answer, where)
            else:
                last = _message(answer)
                answer.close()
        raise RestError(
            f"no usable answer after {most} attempts: {last}",
            status=0,
            where=where,
            hint="check the network and the service's status, then run the command again",
        )

    def json(self, service: Service, method: str, path: str, **options: Any) -> dict[str, Any]:
        """As ``request``, but the answer's JSON object; an empty answer is an empty object."""
        answer = self.request(service, method, path, **options)
        return answer.json() if answer.content else {}

    def pages(
        self, service: Service, path: str, items: str, params: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every item of a paged listing, in the server's order."""
        query = dict(params or {})
        while True:
            page = self.json(service, "GET", path, params=query)
            yield from page.get(items, [])
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def _send(self, url: str, method: str, **options: Any) -> requests.Response | str:
        """The answer, or why there is none."""
        from google.auth import exceptions as auth  # noqa: PLC0415 - slow to import, and only here
        from requests import exceptions  # noqa: PLC0415

        session = self._opened(url)
        try:
            return session.request(method, url, timeout=_TIMEOUT_SECONDS, **options)
        except (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError) as error:
            return f"{type(error).__name__} at {url.split('?', maxsplit=1)[0]}"
        except auth.TransportError:
            return "the token service does not answer"
        except auth.GoogleAuthError as error:
            raise RestError(
                f"no token: {type(error).__name__}",
                status=HTTPStatus.UNAUTHORIZED,
                where=method,
                hint=_HINTS[HTTPStatus.UNAUTHORIZED],
            ) from error

    def _opened(self, url: str) -> requests.Session:
        if self._session is None:
            self._session = _default_session()
        if is_loopback(url):
            self._session.trust_env = False
        return self._session

    def _pause(self, attempt: int, where: str, reason: str) -> None:
        longest = min(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1), _LONGEST_PAUSE_SECONDS)
        _LOG.debug("%s: %s; attempt %d", where, reason, attempt + 1)
        # Spread evenly, so that many clients that failed together do not come back together.
        self._sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret depends on it


def _default_session() -> requests.Session:
    import google.auth  # noqa: PLC0415
    import google.auth.transport.requests  # noqa: PLC0415
    from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415

    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except DefaultCredentialsError as error:
        raise RestError(
            "there are no application default credentials",
            status=HTTPStatus.UNAUTHORIZED,
            where="credentials",
            hint='run `gcloud auth application-default login`, or `eval "$(encamp sandbox env)"` for the sandbox',
        ) from error
    return google.auth.transport.requests.AuthorizedSession(credentials)


def _refused(answer: requests.Response, where: str) -> RestError:
    status = answer.status_code
    hint = _HINTS.get(HTTPStatus(status)) if status in set(HTTPStatus) else None
    return RestError(f"{status}: {_message(answer)}", status=status, where=where, hint=hint)


def _message(answer: requests.Response) -> str:
    try:
        error = answer.json()["error"]
        text = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        text = answer.text
    return str(text)[:_EXCERPT_CHARACTERS] or answer.reason
