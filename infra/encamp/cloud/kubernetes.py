"""What the driver needs of an API server: get, list, delete, and logs that lose and repeat nothing.

Objects stay the JSON that the server sends; whoever reads one picks the fields it needs. Retries cover what a
restarting API server answers, for a bounded time.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import httpx

from encamp.cloud.kubeconfig import api_client
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOG = logging.getLogger(__name__)
_PATHS = {
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "jobs": "/apis/batch/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "podtemplates": "/api/v1",
    "provisioningrequests": "/apis/autoscaling.x-k8s.io/v1beta1",
}
_NOT_FOUND = 404
_RETRYABLE = frozenset({429, 500, 502, 503, 504})
_ATTEMPTS = 8
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
_PAGE = "500"
#: A log stream that is silent for so long is asked again: the connection may be dead without saying so.
_SILENCE_SECONDS = 300.0


class Cluster:
    """One API server.

    Args:
        kubeconfig: text of a kubeconfig; its current context counts.
    """

    def __init__(self, kubeconfig: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._http = api_client(kubeconfig)
        self._sleep = sleep
        self._closed = False

    def close(self) -> None:
        """Close every connection; threads that still ask get an EngineError."""
        self._closed = True
        self._http.close()

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """An object, or None where there is none."""
        answer = self._request("GET", f"{_collection(kind, namespace)}/{name}")
        return None if answer.status_code == _NOT_FOUND else answer.json()

    def list(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Every object of a kind that the label and field selectors choose; none where the kind is unknown."""
        found: list[dict[str, Any]] = []
        query = {"labelSelector": selector, "fieldSelector": fields, "limit": _PAGE}
        while True:
            answer = self._request("GET", _collection(kind, namespace), params=query)
            if answer.status_code == _NOT_FOUND:
                return found
            page = answer.json()
            found += page.get("items") or []
            if not page["metadata"].get("continue"):
                return found
            query["continue"] = page["metadata"]["continue"]

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object, what it owns first, and wait until it is gone (a minute at most).

        Raises:
            EngineError: it is still there.
        """
        path = f"{_collection(kind, namespace)}/{name}"
        self._request("DELETE", path, json={"propagationPolicy": "Foreground"})
        for _ in range(60):
            if self.get(kind, namespace, name) is None:
                return
            self._sleep(1.0)
        raise EngineError("it does not go away", where=f"{kind} {namespace}/{name}", hint="look at its finalizers")

    def log(
        self, namespace: str, pod: str, container: str, *, follow: bool, since: str | None = None
    ) -> Iterator[bytes]:
        """A container's log as bytes, each line begun by its RFC 3339 time; ends with the container.

        With ``follow`` it waits for more. ``since`` is the RFC 3339 time of the first line wanted; whole seconds count.

        Raises:
            LogUnavailableError: there is no log (yet).
            httpx.HTTPError: the connection broke.
        """
        query = {"container": container, "timestamps": "true", "follow": str(follow).lower()}
        if since:
            query["sinceTime"] = since
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        timeout = httpx.Timeout(30.0, read=_SILENCE_SECONDS)
        with self._http.stream("GET", path, params=query, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise LogUnavailableError(answer.status_code, _reason(answer))
            yield from answer.iter_bytes()

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        last = "no answer"
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(min(_PAUSE_SECONDS * 2 ** (attempt - 1), _LONGEST_PAUSE_SECONDS))
            if self._closed:
                break
            try:
                answer = self._http.request(method, path, **options)
            except RuntimeError:
                # Closed between the question and the request.
                break
            except httpx.TransportError as error:
                last = type(error).__name__
                _LOG.debug("%s %s: %s", method, path, last)
                continue
            if answer.status_code in _RETRYABLE:
                last = str(answer.status_code)
                continue
            if answer.is_error and answer.status_code != _NOT_FOUND:
                raise EngineError(
                    f"the API server refused: {_reason(answer)}",
                    where=f"{method} {path}",
                    hint="check what your account may do in the cluster",
                )
            return answer
        raise EngineError(
            f"the API server gives no answer: {last}",
            where=str(self._http.base_url),
            hint="check that the cluster runs; `encamp sandbox status` for the sandbox",
        )


class LogUnavailableError(Exception):
    """The API server has no log for the container now."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _collection(kind: str, namespace: str) -> str:
    return f"{_PATHS[kind]}/namespaces/{namespace}/{kind}"


def _reason(answer: httpx.Response) -> str:
    try:
        return f"{answer.status_code} {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.text[:300]}"
