"""Buckets and objects, which the storage server keeps."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.gcp.bucket_rules import BUCKET_RULES
from encamp.sandbox.cloud.gcp.common import DELETION_POLICY, PROJECT, given, label_outputs, labels_rule
from encamp.sandbox.cloud.gcp.kms_types import key_use_rule
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule, choice_rule, pattern_rule
from encamp.sandbox.cloud.policies import bucket_policy_name
from encamp.sandbox.project import project_number
from encamp.sandbox.provider import Archive, Asset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_BUCKETS = "cloud.google.com/storage/docs/json_api/v1/buckets"
_CHUNK = 1 << 20
_CONFLICT, _MISSING = 409, 404


def _bucket_body(inputs: Properties, context: Context) -> dict[str, Any]:
    """The bucket as the storage API takes it."""
    access: dict[str, Any] = {"uniformBucketLevelAccess": {"enabled": bool(inputs.get("uniformBucketLevelAccess"))}}
    if inputs.get("publicAccessPrevention"):
        access["publicAccessPrevention"] = inputs["publicAccessPrevention"]
    body: dict[str, Any] = {
        "name": inputs["name"],
        "location": inputs["location"],
        "storageClass": inputs.get("storageClass") or "STANDARD",
        "labels": label_outputs(inputs, "labels", context)["effectiveLabels"],
        "iamConfiguration": access,
    }
    if inputs.get("versioning"):
        body["versioning"] = {"enabled": bool(inputs["versioning"].get("enabled"))}
    if inputs.get("lifecycleRules"):
        body["lifecycle"] = {"rule": [_lifecycle(rule) for rule in inputs["lifecycleRules"]]}
    for key in ("softDeletePolicy", "retentionPolicy", "logging", "encryption", "website", "autoclass"):
        if inputs.get(key):
            body[key] = inputs[key]
    if inputs.get("cors"):
        body["cors"] = inputs["cors"]
    return body


def _lifecycle(rule: dict[str, Any]) -> dict[str, Any]:
    return {"action": rule.get("action"), "condition": rule.get("condition")}


def _found(inputs: Properties, shown: dict[str, Any]) -> dict[str, Any]:
    """What the bucket has now of what was written, where the two differ; labels of others are nobody's change."""
    access, labels = shown["iamConfiguration"], shown.get("labels") or {}
    now = {
        "labels": {key: labels[key] for key in inputs.get("labels") or {} if key in labels},
        "lifecycleRules": (shown.get("lifecycle") or {}).get("rule", []),
        "publicAccessPrevention": access.get("publicAccessPrevention", "inherited"),
        "storageClass": shown["storageClass"],
        "uniformBucketLevelAccess": access["uniformBucketLevelAccess"]["enabled"],
        "versioning": shown.get("versioning") or {"enabled": False},
    }
    return {key: value for key, value in now.items() if inputs.get(key) not in (None, value)}


class _BucketBackend:
    """Buckets."""

    def name(self, inputs: Properties, context: Context) -> str:
        """Give the full name."""
        del context
        return bucket_policy_name(inputs["name"])

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it, with no policy left over from one of the same name."""
        shown = await context.storage.create_bucket(_bucket_body(inputs, context))
        context.cloud.policies.drop(bucket_policy_name(inputs["name"]))
        return self._made(inputs, shown, context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it."""
        shown = await context.storage.bucket(resource_id)
        if shown is None:
            return None
        imported = {"name": resource_id, "location": shown["location"], "labels": shown.get("labels") or {}}
        kept = {**inputs, **_found(inputs, shown)} if inputs else imported
        return self._made(kept, shown, context)

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Change it in place."""
        del olds
        shown = await context.storage.update_bucket(resource_id, _bucket_body(news, context))
        return self._made(news, shown, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it, with all that lies in it if that was asked for."""
        if await context.storage.bucket(resource_id) is None:
            return
        if inputs.get("forceDestroy"):
            await context.storage.empty_bucket(resource_id)
        try:
            await context.storage.delete_bucket(resource_id)
        except GoogleError as error:
            if error.code == _CONFLICT and not inputs.get("forceDestroy"):
                message = (
                    f"Error trying to delete bucket {resource_id} containing objects"
                    " without `force_destroy` set to true"
                )
                raise GoogleError(_CONFLICT, message, reason="conflict") from error
            if error.code != _MISSING:
                raise
        context.cloud.policies.drop(bucket_policy_name(resource_id))

    def _made(self, inputs: Properties, shown: dict[str, Any], context: Context) -> Made:
        name = inputs["name"]
        outputs = {
            "forceDestroy": False,
            "publicAccessPrevention": "inherited",
            "requesterPays": False,
            "project": context.project,
            **given(inputs),
            **label_outputs(inputs, "labels", context),
            "location": shown["location"],
            "storageClass": shown["storageClass"],
            "uniformBucketLevelAccess": shown["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"],
            "url": f"gs://{name}",
            "selfLink": shown["selfLink"],
            "projectNumber": int(project_number(context.project)),
            "timeCreated": shown["timeCreated"],
            "updated": shown["updated"],
        }
        return Made(name, outputs, given(inputs))


BUCKET: Final = ResourceType(
    "gcp:storage/bucket:Bucket",
    wheel=("pulumi_gcp.storage", "Bucket"),
    backend=_BucketBackend(),
    required=("location",),
    immutable=(
        "name", "project", "location", "customPlacementConfig", "enableObjectRetention", "hierarchicalNamespace",
    ),
    computed=("url", "selfLink", "projectNumber", "timeCreated", "updated", "effectiveLabels", "pulumiLabels"),
    rules=(
        PROJECT,
        DELETION_POLICY,
        labels_rule("labels"),
        pattern_rule(
            "name", "name", r"(?!goog)(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]",
            "cloud.google.com/storage/docs/buckets#naming",
            "must be 3 to 63 lowercase letters, digits, -, _ and . that begin and end with a letter or digit",
        ),
        choice_rule(
            "storage class", "storageClass",
            ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL"), _BUCKETS,
        ),
        choice_rule("public access", "publicAccessPrevention", ("inherited", "enforced"), _BUCKETS),
        *BUCKET_RULES,
        key_use_rule(
            "storage", "encryption", lambda inputs: (inputs.get("encryption") or {}).get("defaultKmsKeyName"),
            "cloud.google.com/storage/docs/encryption/using-customer-managed-keys#prereqs",
        ),
    ),
    autoname="name",
    labels="labels",
)  # fmt: skip

_PROVIDER = (
    "github.com/hashicorp/terraform-provider-google/blob/main/website/docs/r/storage_bucket_object.html.markdown"
)
_OBJECTS = "cloud.google.com/storage/docs/json_api/v1/objects"
_METADATA = (
    "cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType", "storageClass",
    "eventBasedHold", "temporaryHold", "metadata",
)  # fmt: skip


async def _content(inputs: Properties) -> AsyncIterator[bytes]:
    """The bytes of an object: its ``content``, or the text or the file of its ``source``."""
    source = inputs.get("source")
    if source is None:
        yield str(inputs.get("content") or "").encode()
        return
    if isinstance(source, Asset) and source.text is not None:
        yield source.text.encode()
        return
    path = Path(source.path) if isinstance(source, Asset | Archive) and source.path else None
    if path is None or not path.is_file():
        raise GoogleError(
            400, "source has to be a file or a text: the sandbox packs no folders and fetches no addresses"
        )
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


class _ObjectBackend:
    """Objects."""

    def name(self, inputs: Properties, context: Context) -> str:
        """Give the full name."""
        del context
        return f"{bucket_policy_name(inputs['bucket'])}/objects/{inputs['name']}"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Upload it; what had the name before is replaced, as on Google Cloud."""
        metadata = {key: inputs[key] for key in _METADATA if inputs.get(key) is not None}
        metadata.setdefault("contentType", _content_type(inputs))
        metadata["name"] = inputs["name"]
        shown = await context.storage.upload(inputs["bucket"], metadata, _content(inputs))
        return self._made(inputs, shown)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it; an import names it ``bucket/name``."""
        bucket, _, name = resource_id.partition("/")
        kept = inputs or {"bucket": bucket, "name": name}
        shown = await context.storage.object(kept["bucket"], kept["name"])
        return self._made(kept, shown) if shown else None

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Upload it again if its bytes have changed, else change its metadata."""
        del resource_id
        if (olds.get("source"), olds.get("content")) != (news.get("source"), news.get("content")):
            return await self.create(news, context)
        metadata = {key: news[key] for key in _METADATA if news.get(key) is not None}
        metadata.setdefault("contentType", _content_type(news))
        return self._made(news, await context.storage.update_object(news["bucket"], news["name"], metadata))

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it."""
        del resource_id
        try:
            await context.storage.delete_object(inputs["bucket"], inputs["name"])
        except GoogleError as error:
            if error.code != _MISSING:
                raise

    def _made(self, inputs: Properties, shown: dict[str, Any]) -> Made:
        md5 = shown.get("md5Hash", "")
        outputs = {
            **given(inputs),
            "contentType": shown.get("contentType", ""),
            "storageClass": shown["storageClass"],
            "outputName": shown["name"],
            "md5hash": md5,
            "md5hexhash": base64.b64decode(md5).hex(),
            "crc32c": shown["crc32c"],
            "generation": int(shown["generation"]),
            "mediaLink": shown["mediaLink"],
            "selfLink": shown["selfLink"],
            "kmsKeyName": "",
            "detectMd5hash": "different hash",
        }
        return Made(f"{inputs['bucket']}-{inputs['name']}", outputs, given(inputs))


def _content_type(inputs: Properties) -> str:
    text = inputs.get("source") is None or (isinstance(inputs["source"], Asset) and inputs["source"].text is not None)
    return "text/plain; charset=utf-8" if text else "application/octet-stream"


def _one_source(inputs: Properties, _: Context) -> Problem:
    if (inputs.get("source") is None) == (inputs.get("content") is None):
        return "exactly one of content and source has to be given"
    return None


def _object_name(inputs: Properties, _: Context) -> Problem:
    name = str(inputs.get("name") or "")
    if not name or len(name.encode()) > 1024 or "\r" in name or "\n" in name or name in (".", ".."):  # noqa: PLR2004
        return "an object's name is 1 to 1024 bytes of UTF-8 without line ends, and not . or .."
    return None


BUCKET_OBJECT: Final = ResourceType(
    "gcp:storage/bucketObject:BucketObject",
    wheel=("pulumi_gcp.storage", "BucketObject"),
    backend=_ObjectBackend(),
    required=("bucket",),
    immutable=("name", "bucket", "kmsKeyName", "customerEncryption"),
    computed=("outputName", "md5hash", "md5hexhash", "crc32c", "generation", "mediaLink", "selfLink"),
    rules=(
        DELETION_POLICY,
        Rule("source", _PROVIDER, ("source", "content"), _one_source),
        Rule("name", "cloud.google.com/storage/docs/objects#naming", ("name",), _object_name),
        choice_rule(
            "storage class", "storageClass",
            ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL"), _OBJECTS,
        ),
    ),
    autoname="name",
)  # fmt: skip
