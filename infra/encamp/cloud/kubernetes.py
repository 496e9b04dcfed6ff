"""A client of the Kubernetes API for the driver: get, list, create and delete; ``pod_logs`` reads logs.

Objects stay the JSON that the server sends; whoever reads one picks the fields it needs. Retries cover what a
restarting API server answers, for a bounded time.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import httpx

from encamp.cloud.api_client import api_client
from encamp.cloud.kubeconfig import CredentialError
from encamp.errors import EngineError
from encamp.kinds.objects import OBJECTS
from encamp.retries import RetryPolicy, TransientError, retry_after, with_retries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.cloud.pod_logs import PodLogs

_LOG = logging.getLogger(__name__)
#: Paths of the kinds that a job has, and of what else is asked for.
_PATHS = {
    **{kind.plural: kind.path for kind in OBJECTS},
    "secrets": "/api/v1",
    "nodes": "/api/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "events": "/api/v1",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2",
}
_MAY_BE_FORBIDDEN = frozenset(kind.plural for kind in OBJECTS if kind.newer)
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
#: As long as an API server takes to restart; a driver that watches a job retries for hours.
_POLICY = RetryPolicy(attempts=8, first_pause=0.5, longest_pause=5.0)
#: A credential plugin that fails for lack of a network comes right soon; one without a login does not.
_CREDENTIAL_ATTEMPTS = 3
_PAGE = "500"
_SHOWN_CHARACTERS = 120
#: A replica has half a minute to stop by itself, and what does not is taken by force after that.
_GONE_SECONDS = 180


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

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig by which it is reached."""
        return self._kubeconfig

    def close(self) -> None:
        """Close every connection; threads that still ask get an EngineError."""
        self._closed = True
        self._http.close()

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object, or None."""
        answer = self._request("GET", f"{collection(kind, namespace)}/{name}")
        return None if answer.status_code == _NOT_FOUND else parsed(answer)

    def list(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        """Return every object of a kind that the label and field selectors choose; none if the kind is unknown.

        Of kinds that an older environment's roles do not name, none if they may not be listed.
        """
        found: list[dict[str, Any]] = []
        query = {"labelSelector": selector, "fieldSelector": fields, "limit": _PAGE}
        accept = _FORBIDDEN if kind in _MAY_BE_FORBIDDEN else _NOT_FOUND
        while True:
            answer = self._request("GET", collection(kind, namespace), params=query, accept=accept)
            if answer.status_code in {_NOT_FOUND, accept}:
                return found
            page = parsed(answer)
            found += page.get("items") or []
            if not page["metadata"].get("continue"):
                return found
            query["continue"] = page["metadata"]["continue"]

    def create(self, kind: str, namespace: str, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """Create an object and return it as the server has it; None if one of its name exists.

        One that an earlier attempt of this call has made, whose answer was lost, counts as made.

        Raises:
            RefusedError: the server refuses it.
            EngineError: there is no such namespace, or the server gives no answer.
        """
        answer, attempts = self._sent("POST", collection(kind, namespace), json=dict(manifest), accept=_CONFLICT)
        if answer.status_code == _NOT_FOUND:
            raise EngineError(f"the cluster has no namespace {namespace}", hint="bring the environment up")
        if answer.status_code != _CONFLICT:
            return parsed(answer)
        there = self.get(kind, namespace, manifest["metadata"]["name"]) if attempts > 1 else None
        return there if there is not None and _holds(there, _stored(manifest)) else None

    def delete(self, kind: str, namespace: str, name: str, *, wait: bool = True) -> None:
        """Delete an object, what it owns first, and ``wait`` until it is gone (three minutes at most).

        Raises:
            EngineError: it is still there.
        """
        path = f"{collection(kind, namespace)}/{name}"
        self._request("DELETE", path, json={"propagationPolicy": "Foreground"})
        if not wait:
            return
        for _ in range(_GONE_SECONDS):
            if self.get(kind, namespace, name) is None:
                return
            self._sleep(1.0)
        raise EngineError("it does not go away", where=f"{kind} {namespace}/{name}", hint="look at its finalizers")

    def force(self, kind: str, namespace: str, name: str, uid: str, *, finalizers: bool = False) -> None:
        """Delete an object without its grace period, which asks no node; one that is gone is no error.

        With ``finalizers`` what still stands loses these: nobody is asked to clean up after it.

        Raises:
            EngineError: the server refuses, or gives no answer.
        """
        path = f"{collection(kind, namespace)}/{name}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._sent("DELETE", path, json=body, accept=_CONFLICT)
        if finalizers:
            patch = json.dumps({"metadata": {"uid": uid, "finalizers": None}})
            headers = {"Content-Type": "application/merge-patch+json"}
            self._sent("PATCH", path, content=patch, headers=headers, accept=_CONFLICT)

    def logs(self) -> PodLogs:
        """Return a client of pods' logs for one event loop."""
        from encamp.cloud.pod_logs import PodLogs  # noqa: PLC0415 - wanted by what reads logs alone

        return PodLogs(self._kubeconfig)

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._sent(method, path, **options)[0]

    def _sent(self, method: str, path: str, *, accept: int = _NOT_FOUND, **options: Any) -> tuple[httpx.Response, int]:
        """Return the answer, and how many attempts it took."""
        attempts, signed_in = itertools.count(1), itertools.count(1)

        def once() -> tuple[httpx.Response, int]:
            attempt = next(attempts)
            if self._closed:
                raise self._silent("the connection is closed")
            try:
                answer = self._http.request(method, path, **options)
            except RuntimeError as error:
                # Closed between the question and the request.
                raise self._silent("the connection is closed") from error
            except httpx.TransportError as error:
                raise TransientError(self._silent(type(error).__name__)) from error
            except CredentialError as error:
                if next(signed_in) < _CREDENTIAL_ATTEMPTS:
                    raise TransientError(error) from error
                raise
            if answer.status_code in _RETRYABLE:
                wanted = retry_after(answer.headers.get("Retry-After"))
                raise TransientError(self._silent(reason(answer)), wanted)
            if answer.is_error and answer.status_code not in {_NOT_FOUND, accept}:
                raise RefusedError(
                    f"the API server refused: {reason(answer)}",
                    where=f"{method} {path}",
                    hint="check what your account may do in the cluster",
                )
            return answer, attempt

        return with_retries(once, _POLICY, sleep=self._sleep, told=lambda *said: _LOG.debug("%s %s", method, said))

    def _silent(self, why: str) -> EngineError:
        return EngineError(
            f"the API server gives no answer: {why}",
            where=str(self._http.base_url),
            hint="check that the cluster runs; `encamp sandbox status` for the sandbox",
        )


def _stored(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as the server keeps it: a Secret's texts are encoded."""
    texts = manifest.get("stringData") or {}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    kept = {key: value for key, value in manifest.items() if key != "stringData"}
    return {**kept, "data": {**(kept.get("data") or {}), **encoded}} if encoded else kept


def _holds(there: Any, wanted: Any) -> bool:
    """Whether an object has all that is wanted, beside what the server has added."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(_holds(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        same = isinstance(there, list) and len(there) == len(wanted)
        return same and all(_holds(one, other) for one, other in zip(there, wanted, strict=True))
    return bool(there == wanted)


def collection(kind: str, namespace: str) -> str:
    """Return the path of all objects of a kind; with an empty namespace those of the whole cluster."""
    return f"{_PATHS[kind]}/namespaces/{namespace}/{kind}" if namespace else f"{_PATHS[kind]}/{kind}"


def parsed(answer: httpx.Response) -> dict[str, Any]:
    """Return the object or the list of an answer.

    Raises:
        EngineError: the answer is something else: a proxy on the way, or a server in trouble, sent it.
    """
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("metadata"), dict):
        return found
    text = " ".join(answer.text.split())[:_SHOWN_CHARACTERS]
    raise EngineError(
        f"{answer.status_code}, but the answer is no Kubernetes object: {text!r}",
        where=f"{answer.request.method} {answer.request.url.path}",
        hint="look at the cluster and at proxies on the way to it",
    )


def reason(answer: httpx.Response) -> str:
    """Return an error's status and what the API server says of it."""
    try:
        return f"{answer.status_code} {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.text[:300]}"
