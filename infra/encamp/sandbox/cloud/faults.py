"""Faults to inject: what the cloud shall answer instead of doing as asked, the next so many times.

Set over the front's admin path, taken by the ``gcp`` provider. A fault of kind ``lost`` or ``hang`` strikes after
the thing was done (the answer never says so), every other kind before anything happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from encamp.sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.sandbox.database import Database

_OPERATIONS = ("create", "read", "update", "delete", "*")


class FaultKind(StrEnum):
    """What goes wrong."""

    RATE_LIMIT = "429"
    FORBIDDEN = "403"
    CONFLICT = "409"
    INTERNAL = "500"
    STOCKOUT = "stockout"
    QUOTA = "quota"
    LOST_ANSWER = "lost"
    HANG = "hang"


_ERRORS = {
    FaultKind.RATE_LIMIT: (
        429,
        "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'.",
        "rateLimitExceeded",
    ),
    FaultKind.FORBIDDEN: (403, "The caller does not have permission.", "forbidden"),
    FaultKind.CONFLICT: (409, "Cluster is running incompatible operation.", "failedPrecondition"),
    FaultKind.INTERNAL: (500, "Internal error encountered.", "backendError"),
    FaultKind.STOCKOUT: (
        503,
        "ZONE_RESOURCE_POOL_EXHAUSTED: the zone does not have enough resources available to fulfill the request.",
        "resourceExhausted",
    ),
    FaultKind.QUOTA: (403, "Insufficient regional quota to satisfy request.", "quotaExceeded"),
    FaultKind.LOST_ANSWER: (504, "The request timed out; it may have been done.", "deadlineExceeded"),
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One fault: for a type token (or a pattern with ``*``), an operation, and names that match a pattern."""

    type: str
    operation: str
    kind: FaultKind
    count: int = 1
    name: str = "*"

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Fault:
        """Read one from JSON data.

        Raises:
            GoogleError: 400 with what is wrong.
        """
        try:
            kind = FaultKind(str(data["kind"]))
            count = int(data.get("count", 1))
            operation = str(data.get("operation", "*"))
        except (KeyError, ValueError) as error:
            kinds = ", ".join(FaultKind)
            raise GoogleError(400, f"A fault has a kind ({kinds}) and may have a count.") from error
        if operation not in _OPERATIONS or count < 1:
            raise GoogleError(400, f"A fault's operation is one of {', '.join(_OPERATIONS)}, its count 1 or more.")
        return cls(str(data.get("type", "*")), operation, kind, count, str(data.get("name", "*")))

    def json(self) -> dict[str, Any]:
        """The same as JSON data."""
        shown = {"type": self.type, "operation": self.operation, "kind": self.kind.value}
        return {**shown, "count": self.count, "name": self.name}


class Faults:
    """The faults that are still to come."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, fault: Fault) -> None:
        """Arm a fault."""
        with self._database.transaction() as change:
            change.execute(
                "INSERT INTO faults (type, operation, kind, left, name) VALUES (?, ?, ?, ?, ?)",
                (fault.type, fault.operation, fault.kind.value, fault.count, fault.name),
            )

    def armed(self) -> list[Fault]:
        """Every fault that is armed, oldest first."""
        return [
            Fault(row["type"], row["operation"], FaultKind(row["kind"]), row["left"], row["name"])
            for row in self._database.all("SELECT * FROM faults ORDER BY id")
        ]

    def clear(self) -> None:
        """Disarm all."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM faults")

    def take(self, type_token: str, operation: str, name: str) -> FaultKind | None:
        """The fault that strikes now, counted off; None if all goes well."""
        with self._database.transaction() as change:
            for row in self._database.all("SELECT * FROM faults ORDER BY id"):
                if not fnmatchcase(type_token, row["type"]) or not fnmatchcase(name, row["name"]):
                    continue
                if row["operation"] not in ("*", operation):
                    continue
                if row["left"] > 1:
                    change.execute("UPDATE faults SET left = left - 1 WHERE id = ?", (row["id"],))
                else:
                    change.execute("DELETE FROM faults WHERE id = ?", (row["id"],))
                return FaultKind(row["kind"])
        return None


def fault_error(kind: FaultKind) -> GoogleError:
    """What the caller is told."""
    code, message, reason = _ERRORS[kind]
    return GoogleError(code, message, reason=reason)
