"""Limits of waiting jobs: of one caller, and of all. A create beyond them is refused, and nothing is written."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.api.index import Index

#: Distance below a limit at which nobody has to query the record once more.
_FAR: Final = 50
_QUOTA_FAILURE: Final = "type.googleapis.com/google.rpc.QuotaFailure"


@dataclass(frozen=True)
class QueueLimits:
    """The largest numbers of waiting jobs.

    Attributes:
        all: in the environment.
        caller: that one caller has created.
    """

    all: int = 5000
    caller: int = 1000


class Queue:
    """Lets a create pass while there is room.

    One server never passes the limits; several servers of one record may, by what each of the others has at work.

    Args:
        index: knows how many wait.
    """

    def __init__(self, index: Index, limits: QueueLimits | None = None) -> None:
        self._index = index
        self._limits = limits or QueueLimits()
        self._lock = threading.Lock()
        self._coming: Counter[str] = Counter()

    def check(self, by: str) -> None:
        """Refuse a create early, before anything else is looked at for it.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
        """
        with self._lock:
            self._check(by)

    @contextlib.contextmanager
    def room(self, by: str) -> Iterator[None]:
        """Hold room for one more job while it is written.

        Raises:
            ApiError: RESOURCE_EXHAUSTED.
            RecordError: the record cannot be read.
        """
        with self._lock:
            if self._is_near(by):
                self._index.refresh()
            self._check(by)
            self._coming[by] += 1
        try:
            yield
        finally:
            with self._lock:
                self._coming -= Counter((by,))

    def _is_near(self, by: str) -> bool:
        return any(count + _FAR > most for count, most, _ in self._counts(by))

    def _check(self, by: str) -> None:
        for count, most, whose in self._counts(by):
            if count >= most:
                message = (
                    f"{whose} {most} jobs waiting, as many as may wait; cancel some, or wait until some have begun."
                )
                details = [{"@type": _QUOTA_FAILURE, "violations": [{"subject": by, "description": message}]}]
                raise ApiError("RESOURCE_EXHAUSTED", message, details=details, retry_after=60)

    def _counts(self, by: str) -> tuple[tuple[int, int, str], ...]:
        return (
            (self._index.waiting(by) + self._coming[by], self._limits.caller, "You have"),
            (self._index.waiting() + self._coming.total(), self._limits.all, "The project has"),
        )
