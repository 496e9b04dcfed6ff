"""What the clouds list of a job: each service's own listing, and every kind of thing that the sandbox's cloud knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from encamp.kinds.objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.front import Front

PROJECT = "sandbox-encamp"
BUCKET = f"{PROJECT}-artifacts"
NAMESPACE = "encamp-jobs"
CLUSTER = f"projects/{PROJECT}/locations/us-central1/clusters/encamp"
_OBJECTS = {
    **{kind.word: f"{kind.path}/namespaces/{NAMESPACE}/{kind.plural}" for kind in OBJECTS},
    "secret": f"/api/v1/namespaces/{NAMESPACE}/secrets",
}
#: Kinds of the cloud's own book-keeping: an operation stays listed after it is done.
_HISTORY = ("operation",)


def listed(front: Front, job: str, foreign: str) -> list[str]:
    """Everything whose name holds the job's, less what begins with ``foreign``."""
    return sorted(
        {f"{kind} {name}" for kind, name in _named(front) if job in name and not _short(name).startswith(foreign)}
    )


def _named(front: Front) -> Iterator[tuple[str, str]]:
    for bucket in front.pages("/storage/v1/b", "items", project=PROJECT):
        yield "bucket", bucket["name"]
    for pool in (front.google("GET", f"/container/v1/{CLUSTER}/nodePools") or {}).get("nodePools", []):
        yield "node pool", pool["name"]
    for account in front.pages(f"/iam/v1/projects/{PROJECT}/serviceAccounts", "accounts", pageSize="100"):
        yield "service account", account["email"]
    yield from _members(front)
    for resource in front.pages("/encamp/v1/resources", "resources"):
        if resource["kind"] not in _HISTORY:
            yield resource["kind"], resource["name"]
    for kind, path in _OBJECTS.items():
        for found in (front.kubernetes("GET", path) or {}).get("items", []):
            yield kind, found["metadata"]["name"]


def _members(front: Front) -> Iterator[tuple[str, str]]:
    for where, policy in (
        ("project", front.google("POST", f"/cloudresourcemanager/v1/projects/{PROJECT}:getIamPolicy", json={})),
        ("bucket", front.google("GET", f"/storage/v1/b/{BUCKET}/iam")),
    ):
        for binding in (policy or {}).get("bindings", []):
            for member in binding["members"]:
                yield f"binding of the {where} {binding['role']}", member


def kept(front: Front, job: str, name: str) -> dict[str, Any] | None:
    """A JSON object below ``jobs/<job>/`` of the artifacts bucket, None where it is not there."""
    text = stored(front, f"gs://{BUCKET}/jobs/{job}/{name}")
    return None if text is None else json.loads(text)


def stored(front: Front, uri: str) -> str | None:
    """The text of ``gs://BUCKET/NAME``, None where it is not there."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    return front.text(f"/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}")


def _short(name: str) -> str:
    """The last part of a full name, a service account's without its project."""
    return name.rpartition("/")[2].partition("@")[0]
