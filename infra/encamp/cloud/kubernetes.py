"""What the driver needs of an API server: get, list, create and delete; logs are read by ``pod_logs``.

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
    from collections.abc import Callable, Mapping

    from encamp.cloud.pod_logs import PodLogs

_LOG = logging.getLogger(__name__)
_PATHS = {
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "jobs": "/apis/batch/v1",
    "secrets": "/api/v1",
    "pods": "/api/v1",
    "nodes": "/api/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "events": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "podtemplates": "/api/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "provisioningrequests": "/apis/autoscaling.x-k8s.io/v1beta1",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2",
}
_NOT_FOUND, _CONFLICT = 404, 409
_RETRYABLE = frozenset({429, 500, 502, 503, 504})
_ATTEMPTS = 8
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
_PAGE = "500"


class RefusedError(EngineError):
    """The API server will not do it, however often it is asked."""


class Cluster:
    """One API server.

    Args:
        kubeconfig: text of a kubeconfig; its current context counts.
    """

    def __init__(self, kubeconfig: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._kubeconfig = kubeconfig
        self._http = api_client(kubeconfig)
        self._sleep = sleep
        self._closed = False

    def close(self) -> None:
        """Close every connection; threads that still ask get an EngineError."""
        self._closed = True
        self._http.close()

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """An object, or None where there is none."""
        answer = self._request("GET", f"{collection(kind, namespace)}/{name}")
        return None if answer.status_code == _NOT_FOUND else answer.json()

    def list(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Every object of a kind that the label and field selectors choose; none where the kind is unknown."""
        found: list[dict[str, Any]] = []
        query = {"labelSelector": selector, "fieldSelector": fields, "limit": _PAGE}
        while True:
            answer = self._request("GET", collection(kind, namespace), params=query)
            if answer.status_code == _NOT_FOUND:
                return found
            page = answer.json()
            found += page.get("items") or []
            if not page["metadata"].get("continue"):
                return found
            query["continue"] = page["metadata"]["continue"]

    def create(self, kind: str, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make an object, and give it as the server has it; None where one of its name is there.

        Raises:
            RefusedError: the server refuses it.
            EngineError: there is no such namespace, or the server gives no answer.
        """
        answer = self._request("POST", collection(kind, namespace), json=dict(manifest), accept=_CONFLICT)
        if answer.status_code == _NOT_FOUND:
            raise EngineError(f"the cluster has no namespace {namespace}", hint="bring the environment up")
        return None if answer.status_code == _CONFLICT else answer.json()

    def delete(self, kind: str, namespace: str, name: str, *, wait: bool = True) -> None:
        """Delete an object, what it owns first, and ``wait`` until it is gone (a minute at most).

        Raises:
            EngineError: it is still there.
        """
        path = f"{collection(kind, namespace)}/{name}"
        self._request("DELETE", path, json={"propagationPolicy": "Foreground"})
        if not wait:
            return
        for _ in range(60):
            if self.get(kind, namespace, name) is None:
                return
            self._sleep(1.0)
        raise EngineError("it does not go away", where=f"{kind} {namespace}/{name}", hint="look at its finalizers")

    def logs(self) -> PodLogs:
        """A client of pods' logs for one event loop."""
        from encamp.cloud.pod_logs import PodLogs  # noqa: PLC0415 - wanted by what reads logs alone

        return PodLogs(self._kubeconfig)

    def _request(self, method: str, path: str, *, accept: int = _NOT_FOUND, **options: Any) -> httpx.Response:
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
            if answer.is_error and answer.status_code not in {_NOT_FOUND, accept}:
                raise RefusedError(
                    f"the API server refused: {reason(answer)}",
                    where=f"{method} {path}",
                    hint="check what your account may do in the cluster",
                )
            return answer
        raise EngineError(
            f"the API server gives no answer: {last}",
            where=str(self._http.base_url),
            hint="check that the cluster runs; `encamp sandbox status` for the sandbox",
        )


def collection(kind: str, namespace: str) -> str:
    """The path of all objects of a kind; with an empty namespace those of the whole cluster."""
    return f"{_PATHS[kind]}/namespaces/{namespace}/{kind}" if namespace else f"{_PATHS[kind]}/{kind}"


def reason(answer: httpx.Response) -> str:
    """An error's status and what the API server says of it."""
    try:
        return f"{answer.status_code} {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.text[:300]}"
