"""Objects: a row in the database and the bytes in a file of random name.

Names of objects never become names of files, so ``a`` and ``a/b`` live side by side and ``../x`` is only a name.
Source: cloud.google.com/storage/docs/json_api/v1/objects.

Beliefs: storage-create-only-if-absent, storage-generation-grows, storage-versions-stay, storage-move-is-atomic,
storage-overwriting-needs-delete, storage-patch-merges.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from encamp_sandbox.storage.buckets import bucket_row, now
from encamp_sandbox.storage.errors import StorageError, invalid, object_missing
from encamp_sandbox.storage.model import OBJECT_FIELDS, check_object_name, merge_patch, object_resource

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping
    from pathlib import Path

    from encamp_sandbox.database import Database
    from encamp_sandbox.storage.digests import Digests
    from encamp_sandbox.storage.model import Conditions

_COUNT_BLOB = "SELECT 1 FROM objects WHERE blob = ? LIMIT 1"


@dataclass(frozen=True)
class Content:
    """Bytes that lie in a file and belong to no object yet."""

    path: Path
    digests: Digests
    composite: bool = False


class Objects:
    """The objects of one storage server.

    Args:
        database: where the rows are.
        root: folder of the bytes: ``blobs/`` of objects, ``incoming/`` of uploads.
    """

    def __init__(self, database: Database, root: Path) -> None:
        self._database = database
        self._blobs = root / "blobs"
        self._incoming = root / "incoming"
        for folder in (self._blobs, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def new_file(self) -> Path:
        """Return a path for incoming bytes."""
        return self._incoming / uuid4().hex

    def session_file(self, session: str) -> Path:
        """Return the file that gathers the bytes of an upload session."""
        return self._incoming / session

    def row(self, bucket: str, name: str, generation: int | None = None) -> sqlite3.Row:
        """Return the live row of an object, or that of a generation; 404 if there is none."""
        row = self.find(bucket, name, generation)
        if row is None:
            bucket_row(self._database, bucket)
            raise object_missing(bucket, name)
        return row

    def find(self, bucket: str, name: str, generation: int | None = None) -> sqlite3.Row | None:
        """Return the same, or None."""
        if generation is None:
            return self._database.one("SELECT * FROM objects WHERE bucket = ? AND name = ? AND live = 1", bucket, name)
        query = "SELECT * FROM objects WHERE bucket = ? AND name = ? AND generation = ?"
        return self._database.one(query, bucket, name, generation)

    def path(self, row: sqlite3.Row) -> Path:
        """Return the file with an object's bytes."""
        return self._blobs / row["blob"][:2] / row["blob"]

    def put(
        self, bucket: str, name: str, body: Mapping[str, Any], content: Content, conditions: Conditions,
        *, overwrite: bool = True, session: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Make an object of bytes, all or nothing; the file is moved, and removed on refusal.

        ``overwrite`` False refuses (403) to replace a live object: the caller may create but not delete.
        ``session`` is the upload session that ends with this, in the same transaction.
        """
        check_object_name(name)
        blob = uuid4().hex
        target = self._blobs / blob[:2] / blob
        target.parent.mkdir(exist_ok=True, mode=0o700)
        content.path.replace(target)
        kept = {key: body[key] for key in OBJECT_FIELDS if body.get(key) is not None}
        try:
            with self._database.transaction() as change:
                bucket_row(self._database, bucket)
                live = self.find(bucket, name)
                conditions.check(live)
                if live and not overwrite:
                    _refuse_overwrite(bucket, name)
                dropped = self._retire(change, bucket, live)
                md5 = None if content.composite else content.digests.md5
                sums = (content.digests.size, md5, content.digests.crc32c)
                row = self._insert(change, (bucket, name, blob), kept, sums)
                shown = object_resource(row)
                if session:
                    change.execute("UPDATE sessions SET result = ? WHERE id = ?", (json.dumps(shown), session))
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        self._remove(dropped)
        return shown

    def _insert(
        self,
        change: sqlite3.Connection,
        place: tuple[str, str, str],
        kept: dict[str, Any],
        sums: tuple[int, str | None, str],
    ) -> sqlite3.Row:
        bucket, name, blob = place
        generation = max(
            change.execute("SELECT generation FROM clock").fetchone()[0] + 1,
            time.time_ns() // 1000,
        )
        change.execute("UPDATE clock SET generation = ?", (generation,))
        moment = now()
        values = (bucket, name, generation, 1, 1, *sums)
        change.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (*values, blob, json.dumps(kept), moment, moment),
        )
        return self.row(bucket, name)

    def move(
        self, bucket: str, names: tuple[str, str], conditions: tuple[Conditions, Conditions], *, overwrite: bool
    ) -> dict[str, Any]:
        """Rename an object in its bucket, in one step; ``names`` and ``conditions`` are source and target's.

        Source: cloud.google.com/storage/docs/json_api/v1/objects/move.
        """
        source, target = names
        check_object_name(target)
        if source == target:
            raise invalid("The source and destination objects have to differ")
        with self._database.transaction() as change:
            row = self.row(bucket, source)
            live = self.find(bucket, target)
            for one, condition in zip((row, live), conditions, strict=True):
                condition.check(one)
            if live and not overwrite:
                _refuse_overwrite(bucket, target)
            dropped = self._retire(change, bucket, live)
            sums = (row["size"], row["md5"], row["crc32c"])
            made = self._insert(change, (bucket, target, row["blob"]), json.loads(row["body"]), sums)
            self._retire(change, bucket, row)
        self._remove(dropped)
        return object_resource(made)

    def _retire(self, change: sqlite3.Connection, bucket: str, live: sqlite3.Row | None) -> str | None:
        """Take the live object out of the way; the name of its bytes if nothing needs them any more."""
        if live is None:
            return None
        where = (bucket, live["name"], live["generation"])
        body = json.loads(bucket_row(self._database, bucket)["body"])
        if (body.get("versioning") or {}).get("enabled"):
            query = "UPDATE objects SET live = 0, deleted = ? WHERE bucket = ? AND name = ? AND generation = ?"
            change.execute(query, (now(), *where))
            return None
        change.execute("DELETE FROM objects WHERE bucket = ? AND name = ? AND generation = ?", where)
        return None if change.execute(_COUNT_BLOB, (live["blob"],)).fetchone() else live["blob"]

    def _remove(self, blob: str | None) -> None:
        if blob:
            (self._blobs / blob[:2] / blob).unlink(missing_ok=True)

    def delete(self, bucket: str, name: str, generation: int | None, conditions: Conditions) -> None:
        """Delete an object (in a versioned bucket: make it noncurrent), or one generation for good."""
        with self._database.transaction() as change:
            row = self.row(bucket, name, generation)
            conditions.check(row)
            if generation is None:
                dropped = self._retire(change, bucket, row)
            else:
                query = "DELETE FROM objects WHERE bucket = ? AND name = ? AND generation = ?"
                change.execute(query, (bucket, name, generation))
                dropped = None if change.execute(_COUNT_BLOB, (row["blob"],)).fetchone() else row["blob"]
        self._remove(dropped)

    def change(
        self, bucket: str, name: str, patch: Mapping[str, Any], conditions: Conditions, *, replace: bool
    ) -> dict[str, Any]:
        """Patch an object's metadata, or replace them."""
        wanted = {key: patch[key] for key in OBJECT_FIELDS if key in patch}
        with self._database.transaction() as change:
            row = self.row(bucket, name)
            conditions.check(row)
            body = merge_patch({} if replace else json.loads(row["body"]), wanted)
            change.execute(
                "UPDATE objects SET body = ?, metageneration = metageneration + 1, updated = ?"
                " WHERE bucket = ? AND name = ? AND live = 1",
                (json.dumps(body), now(), bucket, name),
            )
        return object_resource(self.row(bucket, name))

    def sweep(self) -> int:
        """Remove bytes that no row names, as a kill leaves them; the number of files. Only before serving."""
        named = {row["blob"] for row in self._database.all("SELECT DISTINCT blob FROM objects")}
        sessions = {row["id"] for row in self._database.all("SELECT id FROM sessions WHERE result IS NULL")}
        lost = [path for path in self._blobs.glob("*/*") if path.name not in named]
        lost += [path for path in self._incoming.iterdir() if path.name not in sessions]
        for path in lost:
            path.unlink()
        return len(lost)


def _refuse_overwrite(bucket: str, name: str) -> NoReturn:
    raise StorageError(403, "forbidden", f"Permission 'storage.objects.delete' denied on {bucket}/{name}")
