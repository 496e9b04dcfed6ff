"""Calls that get no entry of their own in the audit log: they are counted, and the counts are an entry.

Anybody can send requests without a credential, and each would be a line on the disk; so of such refusals a bounded
number is listed one by one, of one address and of all. While the disk is full, reading goes on, and what no longer
fits in memory is counted too. Source of the form (``metadata``):
cloud.google.com/logging/docs/reference/audit/auditlog/rest/Shared.Types/AuditLog.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from encamp.api.bounded import bounded_name
from encamp.run.times import micros, written

if TYPE_CHECKING:
    from collections.abc import Callable

#: Refusals of unknown callers that are listed one by one in a minute: of one address, and of all.
OF_ADDRESS: Final = 10
OF_ALL: Final = 100
#: After so long what was counted is written.
SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 1000
#: Number of callers with most omissions that are counted one by one; the others have a sum.
_MOST_NAMED: Final = 20
_OTHERS: Final = "others"
_METHOD: Final = "encamp.audit.LeftOut"
#: Why calls were left out, and google.rpc.Code of that.
_STRANGERS: Final = ("of unknown callers were refused and have no entries of their own.", 16)
_UNWRITTEN: Final = ("that only read were answered while the log could not be written, and have no entries.", 8)


@dataclass
class Count:
    """Calls that were left out for one reason.

    Attributes:
        why: a sentence that goes on after "N calls".
        code: google.rpc.Code of the reason.
        since: of the first of them; None before it.
        by: how many of whom.
    """

    why: str
    code: int
    since: datetime | None = None
    calls: int = 0
    by: dict[str, int] = field(default_factory=dict)

    def add(self, who: str, at: datetime) -> None:
        """Count a call."""
        self.since = self.since or at
        self.calls += 1
        name = who if who in self.by or len(self.by) < _MOST_NAMED else _OTHERS
        self.by[name] = self.by.get(name, 0) + 1

    def is_due(self, now: datetime, *, over: bool) -> bool:
        """Whether it is to be written: anything was counted, for long enough or for the last time."""
        return self.since is not None and (over or (now - self.since).total_seconds() >= SECONDS)

    def entry(self, project: str, until: datetime) -> dict[str, Any]:
        """Return the LogEntry of what was counted."""
        project = bounded_name(project)
        since = written(micros(self.since or until))
        by = {bounded_name(name): calls for name, calls in sorted(self.by.items())}
        return {
            "protoPayload": {
                "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
                "status": {"code": self.code, "message": f"{self.calls} calls {self.why}"},
                "serviceName": "ml.googleapis.com",
                "methodName": _METHOD,
                "resourceName": f"projects/{project}",
                "metadata": {"calls": self.calls, "since": since, "by": by},
            },
            "insertId": uuid.uuid4().hex,
            "resource": {
                "type": "audited_resource",
                "labels": {"project_id": project, "service": "ml.googleapis.com", "method": _METHOD},
            },
            "timestamp": written(micros(until)),
            "severity": "WARNING",
            "logName": f"projects/{project}/logs/cloudaudit.googleapis.com%2Fdata_access",
            "receiveTimestamp": written(micros(until)),
        }


@dataclass
class _Bucket:
    tokens: float
    at: float


class LeftOut:
    """Decides which calls get no entry of their own, and counts them; for any thread, and quick.

    Args:
        clock: seconds that only grow.
        now: the time of day.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._clock = clock
        self._now = now
        self._lock = threading.Lock()
        self._all = _Bucket(OF_ALL, clock())
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        self._strangers, self._unwritten = Count(*_STRANGERS), Count(*_UNWRITTEN)

    def lists_stranger(self, address: str) -> bool:
        """Whether one more refusal of an unknown caller is listed; if not, it is counted."""
        with self._lock:
            listed = self._takes(address)
            if not listed:
                self._strangers.add(address, self._now())
            return listed

    def count_read(self, who: str) -> None:
        """Count a call that was answered while the log could not be written."""
        with self._lock:
            self._unwritten.add(who, self._now())

    def due(self, project: str, *, over: bool = False) -> list[dict[str, Any]]:
        """Return LogEntries of what was counted for long enough, which is forgotten with it; ``over``: of all of it."""
        with self._lock:
            now = self._now()
            found: list[dict[str, Any]] = []
            if self._strangers.is_due(now, over=over):
                found.append(self._strangers.entry(project, now))
                self._strangers = Count(*_STRANGERS)
            if self._unwritten.is_due(now, over=over):
                found.append(self._unwritten.entry(project, now))
                self._unwritten = Count(*_UNWRITTEN)
            return found

    def _takes(self, address: str) -> bool:
        now = self._clock()
        own = self._addresses.setdefault(address, _Bucket(OF_ADDRESS, now))
        self._addresses.move_to_end(address)
        while len(self._addresses) > _MOST_ADDRESSES:
            self._addresses.popitem(last=False)
        for bucket, most in ((own, OF_ADDRESS), (self._all, OF_ALL)):
            bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * most / SECONDS)
            bucket.at = now
        if own.tokens < 1 or self._all.tokens < 1:
            return False
        own.tokens -= 1
        self._all.tokens -= 1
        return True
