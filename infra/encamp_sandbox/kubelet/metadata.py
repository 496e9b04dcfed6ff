"""GKE's metadata server, as pods with Workload Identity see it at metadata.google.internal.

It knows the pod by its address, the pod's Kubernetes ServiceAccount by the pod, and the Google service account by
the annotation ``iam.gke.io/gcp-service-account``; without one the pod is the Kubernetes account itself, a federated
principal that goes by the name of the workload pool. Source: cloud.google.com/compute/docs/metadata/querying-metadata
and cloud.google.com/kubernetes-engine/docs/concepts/workload-identity.

Beliefs: metadata-wants-its-header, metadata-says-who-the-pod-is, metadata-gives-tokens, metadata-names-the-cluster,
metadata-names-the-zone, metadata-names-the-project.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.kubelet.server import Answer, Request, serve
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from encamp_sandbox.kubelet.api import Api
    from encamp_sandbox.kubelet.front import Front
    from encamp_sandbox.lies.inside import InsideLies

_LOG = logging.getLogger(__name__)
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "GKE Metadata Server"}
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/userinfo.email")
_ROOT = "/computeMetadata/v1"
_ANNOTATION = "iam.gke.io/gcp-service-account"


class MetadataServer:
    """Answers pods.

    Args:
        pod_at: gives the pod that has an address, None if none has it.
        node: gives the labels of a node by its name.
        lies: what is to be answered otherwise, see ``sandbox.lies``.
    """

    def __init__(
        self,
        api: Api,
        front: Front,
        pod_at: Callable[[str], Mapping[str, Any] | None],
        node: Callable[[str], Mapping[str, Any]],
        lies: InsideLies,
    ) -> None:
        self._api = api
        self._front = front
        self._pod_at = pod_at
        self._node = node
        self._lies = lies

    async def serve_one(self, listener: socket.socket, pod: Callable[[], Mapping[str, Any]]) -> asyncio.Server:
        """Serve one pod on a socket of its own, where pods have no addresses of their own."""

        async def handler(request: Request) -> Answer:
            return await self.answer(request, pod())

        return await asyncio.start_server(partial(serve, handler), sock=listener)

    async def answer(self, request: Request, pod: Mapping[str, Any] | None = None) -> Answer:
        """Answer one request; ``pod`` is who asks, found by the address where it is not known."""
        path = request.path.rstrip("/")
        if path in ("", "/computeMetadata"):
            return _text("computeMetadata/\n")
        if request.headers.get("metadata-flavor") != "Google" and self._lies.needs_header():
            return Answer(403, b"Missing Metadata-Flavor:Google header.\n", headers=_FLAVOR)
        pod = pod or self._pod_at(request.peer)
        if pod is None or not path.startswith(_ROOT):
            return _missing(path if pod else f"a pod with the address {request.peer}")
        try:
            answer = await self._value(path.removeprefix(_ROOT).strip("/").split("/"), request, pod)
            text = answer.body if isinstance(answer.body, bytes) else b""
            return replace(answer, body=self._lies.text(path, answer.status, text))
        except httpx.HTTPStatusError as error:
            _LOG.warning("token for %s: %s", pod["metadata"]["name"], error.response.text[:300])
            return Answer(error.response.status_code, error.response.content, headers=_FLAVOR)
        except httpx.HTTPError as error:
            return Answer(503, f"the sandbox's cloud does not answer: {error}\n".encode(), headers=_FLAVOR)

    async def _value(self, parts: list[str], request: Request, pod: Mapping[str, Any]) -> Answer:
        if parts[:2] == ["instance", "service-accounts"]:
            return await self._accounts(parts[2:], request, pod)
        tree = self._tree(pod)
        found: Any = tree
        for part in parts:
            found = found.get(part) if isinstance(found, dict) and part else (found if not part else None)
        if found is None:
            return _missing("/".join(parts))
        if isinstance(found, dict):
            if request.query.get("recursive", "").lower() == "true":
                return _json(_camel(found))
            return _text("".join(f"{name}{'/' if isinstance(value, dict) else ''}\n" for name, value in found.items()))
        return _text(str(found))

    def _tree(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        node_name = pod["spec"].get("nodeName", "")
        node = self._node(node_name)
        labels = (node.get("metadata") or {}).get("labels") or {}
        full = ((node.get("metadata") or {}).get("annotations") or {}).get("sandbox.encamp.dev/node-pool", "")
        parts = full.split("/")
        zone = labels.get("topology.kubernetes.io/zone", "")
        number = project_number(self._front.project)
        attributes = {"cluster-name": parts[5], "cluster-location": parts[3]} if len(parts) > 5 else {}  # noqa: PLR2004
        return {
            "instance": {
                "attributes": {**attributes, "cluster-uid": ""},
                "hostname": f"{node_name}.c.{self._front.project}.internal",
                "name": node_name,
                "id": str(int.from_bytes(node_name.encode()[-7:], "big")),
                "zone": f"projects/{number}/zones/{zone}",
                "machine-type": f"projects/{number}/machineTypes/{labels.get('node.kubernetes.io/instance-type', '')}",
            },
            "project": {"project-id": self._front.project, "numeric-project-id": number},
        }

    async def _accounts(self, parts: list[str], request: Request, pod: Mapping[str, Any]) -> Answer:
        email = await self._email(pod)
        recursive = request.query.get("recursive", "").lower() == "true"
        parts = [part for part in parts if part]
        if not parts:
            return (
                _json({name: _account(email) for name in ("default", email)})
                if recursive
                else _text(f"default/\n{email}/\n")
            )
        if parts[0] not in ("default", email):
            return _missing(parts[0])
        if parts[1:] == ["token"]:
            wanted = [scope for scope in request.query.get("scopes", "").split(",") if scope]
            return await self._token(pod, email, wanted)
        if parts[1:] == [] and recursive:
            return _json(_account(email))
        texts: dict[tuple[str, ...], str] = {
            (): "aliases\nemail\nidentity\nscopes\ntoken\n",
            ("email",): email,
            ("aliases",): "default",
            ("scopes",): "".join(f"{scope}\n" for scope in _SCOPES),
        }
        text = texts.get(tuple(parts[1:]))
        return _missing("/".join(parts)) if text is None else _text(text)

    async def _token(self, pod: Mapping[str, Any], email: str, scopes: list[str]) -> Answer:
        if email == self._pool:
            token = await self._front.workload_token(*_kubernetes_account(pod))
        else:
            token = await self._front.access_token(email, scopes or _SCOPES)
        left = datetime.fromisoformat(token["expireTime"]) - datetime.now(UTC)
        seconds = max(int(left.total_seconds()), 0)
        return _json({"access_token": token["accessToken"], "expires_in": seconds, "token_type": "Bearer"})

    async def _email(self, pod: Mapping[str, Any]) -> str:
        """Return the Google service account of a pod; the workload pool's own identity where its account names none."""
        namespace, name = _kubernetes_account(pod)
        found = await self._api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}") or {"metadata": {}}
        annotated = (found["metadata"].get("annotations") or {}).get(_ANNOTATION)
        return annotated or self._pool

    @property
    def _pool(self) -> str:
        return f"{self._front.project}.svc.id.goog"


def _kubernetes_account(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"


def _account(email: str) -> dict[str, Any]:
    return {"aliases": ["default"], "email": email, "scopes": list(_SCOPES)}


def _camel(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names as the recursive form has them: camel case but for attributes."""
    out = {}
    for name, value in tree.items():
        first, *rest = name.split("-")
        key = first + "".join(word.title() for word in rest)
        out[key] = value if name == "attributes" else _camel(value) if isinstance(value, dict) else value
    return out


def _text(text: str) -> Answer:
    return Answer(body=text.encode(), content_type="application/text", headers=_FLAVOR)


def _json(data: Any) -> Answer:
    return Answer(body=json.dumps(data).encode(), content_type="application/json", headers=_FLAVOR)


def _missing(path: str) -> Answer:
    return Answer(404, f"{path}: not found\n".encode(), headers=_FLAVOR)
