"""The audit log: every call as one line of JSON, an entry as Cloud Audit Logs has it. Appended, never rewritten.

A line is never longer than ``LONGEST_LINE``, and nothing that a caller sends can end it or begin another. Where it
cannot be written, nothing is lost silently: entries wait in memory, and calls that change something are refused before
they do (``AuditLog.check``). Sources: cloud.google.com/logging/docs/audit/understanding-audit-logs; the job model,
section 12.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from encamp.api.audit_entry import LONGEST_LINE, AuditedCall, entry_of
from encamp.api.errors import ApiError
from encamp.api.methods import AuditKind
from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from encamp.api.methods import Method

__all__ = ["AuditLog", "AuditedCall"]

_LOG = logging.getLogger(__name__)
#: Below this a disk counts as full: what is under way can still be written down.
_RESERVE_BYTES: Final = 16 * LONGEST_LINE
#: Entries that wait for room; with more of them calls that only read are refused too.
_MOST_WAITING: Final = 1000
_PRIVATE: Final = 0o600
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
#: A pipe or a terminal has nothing that a line could be kept on.
_NO_DISK: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})


@dataclass(frozen=True)
class _Line:
    """A line of the log; ``lasting``: of a change, which is on the disk before the call's answer is sent."""

    data: bytes
    lasting: bool


@dataclass
class _File:
    """A file that is appended to, and made anew where somebody has moved it away.

    Attributes:
        descriptor: of the file that is open; None before the first line.
        torn: whether it may end in a part of a line.
    """

    path: Path
    descriptor: int | None = None
    torn: bool = False

    def write(self, line: _Line) -> None:
        """Append a line.

        Raises:
            OSError: it is not, or not wholly, in the file.
        """
        descriptor = self.opened()
        data = b"\n" + line.data if self.torn else line.data
        self.torn = True
        while data:
            data = data[os.write(descriptor, data) :]
        self.torn = False

    def written(self) -> int | None:
        """A descriptor for what was written last, which whoever gets it closes; None where there is no more of them."""
        try:
            return os.dup(self.opened())
        except OSError:
            return None

    def free(self) -> int | None:
        """Bytes that the disk has left for it; None where it is no file on a disk."""
        descriptor = self.opened()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        found = os.fstatvfs(descriptor)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Close it."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def opened(self) -> int:
        """The descriptor of the file that is at the path now."""
        if self.descriptor is not None and not self._is_there(self.descriptor):
            self.close()
        if self.descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.descriptor = os.open(self.path, flags, _PRIVATE)
            self.torn = _ends_in_a_part(self.path, self.descriptor)
        return self.descriptor

    def _is_there(self, descriptor: int) -> bool:
        try:
            there = self.path.stat()
        except OSError:
            return False
        ours = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


@dataclass
class _Stream:
    """What the process was given, such as standard output: the system's to keep."""

    stream: BinaryIO

    def write(self, line: _Line) -> None:
        """Write a line, whole and at once."""
        self.stream.write(line.data)
        self.stream.flush()

    def written(self) -> None:
        """There is nothing to wait for."""

    def free(self) -> int | None:
        """Nobody knows."""
        return None

    def close(self) -> None:
        """It is not ours to close."""


class AuditLog:
    """Writes entries; may be called from any thread.

    Args:
        target: a file, made with mode 0600 and appended to, or a binary stream. Rotating a file is the system's: where
            it was moved away, the next entry begins a new one.
        free: bytes that are left for it; None: as the system says.

    Raises:
        UsageError: the file cannot be opened.
    """

    def __init__(self, target: Path | BinaryIO, *, free: Callable[[], int | None] | None = None) -> None:
        self._sink: _File | _Stream = _opened_file(target) if isinstance(target, Path) else _Stream(target)
        self._free = free or self._sink.free
        self._waiting: deque[_Line] = deque()
        self._failing = False
        self._lock = threading.Lock()

    def check(self, method: Method) -> None:
        """Ask before a call is carried out whether there is room for its entry.

        Raises:
            ApiError: UNAVAILABLE; nothing was done. A call that only reads is refused only where very many entries
                wait already.
        """
        with self._lock:
            if method.kind is AuditKind.DATA_ACCESS and len(self._waiting) < _MOST_WAITING:
                return
            if self._has_room():
                return
        message = "The audit log cannot be written, so nothing was changed; try again when its disk has room."
        raise ApiError("UNAVAILABLE", message)

    def note(self, call: AuditedCall) -> None:
        """Write the entry of a call. Raises nothing: what cannot be written now is written before the next one."""
        data = _ENCODER.encode(entry_of(call)).encode() + b"\n"
        changed = call.method.kind is AuditKind.ADMIN_ACTIVITY and call.code < HTTPStatus.MULTIPLE_CHOICES
        line = _Line(data, lasting=changed)
        with self._lock:
            self._waiting.append(line)
            written = self._write_waiting()
            descriptor = self._sink.written() if written and line.lasting else None
        if descriptor is not None:
            self._settle(descriptor, line)

    def close(self) -> None:
        """Write what waits, and close a file. What still cannot be written goes to the process's own log."""
        with self._lock:
            if not self._write_waiting():
                for line in self._waiting:
                    _LOG.error("an entry that the audit log could not take: %s", line.data.decode().rstrip())
                self._waiting.clear()
            self._sink.close()

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

    def _settle(self, descriptor: int, line: _Line) -> None:
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
        """Say it once, not at every call."""
        if not self._failing:
            _LOG.error("the audit log cannot be written, so entries wait and nothing may be changed: %s", reason)
        self._failing = True


def _opened_file(path: Path) -> _File:
    file = _File(path)
    try:
        file.opened()
    except OSError as error:
        message = f"the audit log cannot be opened: {error.strerror}"
        raise UsageError(
            message, where=str(path), hint="name a file in a folder that this user may write to"
        ) from error
    return file


def _ends_in_a_part(path: Path, descriptor: int) -> bool:
    """Whether a file that was there before ends without a line's end: whoever wrote it was killed in between."""
    size = os.fstat(descriptor).st_size
    if not size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
