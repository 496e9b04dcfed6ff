"""Long-running operations, kept so that a client can wait for them.

What an operation does is done when it is answered; with a latency it counts as running for so long. A cluster on which
an operation runs refuses another one. Operations of the last hours are kept.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.store import timestamp

if TYPE_CHECKING:
    import sqlite3

    from encamp_sandbox.database import Database

_KEPT_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Operation:
    """A long-running operation.

    Attributes:
        name: full name, below a project and a location or region.
        verb: what is done, in the API's word.
        target: full name of the resource.
        began: RFC 3339, UTC.
        ends: when it is done, in seconds since the epoch.
        detail: what the API's form of it holds beside.
    """

    name: str
    verb: str
    target: str
    began: str
    ends: float
    detail: dict[str, Any]

    @property
    def short_name(self) -> str:
        """The last part of the full name."""
        return self.name.rpartition("/")[2]

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return time.time() >= self.ends


class Operations:
    """The operations of one sandbox.

    Args:
        latency: seconds that each operation takes.
    """

    def __init__(self, database: Database, latency: float = 0.0) -> None:
        self._database = database
        self.latency = latency

    def begin(self, parent: str, verb: str, target: str, detail: dict[str, Any] | None = None) -> Operation:
        """Note an operation below ``parent`` (``projects/P/locations/L/operations``)."""
        name = f"{parent}/operation-{time.time_ns() // 1_000_000}-{secrets.token_hex(6)}"
        ends = time.time() + self.latency
        values = (name, verb, target, timestamp(), ends, json.dumps(detail or {}))
        with self._database.transaction() as change:
            change.execute("DELETE FROM operations WHERE ends < ?", (time.time() - _KEPT_SECONDS,))
            change.execute("INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?)", values)
        return Operation(name, verb, target, values[3], ends, detail or {})

    def find(self, name: str) -> Operation | None:
        """Return the operation of a full name, or None."""
        row = self._database.one("SELECT * FROM operations WHERE name = ?", name)
        return _operation(row) if row else None

    def below(self, parent: str) -> list[Operation]:
        """Return every operation whose full name lies below a parent's."""
        query = "SELECT * FROM operations WHERE substr(name, 1, ?) = ? ORDER BY name"
        return [_operation(row) for row in self._database.all(query, len(parent) + 1, f"{parent}/")]

    def running_on(self, target: str) -> Operation | None:
        """Return an operation that runs on a resource or on something below it."""
        query = "SELECT * FROM operations WHERE ends > ? AND (target = ? OR substr(target, 1, ?) = ?) LIMIT 1"
        row = self._database.one(query, time.time(), target, len(target) + 1, f"{target}/")
        return _operation(row) if row else None


def _operation(row: sqlite3.Row) -> Operation:
    return Operation(row["name"], row["verb"], row["target"], row["began"], row["ends"], json.loads(row["detail"]))
