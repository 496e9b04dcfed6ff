"""Sinks of the audit log's lines: a file that is appended to, or a stream that the process was given."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_PRIVATE: Final = 0o600


@dataclass(frozen=True)
class Line:
    """A line of the log; ``lasting``: of a change, which is on the disk before the call's answer is sent."""

    data: bytes
    lasting: bool


@dataclass
class LogFile:
    """A file that is appended to, and created anew if somebody has moved it away.

    Attributes:
        descriptor: of the file that is open; None before the first line.
        torn: whether it may end in a part of a line.
    """

    path: Path
    descriptor: int | None = None
    torn: bool = False

    def write(self, line: Line) -> None:
        """Append a line.

        Raises:
            OSError: it is not, or not wholly, in the file.
        """
        descriptor = self.opened()
        data = b"\n" + line.data if self.torn else line.data
        free = self.free()
        if free is not None and free < len(data):
            # The rest of the last block would take only a part of the line.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.torn = True
        while data:
            data = data[os.write(descriptor, data) :]
        self.torn = False

    def written(self) -> int | None:
        """Return a descriptor of the file that was last written to; its receiver closes it.

        None if there is no more of them.
        """
        try:
            return os.dup(self.opened())
        except OSError:
            return None

    def free(self) -> int | None:
        """Return the free bytes on the log's disk; None if it is no file on a disk."""
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
        """Return the descriptor of the file that is at the path now."""
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
class LogStream:
    """A stream that the process was given, such as standard output; the system keeps it."""

    stream: BinaryIO

    def write(self, line: Line) -> None:
        """Write a line, whole and at once."""
        self.stream.write(line.data)
        self.stream.flush()

    def written(self) -> None:
        """Return nothing: there is nothing to wait for."""

    def free(self) -> int | None:
        """Return None: it is not known."""
        return None

    def close(self) -> None:
        """Do nothing: the stream is not ours to close."""


def opened_file(path: Path) -> LogFile:
    """Return the log in a file.

    Raises:
        UsageError: it cannot be opened.
    """
    file = LogFile(path)
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
