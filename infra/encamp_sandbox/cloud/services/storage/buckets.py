"""Rules and defaults of a bucket of Cloud Storage.

Defaults: belief ``storage-fills-buckets``. Source: cloud.google.com/storage/docs/json_api/v1/buckets.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.rest.rules import Change, Rule, choice, judge, labels
from encamp_sandbox.cloud.rest.values import default, merged
from encamp_sandbox.cloud.services.kms.use import key_use
from encamp_sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.rules import Problem

_ACTIONS = ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")
_CLASSES = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY")
_MULTI = ("US", "EU", "ASIA")
_PLACE = re.compile(r"(US|EU|ASIA)|[A-Z]+-[A-Z]+[0-9]+|[A-Z]{3,4}[0-9]+")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_NAME = re.compile(r"(?!goog)(?!.*\.\.)[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_LONGEST_RETENTION_SECONDS = 3_155_760_000
_SOFT_DELETE_SECONDS = (7 * 86400, 90 * 86400)


def _name(change: Change) -> Problem:
    name = change.name.rpartition("/")[2]
    return None if _NAME.fullmatch(name) else f"Invalid bucket name: '{name}'"


def _location(change: Change) -> Problem:
    given = str(change.at("location") or "US")
    return None if _PLACE.fullmatch(given.upper()) else f"The specified location constraint is not valid: {given}."


def _lifecycle(change: Change) -> Problem:
    for number, rule in enumerate(change.at("lifecycle.rule") or ()):
        action = rule.get("action") or {}
        if action.get("type") not in _ACTIONS:
            return f"lifecycle_rule.{number}.action.type must be one of {list(_ACTIONS)}, got {action.get('type')}"
        if (action["type"] == "SetStorageClass") != bool(action.get("storageClass")):
            return f"lifecycle_rule.{number}: SetStorageClass alone takes a storage class, and has to"
        if not any(value not in (None, "", [], False) for value in (rule.get("condition") or {}).values()):
            return f"lifecycle_rule.{number}: at least one condition is required."
    return None


def _key(change: Change) -> Problem:
    given = change.at("encryption.defaultKmsKeyName")
    if not given:
        return None
    found = _KEY.fullmatch(str(given))
    if found is None:
        return f"'{given}' is no name of a Cloud KMS key."
    place = str(change.at("location") or "US")
    if found["location"].upper() != place.upper():
        return f"The Cloud KMS key's location {found['location']} must be that of the bucket, {place}."
    return None


def _retention(change: Change) -> Problem:
    period = change.at("retentionPolicy.retentionPeriod")
    if period is None or 1 <= int(period) <= _LONGEST_RETENTION_SECONDS:
        return None
    return f"retention_period must be from 1 to {_LONGEST_RETENTION_SECONDS} seconds, got {period}"


def _soft_delete(change: Change) -> Problem:
    seconds = int(change.at("softDeletePolicy.retentionDurationSeconds") or 0)
    least, most = _SOFT_DELETE_SECONDS
    if not seconds or least <= seconds <= most:
        return None
    return f"retention_duration_seconds must be 0, or from {least} to {most}, got {seconds}"


RULES: Final = (
    Rule("storage-bucket-names", _name, reason="invalid"),
    Rule("storage-locations", _location, reason="invalid"),
    labels(),
    choice("storage-classes", "storageClass", _CLASSES),
    choice(
        "storage-public-access", "iamConfiguration.publicAccessPrevention", ("inherited", "enforced", "unspecified")
    ),
    Rule("storage-lifecycle", _lifecycle, reason="invalid"),
    Rule("storage-key-in-the-location", _key, reason="invalid"),
    Rule("storage-retention", _retention, reason="invalid"),
    Rule("storage-soft-delete-7-to-90-days", _soft_delete, reason="invalid"),
    key_use("storage", "encryption.defaultKmsKeyName"),
)


def new_bucket(cloud: Cloud, body: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a bucket and fill it in.

    Raises:
        GoogleError: Cloud Storage refuses it.
    """
    bucket = deepcopy({key: value for key, value in body.items() if value is not None})
    name = str(bucket.get("name") or "")
    judge(RULES, Change(cloud, f"projects/_/buckets/{name}", bucket, given=body))
    bucket["location"] = str(bucket.get("location") or "US").upper()
    multi = bucket["location"] in _MULTI
    default(
        bucket,
        {
            "storageClass": "STANDARD",
            "projectNumber": cloud.number,
            "locationType": "multi-region" if multi else "region",
            "rpo": "DEFAULT" if multi else None,
            "iamConfiguration.uniformBucketLevelAccess.enabled": False,
            "iamConfiguration.publicAccessPrevention": "inherited",
            "softDeletePolicy.retentionDurationSeconds": str(_SOFT_DELETE_SECONDS[0]),
        },
    )
    return _stamped(bucket)


def changed_bucket(cloud: Cloud, present: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a patch of a bucket; gives the patch as the storage server takes it.

    Raises:
        GoogleError: Cloud Storage refuses it.
    """
    change = Change(cloud, f"projects/_/buckets/{present['name']}", merged(present, patch), before=present, given=patch)
    judge(RULES, change)
    return _stamped(deepcopy(dict(patch)))


def _stamped(bucket: dict[str, Any]) -> dict[str, Any]:
    """Return texts and times as the API writes them; an empty lifecycle is none."""
    soft = bucket.get("softDeletePolicy")
    if soft:
        soft["retentionDurationSeconds"] = str(soft.get("retentionDurationSeconds") or 0)
        soft["effectiveTime"] = timestamp()
    retention = bucket.get("retentionPolicy")
    if retention:
        retention["retentionPeriod"] = str(retention.get("retentionPeriod"))
        default(retention, {"effectiveTime": timestamp()})
    if "lifecycle" in bucket and not (bucket["lifecycle"] or {}).get("rule"):
        bucket["lifecycle"] = None
    return bucket
