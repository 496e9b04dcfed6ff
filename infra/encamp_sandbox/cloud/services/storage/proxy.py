"""The front's way to the storage server: IAM first, then the bytes are handed through as they come.

Nothing is buffered but the head of an upload that names its object only in its body. What the storage server
does not know, buckets' IAM policies and projects, is answered here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import httpx
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response, StreamingResponse

from encamp_sandbox.cloud.calls import no_such_method
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.iam.methods import modified_roles, set_policy
from encamp_sandbox.cloud.iam.policies import bucket_policy_name
from encamp_sandbox.cloud.services.kms.use import service_agent
from encamp_sandbox.cloud.services.storage.asked import asked_of
from encamp_sandbox.cloud.services.storage.buckets import changed_bucket, new_bucket
from encamp_sandbox.cloud.services.storage.permissions import Need, Needs, json_path, needs_of
from encamp_sandbox.storage.errors import StorageError
from encamp_sandbox.storage.multipart import metadata_of
from encamp_sandbox.storage.transfer import BASE_HEADER, NO_OVERWRITE_HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from encamp_sandbox.cloud.calls import Call
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.faults import Asked, FaultError

_HEAD_BYTES = 1 << 20
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade"}
    | {"transfer-encoding", "host", "authorization", "expect", BASE_HEADER, NO_OVERWRITE_HEADER}
)
_POLICY_FIELDS = {"kind": "storage#policy"}
_BUCKET_PARTS = 4
_FEDERATED = ("principal://", "principalSet://")


class StorageProxy:
    """Serves storage.googleapis.com.

    Args:
        url: where the storage server is.
        token: the token that it expects.
        transport: another way to it than the network, for tests.
    """

    def __init__(self, cloud: Cloud, url: str, token: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._cloud = cloud
        self._access = cloud.access
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=20)
        timeout = httpx.Timeout(None, connect=5.0)
        self._client = httpx.AsyncClient(
            base_url=url, timeout=timeout, limits=limits, trust_env=False, transport=transport
        )
        self._token = token

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def asked(self, call: Call) -> Asked | None:
        """Return the operation that a call requests, in the words of faults."""
        return await asked_of(call)

    def failed(self, asked: Asked, error: FaultError) -> Response | None:
        """Return None: every fault refuses at once."""
        del asked, error
        return None

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        path = json_path(call.method, call.path) or call.path
        if path[:2] == ("storage", "v1") and path[2:3] == ("projects",):
            return self._agent(call, path)
        if path[:3] == ("storage", "v1", "b") and path[_BUCKET_PARTS : _BUCKET_PARTS + 1] == ("iam",):
            return await self._policy(call, path)
        needs = needs_of(call.method, path, call.query)
        if needs is None:
            raise no_such_method(call)
        stream = aiter(call.request.stream())
        head = b""
        if needs.named_in_body and not call.principal.admin:
            head = await _head(stream)
            needs = _named(needs, _name_in(head, call.request.headers.get("content-type", "")))
        if needs.sources_in_body and not call.principal.admin:
            head = await _head(stream)
            needs = _sourced(needs, head)
        overwrite = self._require(call, needs)
        collection = path == ("storage", "v1", "b")
        if collection and call.query.get("project", self._access.project) != self._access.project:
            raise GoogleError(403, f"The sandbox serves the project {self._access.project} only.")
        if collection and call.method == "POST":
            return await self._make(call, path)
        if path[:3] == ("storage", "v1", "b") and len(path) == _BUCKET_PARTS and call.method in ("PATCH", "PUT"):
            return await self._change(call, path)
        response = await self._send(call, path, _joined(head, stream), overwrite=overwrite)
        if call.method == "DELETE" and path[:3] == ("storage", "v1", "b") and len(path) == _BUCKET_PARTS:
            await self._forget(response, path[3])
        return response

    async def _make(self, call: Call, path: tuple[str, ...]) -> Response:
        """Make a bucket as judged and filled in, with no policy left over from one of the same name."""
        bucket = new_bucket(self._cloud, await call.json())
        response = await self._send(call, path, _whole(bucket), overwrite=True)
        await self._forget(response, bucket["name"])
        return response

    async def _change(self, call: Call, path: tuple[str, ...]) -> Response:
        """Change a bucket as judged."""
        patch = changed_bucket(self._cloud, await self._exists(path[3]), await call.json())
        return await self._send(call, path, _whole(patch), overwrite=True)

    def _require(self, call: Call, needs: Needs) -> bool:
        """Refuse what IAM refuses; whether the caller may replace an object that is there."""
        for need in needs.needs:
            if need.bucket:
                self._access.require_storage(call.principal, need.permission, need.bucket, need.name, need.prefix)
            else:
                self._access.require(call.principal, need.permission)
        if needs.target is None:
            return True
        return self._access.allows_storage(call.principal, "storage.objects.delete", *needs.target)

    async def _send(
        self, call: Call, path: tuple[str, ...], body: AsyncIterator[bytes] | bytes, *, overwrite: bool
    ) -> StreamingResponse:
        skipped = {*_HOP_BY_HOP, "content-length"} if isinstance(body, bytes) else _HOP_BY_HOP
        headers = [(key, value) for key, value in call.request.headers.items() if key not in skipped]
        headers += [("authorization", f"Bearer {self._token}"), (BASE_HEADER, call.base)]
        if not overwrite:
            headers.append((NO_OVERWRITE_HEADER, "1"))
        has_body = "content-length" in call.request.headers or "transfer-encoding" in call.request.headers
        url = (
            "/" + "/".join(quote(part, safe="") for part in path) + ("?" + urlencode(call.query) if call.query else "")
        )
        request = self._client.build_request(
            call.request.method, url, headers=headers, content=body if has_body else None
        )
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise GoogleError(503, "The storage server does not answer.") from error
        shown = [(key, value) for key, value in answer.headers.multi_items() if key not in _HOP_BY_HOP]
        response = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
        # In Title-Case: TensorFlow finds Location and Range under no other spelling.
        response.raw_headers = [(key.title().encode("latin-1"), value.encode("latin-1")) for key, value in shown]
        return response

    async def _forget(self, response: StreamingResponse, bucket: str) -> None:
        if response.status_code < 300:  # noqa: PLR2004 - HTTP's own number
            self._access.policies.drop(bucket_policy_name(bucket))

    async def _exists(self, bucket: str) -> dict[str, Any]:
        """Return the bucket, or 404."""
        headers = {"authorization": f"Bearer {self._token}"}
        try:
            answer = await self._client.get(f"/storage/v1/b/{quote(bucket, safe='')}", headers=headers)
        except httpx.HTTPError as error:
            raise GoogleError(503, "The storage server does not answer.") from error
        if answer.is_error:
            raise GoogleError(answer.status_code, "The specified bucket does not exist.")
        found: dict[str, Any] = answer.json()
        return found

    async def _policy(self, call: Call, path: tuple[str, ...]) -> Response:
        bucket = path[3]
        found = await self._exists(bucket)
        resource = bucket_policy_name(bucket)
        extra = {**_POLICY_FIELDS, "resourceId": resource}
        if path[-1] == "testPermissions":
            asked = call.request.query_params.getlist("permissions")
            given = [name for name in asked if self._access.allows_storage(call.principal, name, bucket)]
            return JSONResponse({"kind": "storage#testIamPermissionsResponse", "permissions": given})
        if call.method == "GET":
            self._access.require_storage(call.principal, "storage.buckets.getIamPolicy", bucket)
            return JSONResponse({**self._access.policies.show(resource), **extra})
        if call.method == "PUT":
            policy = await call.json()
            changed = modified_roles(self._access.policies.bindings(resource), policy)
            self._access.require_storage(call.principal, "storage.buckets.setIamPolicy", bucket, modified_roles=changed)
            _check_uniform(found, policy)
            return JSONResponse({**set_policy(self._cloud, resource, policy), **extra})
        raise no_such_method(call)

    def _agent(self, call: Call, path: tuple[str, ...]) -> Response:
        if path[3:] != (self._access.project, "serviceAccount"):
            raise no_such_method(call)
        email = service_agent("storage", self._access.project)
        return JSONResponse({"kind": "storage#serviceAccount", "email_address": email})


def _check_uniform(bucket: dict[str, Any], policy: dict[str, Any]) -> None:
    """Refuse a condition and a federated member on a bucket whose objects have access lists."""
    uniform = bucket["iamConfiguration"].get("uniformBucketLevelAccess") or {}
    if uniform.get("enabled"):
        return
    bindings = policy.get("bindings") or ()
    if any(str(member).startswith(_FEDERATED) for one in bindings for member in one.get("members") or ()):
        message = "Uniform bucket-level access must be enabled to grant federated identities access."
        raise GoogleError(400, message, belief="storage-federated-members-need-uniform-access")
    if any(one.get("condition") for one in bindings):
        message = "IAM conditions on a bucket require uniform bucket-level access to be enabled."
        raise GoogleError(400, message, belief="storage-conditions-need-uniform-access")


def _whole(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


async def _head(stream: AsyncIterator[bytes]) -> bytes:
    """Return the first megabyte of a body, or all of a shorter one."""
    head = bytearray()
    async for chunk in stream:
        head += chunk
        if len(head) >= _HEAD_BYTES:
            break
    return bytes(head)


async def _joined(head: bytes, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for chunk in stream:
        if chunk:
            yield chunk


def _name_in(head: bytes, content_type: str) -> str:
    try:
        body: Any = (
            metadata_of(head, content_type) if "multipart" in content_type else json.loads(head.strip() or b"{}")
        )
    except StorageError as error:
        raise GoogleError(error.code, error.message) from error
    except ValueError as error:
        raise GoogleError(400, "Parse Error") from error
    return str(body.get("name") or "") if isinstance(body, dict) else ""


def _sourced(needs: Needs, head: bytes) -> Needs:
    bucket = needs.target[0] if needs.target else ""
    try:
        names = [str(item["name"]) for item in json.loads(head)["sourceObjects"]]
    except (ValueError, KeyError, TypeError) as error:
        raise GoogleError(400, "Parse Error") from error
    sources = (Need("storage.objects.get", bucket, name) for name in names)
    return Needs((*sources, *needs.needs), needs.target)


def _named(needs: Needs, name: str) -> Needs:
    bucket = needs.target[0] if needs.target else ""
    return Needs((Need("storage.objects.create", bucket, name),), (bucket, name))
