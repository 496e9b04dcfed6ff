"""The one way to Google's REST APIs: application default credentials, bounded retries, errors that say what to try."""

from __future__ import annotations

import functools
import itertools
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from encamp.cloud.endpoints import Service, endpoint, is_loopback
from encamp.errors import EngineError
from encamp.retries import SHORT, RetryPolicy, TransientError, retry_after, with_retries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

_LOG = logging.getLogger(__name__)
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Answers after which the same request may succeed (https://cloud.google.com/storage/docs/retry-strategy).
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
#: After so many attempts whoever waits is told that, and why.
_TOLD_ATTEMPTS = 5
_TIMEOUT_SECONDS = (10.0, 120.0)
_EXCERPT_CHARACTERS = 500
_SHOWN_CHARACTERS = 120

_HINTS = {
    HTTPStatus.UNAUTHORIZED: "renew the credentials with `gcloud auth application-default login`",
    HTTPStatus.FORBIDDEN: "ask for the permission that the message names",
    HTTPStatus.TOO_MANY_REQUESTS: "wait a minute and run the command again",
}


class RestError(EngineError):
    """Google refused a request, or gave no usable answer (``status`` 0)."""

    def __init__(self, what: str, *, status: int, where: str, hint: str | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.status = status


class GoogleClient:
    """Requests with credentials, repeated while an error may pass.

    Args:
        session: what sends, or what gives that; None for application default credentials.
        environ: where endpoint overrides are looked up; None for the process's environment.
        sleep: pauses between attempts, in seconds.
        policy: how often and how long a request is tried.
        told: gets a line for people when an answer takes long.
    """

    def __init__(
        self,
        session: requests.Session | Callable[[], requests.Session] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        policy: RetryPolicy = SHORT,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open = _opening(session)
        self._environ = environ
        self._sleep = sleep
        self._policy = policy
        self._told = told

    def with_policy(self, policy: RetryPolicy, told: Callable[[str], None]) -> GoogleClient:
        """Return another client of the same session that tries for longer or shorter, and tells ``told``."""
        return GoogleClient(self._open, environ=self._environ, sleep=self._sleep, policy=policy, told=told)

    def url(self, service: Service, path: str) -> str:
        """Return the full URL of a path that begins with ``/``."""
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
        count = itertools.count(1)

        def once() -> requests.Response:
            tried = next(count)
            answer = self._send(url, method, params=params, json=json, data=data, headers=headers, stream=stream)
            if isinstance(answer, str):
                raise TransientError(_unanswered(answer, where, tried))
            if answer.ok or answer.status_code in accept:
                return answer
            if answer.status_code not in RETRYABLE:
                raise _refused(answer, where)
            said, wanted = _message(answer), retry_after(answer.headers.get("Retry-After"))
            answer.close()
            raise TransientError(_unanswered(said, where, tried), wanted)

        return with_retries(once, self._policy.at_most(attempts), sleep=self._sleep, told=self._note)

    def _note(self, attempt: int, pause: float, error: Exception) -> None:
        _LOG.debug("%s; attempt %d follows in %.1f s", error, attempt + 1, pause)
        if attempt == _TOLD_ATTEMPTS and isinstance(error, RestError):
            self._told(f"Google gives no usable answer to {error.where}, it is asked again: {error.what}")

    def json(self, service: Service, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Send a request as ``request`` does and return the answer's JSON object, empty for an empty answer."""
        return parsed(self.request(service, method, path, **options), f"{method} {path.partition('?')[0]}")

    def pages(
        self, service: Service, path: str, items: str, params: Mapping[str, str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield every item of a paged listing, in the server's order."""
        query = dict(params or {})
        while True:
            page = self.json(service, "GET", path, params=query)
            yield from page.get(items, [])
            if not page.get("nextPageToken"):
                return
            query["pageToken"] = page["nextPageToken"]

    def _send(self, url: str, method: str, **options: Any) -> requests.Response | str:
        """Return the answer, or why there is none."""
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
            if error.retryable:
                return f"no token: {type(error).__name__}"
            raise RestError(
                f"no token: {type(error).__name__}",
                status=HTTPStatus.UNAUTHORIZED,
                where=method,
                hint=_HINTS[HTTPStatus.UNAUTHORIZED],
            ) from error

    def _opened(self, url: str) -> requests.Session:
        session = self._open()
        if is_loopback(url):
            session.trust_env = False
        return session


def parsed(answer: requests.Response, where: str) -> dict[str, Any]:
    """Return an answer's JSON object, an empty one for an empty answer.

    Raises:
        RestError: the answer is something else: a proxy on the way, or a server in trouble, sent it.
    """
    try:
        found = answer.json() if answer.content else {}
    except ValueError as error:
        text = " ".join(answer.text.split())[:_SHOWN_CHARACTERS]
        raise RestError(
            f"{answer.status_code}, but the answer is no JSON: {text!r}",
            status=0,
            where=where,
            hint="look at the service and at proxies on the way to it; nothing is known to have been done",
        ) from error
    return found if isinstance(found, dict) else {}


def _opening(session: requests.Session | Callable[[], requests.Session] | None) -> Callable[[], requests.Session]:
    if session is None:
        return functools.cache(_default_session)
    return session if callable(session) else lambda: session


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


def _unanswered(said: str, where: str, attempts: int) -> RestError:
    return RestError(
        f"no usable answer after {attempts} attempt{'s' * (attempts != 1)}: {said}",
        status=0,
        where=where,
        hint="check the network and the service's status, then run the command again",
    )


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
