"""Buckets and objects of Cloud Storage.

Source: hashicorp/terraform-provider-google-beta google-beta/services/storage.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, Made, ResourceType
from encamp_sandbox.provider import Archive, Asset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from encamp.property_paths import Path as PropertyPath
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_CHUNK = 1 << 20
_CONFLICT, _MISSING = 409, 404


def _bucket_path(name: object) -> str:
    return f"/storage/v1/b/{quote(str(name), safe='')}"


class _Buckets(ResourceType):
    """Buckets, which may be emptied before they are deleted."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the bucket in the project."""
        body = self.mapping.body(self.schema.fields, inputs)
        self._label(body, self._new_labels(inputs, context))
        body["lifecycle"] = {"rule": (body.get("lifecycle") or {}).get("rule") or []}
        query = {"project": context.project_of(inputs)}
        await context.rest.call("POST", "/storage/v1/b", context.patience, body=body, query=query)
        return await self.found(str(inputs["name"]), inputs, context)

    def path(self, name: str) -> str:
        """Return the URL path of a bucket."""
        return _bucket_path(name)

    async def send(self, name: str, body: Body, fields: list[str], outputs: Properties, context: Context) -> None:
        """Patch the bucket; null takes a field away, and so it does a label."""
        patch: Body = {field: body.get(field) for field in fields}
        if "labels" in patch:
            gone = dict.fromkeys(outputs.get("effectiveLabels") or {})
            patch["labels"] = {**gone, **(body.get("labels") or {})}
        await context.rest.call("PATCH", self.path(name), context.patience, body=patch)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete the bucket, with all that lies in it if that was asked for."""
        if inputs.get("forceDestroy"):
            await self._empty(resource_id, context)
        try:
            await super().delete(resource_id, inputs, context)
        except GoogleError as error:
            if error.code != _CONFLICT or inputs.get("forceDestroy"):
                raise
            message = (
                f"Error trying to delete bucket {resource_id} containing objects without `force_destroy` set to true"
            )
            raise GoogleError(_CONFLICT, message, reason="conflict") from error

    async def _empty(self, bucket: str, context: Context) -> None:
        """Delete every version of every object."""
        path = f"{_bucket_path(bucket)}/o"
        while True:
            page = await context.rest.find(path, context.patience, {"versions": "true"})
            items = (page or {}).get("items") or ()
            if not items:
                return
            for item in items:
                query = {"generation": str(item["generation"])}
                one = f"{path}/{quote(item['name'], safe='')}"
                try:
                    await context.rest.call("DELETE", one, context.patience, query=query)
                except GoogleError as error:
                    if error.code != _MISSING:
                        raise


def _condition_out(condition: Body) -> Body:
    """Return a lifecycle condition with its state as the API's flag ``isLive``."""
    state = condition.pop("withState", None)
    return {**condition, **({} if state in (None, "ANY") else {"isLive": state == "LIVE"})}


def _condition_in(condition: Body) -> Body:
    live = condition.get("isLive")
    return {**condition, "withState": "ANY" if live is None else "LIVE" if live else "ARCHIVED"}


def _show_bucket(answer: Body, inputs: Properties, _context: Context) -> Body:
    rules = (answer.get("lifecycle") or {}).get("rule")
    return {
        "url": f"gs://{answer['name']}",
        "projectNumber": int(answer["projectNumber"]) if answer.get("projectNumber") else None,
        "versioning": {"enabled": bool((answer.get("versioning") or {}).get("enabled"))},
        "requesterPays": bool((answer.get("billing") or {}).get("requesterPays")),
        "forceDestroy": bool(inputs.get("forceDestroy")),
        **({} if rules else {"lifecycleRules": []}),
    }


_RULE = "lifecycleRules"
BUCKET: Final = _Buckets(
    "gcp:storage/bucket:Bucket",
    "storage/v1",
    lambda _inputs, _context: "b",
    TypeMapping(
        names={
            _RULE: "lifecycle.rule",
            f"{_RULE}.condition.matchesPrefixes": "matchesPrefix",
            f"{_RULE}.condition.matchesSuffixes": "matchesSuffix",
            f"{_RULE}.condition.matchesStorageClasses": "matchesStorageClass",
            "cors": "cors",
            "cors.maxAgeSeconds": "maxAgeSeconds",
            "cors.methods": "method",
            "cors.origins": "origin",
            "cors.responseHeaders": "responseHeader",
            "publicAccessPrevention": "iamConfiguration.publicAccessPrevention",
            "uniformBucketLevelAccess": "iamConfiguration.uniformBucketLevelAccess.enabled",
            "requesterPays": "billing.requesterPays",
            "enableObjectRetention": "objectRetention",
        },
        longs=frozenset({"softDeletePolicy.retentionDurationSeconds"}),
        out={
            f"{_RULE}.condition": _condition_out,
            "enableObjectRetention": lambda on: {"mode": "Enabled"} if on else None,
        },
        into={f"{_RULE}.condition": _condition_in},
        own=frozenset({"project", "deletionPolicy", "forceDestroy", "enableObjectRetention"}),
    ),
    show=_show_bucket,
    change=Change.PATCH,
    labels="labels",
    suppress={"location": lambda old, new: str(old).upper() == str(new).upper()},
)


async def _content(inputs: Properties) -> AsyncIterator[bytes]:
    """Yield the bytes of an object: its ``content``, or the text or the file of its ``source``."""
    source = inputs.get("source")
    if source is None:
        yield str(inputs.get("content") or "").encode()
        return
    if isinstance(source, Asset) and source.text is not None:
        yield source.text.encode()
        return
    path = Path(source.path) if isinstance(source, Asset | Archive) and source.path else None
    if path is None or not path.is_file():
        text = "source has to be a file or a text: the sandbox packs no folders and fetches no addresses"
        raise GoogleError(400, text)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _content_type(inputs: Properties) -> str:
    text = inputs.get("source") is None or (isinstance(inputs["source"], Asset) and inputs["source"].text is not None)
    return "text/plain; charset=utf-8" if text else "application/octet-stream"


class _Objects(ResourceType):
    """Objects; one of the same name is written over."""

    def _object(self, inputs: Properties) -> str:
        return f"{_bucket_path(inputs['bucket'])}/o/{quote(str(inputs['name']), safe='')}"

    def _metadata(self, inputs: Properties) -> Body:
        left_out = (
            "bucket",
            "source",
            "content",
            "detectMd5hash",
            "sourceMd5hash",
            "kmsKeyName",
            "forceEmptyContentType",
        )
        given = {key: value for key, value in inputs.items() if key not in left_out}
        return {"contentType": _content_type(inputs), **self.mapping.body(self.schema.fields, given)}

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Upload the object."""
        path = f"/upload{_bucket_path(inputs['bucket'])}/o"
        await context.rest.upload(path, context.patience, self._metadata(inputs), lambda: _content(inputs))
        shown = await context.rest.call("GET", self._object(inputs), context.patience)
        return self._made(inputs, shown)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the object; an import names it ``bucket/name``."""
        bucket, _, name = resource_id.partition("/")
        kept = inputs or {"bucket": bucket, "name": name}
        shown = await context.rest.find(self._object(kept), context.patience)
        return self._made(kept, shown) if shown else None

    async def update(self, made: Made, inputs: Properties, changed: set[PropertyPath], context: Context) -> Made:
        """Upload the object again if its bytes have changed, else change its metadata."""
        del made
        if {str(path[0]) for path in changed} & {"source", "content", "sourceMd5hash"}:
            return await self.create(inputs, context)
        shown = await context.rest.call("PUT", self._object(inputs), context.patience, body=self._metadata(inputs))
        return self._made(inputs, shown)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete the object."""
        del resource_id
        try:
            await context.rest.call("DELETE", self._object(inputs), context.patience)
        except GoogleError as error:
            if error.code != _MISSING:
                raise

    def _made(self, inputs: Properties, shown: Body) -> Made:
        md5 = shown.get("md5Hash", "")
        outputs = {
            "detectMd5hash": "different hash",
            **inputs,
            "contentType": shown.get("contentType", ""),
            "storageClass": shown["storageClass"],
            "outputName": shown["name"],
            "md5hash": md5,
            "md5hexhash": base64.b64decode(md5).hex(),
            "crc32c": shown["crc32c"],
            "generation": int(shown["generation"]),
            "mediaLink": shown["mediaLink"],
            "selfLink": shown["selfLink"],
        }
        return Made(f"{inputs['bucket']}-{inputs['name']}", outputs)


def _check_object(inputs: Properties) -> list[tuple[str, str]]:
    name = inputs.get("name")
    found: list[tuple[str, str]] = []
    if isinstance(name, str) and (
        not name or len(name.encode()) > 1024 or "\r" in name or "\n" in name or name in (".", "..")  # noqa: PLR2004
    ):
        found.append(("name", "an object's name is 1 to 1024 bytes of UTF-8 without line ends, and not . or .."))
    if (inputs.get("source") is None) == (inputs.get("content") is None):
        found.append(("source", "exactly one of content and source has to be given"))
    return found


def _same_asset(old: Any, new: Any) -> bool:
    """Whether files are the same: they are while their hash is."""
    known = isinstance(old, Asset | Archive) and isinstance(new, Asset | Archive)
    return known and (old.hash or old) == (new.hash or new)


OBJECT: Final = _Objects(
    "gcp:storage/bucketObject:BucketObject",
    "storage/v1",
    lambda inputs, _context: f"b/{inputs['bucket']}/o",
    TypeMapping(own=frozenset({"deletionPolicy"})),
    suppress={"source": _same_asset, "detectMd5hash": lambda _old, _new: True},
    checks=_check_object,
)

STORAGE_TYPES: Final = (BUCKET, OBJECT)
