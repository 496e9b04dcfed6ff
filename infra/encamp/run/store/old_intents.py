"""Intents in the form that journals had of their own, before they kept a job's summary by the keys of stacks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from encamp.kinds.google import BUCKET, NODE_POOL
from encamp.spec.encamp import IdentityMode

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Keys of that form that differ from today's by more than their spelling.
_RENAMED = {"bucket": "artifactsBucket", "buckets": "grantedBuckets"}


def intent_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return an intent's data by today's keys; data that has them is returned as it is."""
    if "job_id" not in data:
        return dict(data)
    found = {_key(key): value for key, value in data.items() if key != "account"}
    has_account = data.get("account") or data.get("given_account")
    resources = data.get("resources") or ()
    scratch = [one["cloud"] for one in resources if (one["type"], one["name"]) == (BUCKET.token, "scratch")]
    return {
        **found,
        "jobSet": data.get("name"),
        "identityMode": str(IdentityMode.SERVICE_ACCOUNT if has_account else IdentityMode.DIRECT),
        "nodePools": [one["cloud"] for one in resources if one["type"] == NODE_POOL.token],
        "scratchBucket": scratch[0].removeprefix("gs://") if scratch else None,
    }


@cache
def _key(old: str) -> str:
    """Return today's key; cached, because the API reads tens of thousands of entries when it starts."""
    return _RENAMED.get(old) or to_camel(old)
