"""What Cloud Storage refuses of a bucket beside its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from encamp.sandbox.cloud.gcp.model import Rule

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties

_LIFECYCLE = "cloud.google.com/storage/docs/lifecycle"
_LOCATIONS = "cloud.google.com/storage/docs/locations"
_KEYS = "cloud.google.com/storage/docs/encryption/customer-managed-keys#restrictions"
_RETENTION = "cloud.google.com/storage/docs/bucket-lock"
_SOFT_DELETE = "cloud.google.com/storage/docs/soft-delete#retention-duration"

_ACTIONS = ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")
_REGION = re.compile(r"(US|EU|ASIA)|[A-Z]+-[A-Z]+[0-9]+|[A-Z]{3,4}[0-9]+")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_LONGEST_RETENTION_SECONDS = 3_155_760_000
_SOFT_DELETE_SECONDS = (7 * 86400, 90 * 86400)


def _location(inputs: Properties, _: Context) -> Problem:
    given = str(inputs.get("location"))
    return None if _REGION.fullmatch(given.upper()) else f"The specified location constraint is not valid: {given}."


def _lifecycle(inputs: Properties, _: Context) -> Problem:
    for number, rule in enumerate(inputs.get("lifecycleRules") or ()):
        action = rule.get("action") or {}
        if action.get("type") not in _ACTIONS:
            return f"lifecycle_rule.{number}.action.type must be one of {list(_ACTIONS)}, got {action.get('type')}"
        if (action["type"] == "SetStorageClass") != bool(action.get("storageClass")):
            return f"lifecycle_rule.{number}: SetStorageClass alone takes a storage class, and has to"
        if not any(value not in (None, "", [], False) for value in (rule.get("condition") or {}).values()):
            return f"lifecycle_rule.{number}: at least one condition is required."
    return None


def _key(inputs: Properties, _: Context) -> Problem:
    given = (inputs.get("encryption") or {}).get("defaultKmsKeyName")
    if given is None:
        return None
    found = _KEY.fullmatch(str(given))
    if found is None:
        return f"'{given}' is no name of a Cloud KMS key."
    if found["location"].upper() != str(inputs.get("location")).upper():
        return f"The Cloud KMS key's location {found['location']} must be that of the bucket, {inputs.get('location')}."
    return None


def _retention(inputs: Properties, _: Context) -> Problem:
    period = (inputs.get("retentionPolicy") or {}).get("retentionPeriod")
    if period is None or 1 <= int(period) <= _LONGEST_RETENTION_SECONDS:
        return None
    return f"retention_period must be from 1 to {_LONGEST_RETENTION_SECONDS} seconds, got {period}"


def _soft_delete(inputs: Properties, _: Context) -> Problem:
    seconds = (inputs.get("softDeletePolicy") or {}).get("retentionDurationSeconds")
    least, most = _SOFT_DELETE_SECONDS
    if not seconds or least <= int(seconds) <= most:
        return None
    return f"retention_duration_seconds must be 0, or from {least} to {most}, got {seconds}"


BUCKET_RULES: Final = (
    Rule("location", _LOCATIONS, ("location",), _location, api=True),
    Rule("lifecycle", _LIFECYCLE, ("lifecycleRules",), _lifecycle, api=True),
    Rule("key", _KEYS, ("encryption", "location"), _key, api=True),
    Rule("retention", _RETENTION, ("retentionPolicy",), _retention, api=True),
    Rule("soft delete", _SOFT_DELETE, ("softDeletePolicy",), _soft_delete, api=True),
)
