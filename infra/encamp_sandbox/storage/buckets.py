"""Buckets: made, shown, listed, changed and deleted.

Kept and shown, but without effect: lifecycle rules, retention policies, storage classes.
Source: cloud.google.com/storage/docs/json_api/v1/buckets.

Belief: storage-bucket-that-holds-something.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp_sandbox.storage.errors import StorageError, bucket_missing, invalid
from encamp_sandbox.storage.model import Conditions, bucket_resource, check_bucket_name, merge_patch

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from encamp_sandbox.database import Database

_READ_ONLY = ("kind", "id", "name", "selfLink", "metageneration", "etag", "timeCreated", "updated", "generation")


def now() -> str:
    """Return the time as the API writes it: RFC 3339, milliseconds, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def bucket_row(database: Database, name: str) -> sqlite3.Row:
    """Return the row of a bucket, or 404."""
    row = database.one("SELECT * FROM buckets WHERE name = ?", name)
    if row is None:
        raise bucket_missing()
    return row


class Buckets:
    """The buckets of one storage server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Make a bucket; 409 if the name is taken."""
        name = check_bucket_name(body.get("name"))
        kept = {key: value for key, value in body.items() if key not in _READ_ONLY}
        kept["location"] = str(kept.get("location") or "US").upper()
        kept.setdefault("storageClass", "STANDARD")
        kept.setdefault("iamConfiguration", {"uniformBucketLevelAccess": {"enabled": False}})
        moment = now()
        with self._database.transaction() as change:
            if change.execute("SELECT 1 FROM buckets WHERE name = ?", (name,)).fetchone():
                message = "Your previous request to create the named bucket succeeded and you already own it."
                raise StorageError(409, "conflict", message)
            change.execute("INSERT INTO buckets VALUES (?, ?, 1, ?, ?)", (name, json.dumps(kept), moment, moment))
        return self.get(name)

    def get(self, name: str, conditions: Conditions | None = None) -> dict[str, Any]:
        """Return a bucket, or 404."""
        row = bucket_row(self._database, name)
        if conditions:
            _check(row, conditions)
        return bucket_resource(row)

    def page(self, prefix: str, after: str, limit: int) -> tuple[list[dict[str, Any]], str | None]:
        """Return buckets by name after ``after``, and the name to go on from if there are more."""
        rows = self._database.all(
            "SELECT * FROM buckets WHERE name > ? AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
            after, len(prefix), prefix, limit + 1,
        )  # fmt: skip
        more = rows[limit - 1]["name"] if len(rows) > limit else None
        return [bucket_resource(row) for row in rows[:limit]], more

    def change(self, name: str, patch: Mapping[str, Any], conditions: Conditions, *, replace: bool) -> dict[str, Any]:
        """Patch a bucket, or replace all that its owner sets."""
        wanted = {key: value for key, value in patch.items() if key not in _READ_ONLY}
        with self._database.transaction() as change:
            row = bucket_row(self._database, name)
            _check(row, conditions)
            old = json.loads(row["body"])
            fixed = {key: old[key] for key in ("location", "storageClass", "iamConfiguration") if key in old}
            if "location" in wanted and str(wanted.pop("location")).upper() != old["location"]:
                raise invalid("The location of a bucket cannot be changed.")
            body = merge_patch(fixed if replace else old, wanted)
            change.execute(
                "UPDATE buckets SET body = ?, metageneration = metageneration + 1, updated = ? WHERE name = ?",
                (json.dumps(body), now(), name),
            )
        return self.get(name)

    def delete(self, name: str, conditions: Conditions) -> None:
        """Delete a bucket; 409 while anything lies in it."""
        with self._database.transaction() as change:
            _check(bucket_row(self._database, name), conditions)
            if change.execute("SELECT 1 FROM objects WHERE bucket = ? LIMIT 1", (name,)).fetchone():
                raise StorageError(409, "conflict", "The bucket you tried to delete is not empty.")
            change.execute("DELETE FROM sessions WHERE bucket = ?", (name,))
            change.execute("DELETE FROM buckets WHERE name = ?", (name,))


def _check(row: sqlite3.Row, conditions: Conditions) -> None:
    actual = row["metageneration"]
    if conditions.metageneration not in (None, actual) or conditions.not_metageneration == actual:
        raise StorageError(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
