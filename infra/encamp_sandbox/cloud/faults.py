"""Injected faults: errors of the cloud in place of its usual answers, a number of times.

Set over the front's admin path; taken by the front, for every client alike, and by the sandbox's ``kubernetes``
provider. A fault of kind ``lost`` or ``hang`` strikes after the thing was done (the answer never says so). ``pause``
holds an operation up before it is done, ``pause-after`` between its being done and its answer, both until the fault is
deleted. ``note`` changes nothing: it writes down what is asked. Every other kind strikes before anything happens. A
fault that has struck stays listed, with what it struck, until it is deleted.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from encamp_sandbox.database import Database

_OPERATIONS = ("create", "read", "update", "delete", "*")


class FaultKind(StrEnum):
    """The kind of a fault."""

    RATE_LIMIT = "429"
    FORBIDDEN = "403"
    CONFLICT = "409"
    BUSY = "busy"
    INTERNAL = "500"
    STOCKOUT = "stockout"
    QUOTA = "quota"
    LOST_ANSWER = "lost"
    HANG = "hang"
    PAUSE = "pause"
    PAUSE_AFTER = "pause-after"
    NOTE = "note"


_ERRORS = {
    FaultKind.RATE_LIMIT: (
        429,
        "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'.",
        "rateLimitExceeded",
    ),
    FaultKind.FORBIDDEN: (403, "The caller does not have permission.", "forbidden"),
    FaultKind.CONFLICT: (409, "Another operation on the resource is in progress.", "operationInProgress"),
    FaultKind.BUSY: (400, "Cluster is running incompatible operation operation-1-fault.", "failedPrecondition"),
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
    """One fault: for a type (or a pattern with ``*``), an operation, and names that match a pattern."""

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
        """Return the same as JSON data."""
        shown = {"type": self.type, "operation": self.operation, "kind": self.kind.value}
        return {**shown, "count": self.count, "name": self.name}


@dataclass(frozen=True)
class Asked:
    """One requested operation.

    Attributes:
        type: service and collection, such as ``storage:objects``, or a type token of the ``kubernetes`` provider.
        operation: ``create``, ``read``, ``update`` or ``delete``.
        name: full name.
        agent: the caller's user agent; tells an engine's provider from a driver and a replica.
    """

    type: str
    operation: str
    name: str
    agent: str = ""


@dataclass(frozen=True)
class Strike:
    """A fault's strike on an operation: the kind, and the number of the fault that it comes from."""

    kind: FaultKind
    fault: int


@dataclass(frozen=True)
class ArmedFault:
    """A fault that was set: how often it will still strike, and its strikes with their times, oldest first."""

    number: int
    fault: Fault
    left: int
    struck: tuple[tuple[float, Asked], ...]

    def json(self, *, whole: bool) -> dict[str, Any]:
        """Return the same as JSON data; what it struck only in a ``whole`` one."""
        shown = {"id": self.number, **self.fault.json(), "left": self.left, "reached": bool(self.struck)}
        if whole:
            shown["struck"] = [
                {
                    "at": at,
                    "type": asked.type,
                    "operation": asked.operation,
                    "name": asked.name,
                    "agent": asked.agent,
                }
                for at, asked in self.struck
            ]
        return shown


class Faults:
    """The faults that were set and not deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._deleted: dict[int, asyncio.Event] = {}

    def add(self, fault: Fault) -> ArmedFault:
        """Arm a fault."""
        with self._database.transaction() as change:
            number = change.execute(
                "INSERT INTO faults (type, operation, kind, left, name) VALUES (?, ?, ?, ?, ?)",
                (fault.type, fault.operation, fault.kind.value, fault.count, fault.name),
            ).lastrowid
        return ArmedFault(int(number or 0), fault, fault.count, ())

    def all(self) -> list[ArmedFault]:
        """Return every fault that was not deleted, oldest first."""
        return [self._armed(row) for row in self._database.all("SELECT * FROM faults ORDER BY id")]

    def armed(self) -> list[Fault]:
        """Return every fault that is still to come, oldest first."""
        return [one.fault for one in self.all() if one.left]

    def find(self, number: int) -> ArmedFault | None:
        """Return a fault by its number, None if it was deleted."""
        row = self._database.one("SELECT * FROM faults WHERE id = ?", number)
        return None if row is None else self._armed(row)

    def remove(self, number: int) -> None:
        """Delete a fault; what it holds up goes on."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM faults WHERE id = ?", (number,))
            change.execute("DELETE FROM strikes WHERE fault = ?", (number,))
        if (deleted := self._deleted.pop(number, None)) is not None:
            deleted.set()

    def clear(self) -> None:
        """Delete all."""
        with self._database.transaction() as change:
            change.execute("DELETE FROM faults")
            change.execute("DELETE FROM strikes")
        for deleted in self._deleted.values():
            deleted.set()
        self._deleted.clear()

    async def strike(self, asked: Asked) -> Strike | None:
        """Return the fault that strikes an operation now, counted off and written down; None if all goes well."""
        for row in self._database.all("SELECT * FROM faults WHERE left > 0 ORDER BY id"):
            if not fnmatchcase(asked.type, row["type"]) or not fnmatchcase(asked.name, row["name"]):
                continue
            if row["operation"] not in ("*", asked.operation):
                continue
            with self._database.transaction() as change:
                change.execute("UPDATE faults SET left = left - 1 WHERE id = ?", (row["id"],))
                change.execute(
                    "INSERT INTO strikes (fault, at, type, operation, name, agent) VALUES (?, ?, ?, ?, ?, ?)",
                    (row["id"], time.time(), asked.type, asked.operation, asked.name, asked.agent),
                )
            if row["kind"] != FaultKind.NOTE:
                return Strike(FaultKind(row["kind"]), row["id"])
        return None

    async def released(self, number: int) -> None:
        """Return when a fault is deleted."""
        deleted = self._deleted.setdefault(number, asyncio.Event())
        if self.find(number) is not None:
            await deleted.wait()

    def _armed(self, row: sqlite3.Row) -> ArmedFault:
        struck = tuple(
            (one["at"], Asked(one["type"], one["operation"], one["name"], one["agent"]))
            for one in self._database.all("SELECT * FROM strikes WHERE fault = ? ORDER BY id", row["id"])
        )
        kind = FaultKind(row["kind"])
        fault = Fault(row["type"], row["operation"], kind, row["left"] + len(struck), row["name"])
        return ArmedFault(row["id"], fault, row["left"], struck)


class FaultError(GoogleError):
    """A refusal that was set as a fault."""

    def __init__(self, kind: FaultKind, code: int, message: str, *, reason: str, status: str | None) -> None:
        super().__init__(code, message, reason=reason, status=status)
        self.kind = kind


def fault_error(kind: FaultKind) -> FaultError:
    """Return the error of a fault for the caller."""
    code, message, reason = _ERRORS[kind]
    status = {"operationInProgress": "ABORTED", "failedPrecondition": "FAILED_PRECONDITION"}.get(reason)
    return FaultError(kind, code, message, reason=reason, status=status)
