"""Initial objects of the cluster: types and webhooks of JobSet and others, by server-side apply.

The webhooks are called where the controller listens on this machine, not as a Service of the cluster. An object that
carries the digest of what would be applied is left alone: applying JobSet's type costs the API server a second.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import hashlib
import json
import ssl
from typing import TYPE_CHECKING, Any

import httpx

from encamp.errors import SandboxError
from encamp_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from encamp_sandbox.layout import Layout

_MANAGER = "encamp-sandbox"
_DIGEST = "encamp.dev/applied-digest"
_NOT_FOUND = 404
_ESTABLISHED_SECONDS = 20.0
_PATHS = {
    "CustomResourceDefinition": "customresourcedefinitions",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "Namespace": "namespaces",
    "Secret": "secrets",
    "ClusterRoleBinding": "clusterrolebindings",
}
#: Kubernetes lets everybody ask for health and version; here only who has signed in may, since other users of this
#: machine reach the controllers' ports. The annotation keeps the API server from adding the others at its next start.
_RBAC = "rbac.authorization.k8s.io"
_PUBLIC_INFO: dict[str, Any] = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "system:public-info-viewer", "annotations": {f"{_RBAC}/autoupdate": "false"}},
    "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:public-info-viewer"},
    "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}],
}


#: Kinds of a chart that a controller outside of the cluster needs.
_OF_TYPES = ("CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def bootstrap_objects(layout: Layout, *manifests: Path) -> list[dict[str, Any]]:
    """Return the objects to apply, with the webhooks' addresses and a digest of each.

    Args:
        layout: the sandbox.
        manifests: a list of objects each, or a rendered chart, of which types and webhooks are wanted here.
    """
    authority = base64.b64encode(layout.ca_certificate.read_bytes()).decode()
    objects = []
    for file in manifests:
        kept = json.loads(file.read_text(encoding="utf-8"))
        for item in of_types(kept["objects"]) if isinstance(kept, dict) else kept:
            locate(item, layout.ports.jobset_webhook, authority)
            item.pop("status", None)
            objects.append(digested(item))
    return objects


def of_types(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a chart's types and webhooks: the cluster needs them if the controller is no pod of it."""
    return [item for item in objects if item["kind"] in _OF_TYPES]


def locate(item: dict[str, Any], port: int, authority: str) -> None:
    """Make the API server call an object's webhooks on this machine; ``authority`` is a certificate in base64."""
    conversion = item.get("spec", {}).get("conversion", {})
    clients = [hook["clientConfig"] for hook in item.get("webhooks", ())]
    if conversion.get("strategy") == "Webhook":
        clients.append(conversion["webhook"]["clientConfig"])
    for client in clients:
        path = client.pop("service")["path"]
        client |= {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": authority}


def digested(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a digest of itself, by which a later look knows that it is still the same."""
    digest = hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:16]
    item["metadata"].setdefault("annotations", {})[_DIGEST] = digest
    return item


async def bootstrap(layout: Layout, *manifests: Path) -> None:
    """Apply the objects of manifests and the sandbox's own rules; see :func:`apply_objects`."""
    await apply_objects(layout, [digested(copy.deepcopy(_PUBLIC_INFO)), *bootstrap_objects(layout, *manifests)])


async def apply_objects(layout: Layout, objects: list[dict[str, Any]]) -> None:
    """Apply objects, namespaces first, and wait until the API server serves their types.

    Raises:
        SandboxError: the API server refuses one, with its reason.
    """
    context = ssl.create_default_context(cafile=str(layout.ca_certificate))
    context.load_cert_chain(str(layout.pki / "admin.crt"), str(layout.pki / "admin.key"))
    server = f"https://{LOOPBACK}:{layout.ports.apiserver}"
    async with httpx.AsyncClient(base_url=server, verify=context, timeout=30, trust_env=False) as client:
        for first in (True, False):
            chosen = [item for item in objects if (item["kind"] == "Namespace") is first]
            await asyncio.gather(*(_apply(client, item) for item in chosen))
        await asyncio.gather(
            *(_established(client, item) for item in objects if item["kind"] == "CustomResourceDefinition")
        )


async def _apply(client: httpx.AsyncClient, item: dict[str, Any]) -> None:
    path = _path(item)
    found = await client.get(path)
    if found.status_code != _NOT_FOUND:
        annotations = found.raise_for_status().json()["metadata"].get("annotations", {})
        if annotations.get(_DIGEST) == item["metadata"]["annotations"][_DIGEST]:
            return
    answer = await client.patch(
        path,
        params={"fieldManager": _MANAGER, "force": "true"},
        headers={"Content-Type": "application/apply-patch+yaml"},
        content=json.dumps(item),
    )
    if answer.is_error:
        raise SandboxError(f"the API server refused it: {answer.text[:500]}", where=item["metadata"]["name"])


async def _established(client: httpx.AsyncClient, item: dict[str, Any]) -> None:
    async with asyncio.timeout(_ESTABLISHED_SECONDS):
        while True:
            status = (await client.get(_path(item))).json().get("status", {})
            if any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or []):
                return
            await asyncio.sleep(0.1)


def _path(item: dict[str, Any]) -> str:
    version, metadata = item["apiVersion"], item["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{within}/{_PATHS[item['kind']]}/{metadata['name']}"
