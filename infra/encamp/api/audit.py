"""The audit log: every call as one line of JSON, an entry as Cloud Audit Logs has it. Appended, never rewritten.

A line is never longer than ``LONGEST_LINE``, and nothing that a caller sends can end it or begin another. Where it
cannot be written, nothing is lost silently: entries wait in memory, calls that change something are refused before they
do (``AuditLog.check``), and calls that only read go on, counted when too many wait.
Sources: cloud.google.com/logging/docs/audit/understanding-audit-logs; the job model, section 12.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
from collections import deque
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from encamp.api.audit_entry import LONGEST_LINE, AuditedCall, entry_of
from encamp.api.audit_left_out import LeftOut
from encamp.api.audit_sinks import Line, LogFile, LogStream, opened_file
from encamp.api.errors import ApiError
from encamp.api.methods import AuditKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from encamp.api.methods import Method

__all__ = ["AuditLog", "AuditedCall"]

_LOG = logging.getLogger(__name__)
#: Below this a disk counts as full: what is under way can still be written down.
_RESERVE_BYTES: Final = 16 * LONGEST_LINE
#: Entries of calls that only read which wait for room; more of them are counted.
_MOST_WAITING: Final = 1000
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
#: A pipe or a terminal has nothing that a line could be kept on.
_NO_DISK: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})


class AuditLog:
    """Writes entries; may be called from any thread.

    Args:
        target: a file, made with mode 0600 and appended to, or a binary stream. Rotating a file is the system's: where
            it was moved away, the next entry begins a new one.
        free: bytes that are left for it; None: as the system says.
        left_out: decides which calls get no entry of their own; None: as of ``LeftOut``.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __init__(
        self,
        target: Path | BinaryIO,
        *,
        free: Callable[[], int | None] | None = None,
        left_out: LeftOut | None = None,
    ) -> None:
        self._sink: LogFile | LogStream = opened_file(target) if isinstance(target, Path) else LogStream(target)
        self._free = free or self._sink.free
        self._waiting: deque[Line] = deque()
        self._failing = False
        self._lock = threading.Lock()
        self._left_out = left_out or LeftOut()
        self._project = ""

    def check(self, method: Method) -> None:
        """Ask before a call that changes something is carried out whether there is room for its entry.

        Raises:
            ApiError: UNAVAILABLE; nothing was done.
        """
        if method.kind is AuditKind.DATA_ACCESS:
            return
        with self._lock:
            if self._has_room():
                return
        message = (
            "The audit log cannot be written, so nothing was changed: its disk is full or broken."
            " Make room where it lies, and try again; reading goes on."
        )
        raise ApiError("UNAVAILABLE", message, retry_after=10)

    def lists_stranger(self, address: str) -> bool:
        """Whether the refusal of an unknown caller is to be noted; if not, it is counted. Quick."""
        return self._left_out.lists_stranger(address)

    def note(self, call: AuditedCall) -> None:
        """Write the entry of a call. Raises nothing: what cannot be written now is written before the next one."""
        data = _ENCODER.encode(entry_of(call)).encode() + b"\n"
        changed = call.method.kind is AuditKind.ADMIN_ACTIVITY and call.code < HTTPStatus.MULTIPLE_CHOICES
        line = Line(data, lasting=changed)
        with self._lock:
            self._project = call.project
            room = len(self._waiting) < _MOST_WAITING or self._write_waiting()
            if room or call.method.kind is AuditKind.ADMIN_ACTIVITY:
                self._waiting.append(line)
            else:
                self._left_out.count_read(call.caller.email if call.caller is not None else call.client_ip)
            self._add_counts()
            written = self._write_waiting()
            descriptor = self._sink.written() if written and line.lasting else None
        if descriptor is not None:
            self._settle(descriptor, line)

    def close(self) -> None:
        """Write what waits, and close a file. What still cannot be written goes to the process's own log."""
        with self._lock:
            self._add_counts(over=True)
            if not self._write_waiting():
                for line in self._waiting:
                    _LOG.error("an entry that the audit log could not take: %s", line.data.decode().rstrip())
                self._waiting.clear()
            self._sink.close()

    def _add_counts(self, *, over: bool = False) -> None:
        """Queue an entry for what was counted."""
        for entry in self._left_out.due(self._project, over=over):
            self._waiting.append(Line(_ENCODER.encode(entry).encode() + b"\n", lasting=False))

    def _has_room(self) -> bool:
        if not self._write_waiting():
            return False
        try:
            free = self._free()
        except OSError as error:
            self._failed(str(error.strerror))
            return False
        return free is None or free >= _RESERVE_BYTES

    def _write_waiting(self) -> bool:
        while self._waiting:
            try:
                self._sink.write(self._waiting[0])
            except (OSError, ValueError) as error:
                # ValueError: a stream that was closed.
                self._failed(str(error.strerror) if isinstance(error, OSError) else str(error))
                return False
            self._waiting.popleft()
        self._failing = False
        return True

    def _settle(self, descriptor: int, line: Line) -> None:
        """Wait until a line is on the disk; nobody else has to. Where it does not get there, it is written anew."""
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_DISK:
                with self._lock:
                    self._waiting.append(line)
                    self._failed(str(error.strerror))
        finally:
            os.close(descriptor)

    def _failed(self, reason: str) -> None:
        """Report a failure once, not at every call."""
        if not self._failing:
            _LOG.error("the audit log cannot be written, so entries wait and nothing may be changed: %s", reason)
        self._failing = True
