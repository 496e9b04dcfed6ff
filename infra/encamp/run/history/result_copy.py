"""Copies objects into a folder of this machine: resumed after an interruption, verified, and never half made.

Bytes go to ``.encamp-partial/`` first and are renamed to their place once size and checksum are right. Every folder
below the target is opened without following links, so that nothing is written outside of it.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import hashlib
import os
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from encamp.cloud.rest import RestError
from encamp.errors import EngineError, UsageError
from encamp.run.history.result_files import PARTIAL, LeftOut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from encamp.cloud.storage import Storage, StoredObject
    from encamp.run.history.result_files import ResultFile

_READ_BYTES = 1024 * 1024
#: A file where a folder has to be, a folder where a file has to be, or a link, which is not followed.
_IN_ITS_PLACE = frozenset({errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ELOOP})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Copied:
    """The result of a copy: files and bytes that came, files that existed already, and those left out."""

    files: int = 0
    size: int = 0
    there: int = 0
    left_out: list[LeftOut] = field(default_factory=list)


class Target:
    """A folder that results are copied to; one command at a time writes to it.

    Args:
        folder: where to copy to; made if it is not there.

    Raises:
        UsageError: it is no folder, cannot be written, or another command copies to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"is no folder to copy to: {error.strerror}", where=str(folder)) from error
        try:
            fcntl.flock(self._root, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._partial = _below(self._root, (PARTIAL,))
        except OSError as error:
            os.close(self._root)
            busy = isinstance(error, BlockingIOError)
            what = "another command copies to it" if busy else f"cannot be written: {error.strerror}"
            raise UsageError(what, where=str(folder), hint="name another folder") from error

    def close(self) -> None:
        """Remove the folder of unfinished copies if nothing is in it, and let others write."""
        os.close(self._partial)
        with contextlib.suppress(OSError):
            os.rmdir(PARTIAL, dir_fd=self._root)
        os.close(self._root)

    @property
    def folds_case(self) -> bool:
        """Whether names that differ by case alone are the same file here."""
        name = "case"
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=self._partial))
        try:
            os.stat(name.upper(), dir_fd=self._partial, follow_symlinks=False)
        except FileNotFoundError:
            return False
        finally:
            os.unlink(name, dir_fd=self._partial)
        return True

    def copy(self, storage: Storage, files: Sequence[ResultFile], progress: Callable[[int], None]) -> Copied:
        """Copy what is not there yet; ``progress`` is told of bytes as they come or are found.

        Raises:
            EngineError: the disk is full, or bytes differ from their checksum twice.
            RestError: an object cannot be read.
        """
        done = Copied()
        self._forget({_partial_name(file.stored) for file in files})
        for file in files:
            try:
                self._copy(storage, file, progress, done)
            except RestError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                done.left_out.append(LeftOut(file.stored.uri, "it was replaced or deleted meanwhile"))
            except OSError as error:
                if error.errno in _IN_ITS_PLACE:
                    done.left_out.append(LeftOut(file.stored.uri, f"something else is in its place: {error.strerror}"))
                    continue
                where = str(self.folder / file.path)
                hint = "the same command goes on where it stopped"
                raise EngineError(f"cannot be written: {error.strerror}", where=where, hint=hint) from error
        return done

    def _copy(self, storage: Storage, file: ResultFile, progress: Callable[[int], None], done: Copied) -> None:
        with _opened(self._root, file.parts[:-1]) as folder:
            if _is_there(folder, file):
                done.there += 1
                progress(file.stored.size)
                return
            name = _partial_name(file.stored)
            for last in (False, True):
                if self._fetch(storage, file.stored, name, progress):
                    break
                # A part kept from an earlier copy may be damaged; a fresh copy is not.
                os.unlink(name, dir_fd=self._partial)
                progress(-file.stored.size)
                if last:
                    raise EngineError("its bytes differ from its checksum", where=file.stored.uri, hint="try again")
            os.replace(name, file.parts[-1], src_dir_fd=self._partial, dst_dir_fd=folder)
            done.files += 1
            done.size += file.stored.size

    def _fetch(self, storage: Storage, stored: StoredObject, name: str, progress: Callable[[int], None]) -> bool:
        """Complete an unfinished copy, and return whether its bytes are right."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o666, dir_fd=self._partial), "r+b") as stream:
            if os.fstat(stream.fileno()).st_size > stored.size:
                stream.truncate(0)
            check = _Check(stored)
            check.read(stream)
            progress(check.size)
            if check.size < stored.size:
                for piece in storage.download(
                    stored.bucket, stored.name, begin=check.size, generation=stored.generation
                ):
                    stream.write(piece)
                    check.update(piece)
                    progress(len(piece))
            stream.flush()
            os.fsync(stream.fileno())
        return check.ok

    def _forget(self, wanted: set[str]) -> None:
        """Remove unfinished copies of what is not wanted any more."""
        for name in os.listdir(self._partial):  # noqa: PTH208 - a path could lead elsewhere by now
            if name not in wanted:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._partial)


class _Check:
    """Size and checksum of bytes, beside those that the service names: CRC32C, or MD5 where that alone is given.

    A composed object has no MD5 (belief storage-compose-has-no-md5).
    """

    def __init__(self, stored: StoredObject) -> None:
        import google_crc32c  # noqa: PLC0415 - only copies need it

        self.size = 0
        self._stored = stored
        self._expected = stored.crc32c or stored.md5
        self._sum: Any = hashlib.md5(usedforsecurity=False)
        if stored.crc32c:
            self._sum = google_crc32c.Checksum()

    def update(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.size += len(piece)
        self._sum.update(piece)

    def read(self, stream: Any) -> None:
        """Take a file's bytes to its end."""
        while piece := stream.read(_READ_BYTES):
            self.update(piece)

    @property
    def ok(self) -> bool:
        """Whether all bytes came, and the right ones."""
        actual = base64.b64encode(self._sum.digest()).decode()
        return self.size == self._stored.size and actual == self._expected


def _is_there(folder: int, file: ResultFile) -> bool:
    """Whether a file has the object's very bytes already."""
    try:
        descriptor = os.open(file.parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as stream:
        check = _Check(file.stored)
        if os.fstat(stream.fileno()).st_size != file.stored.size:
            return False
        check.read(stream)
        return check.ok


def _partial_name(stored: StoredObject) -> str:
    return hashlib.sha256(f"{stored.uri}#{stored.generation}".encode()).hexdigest()


def _below(root: int, parts: Sequence[str]) -> int:
    """Open a folder below another, made where it is not there; links are not followed."""
    here = os.dup(root)
    for part in parts:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            there = os.open(part, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = there
    return here


@contextlib.contextmanager
def _opened(root: int, parts: Sequence[str]) -> Iterator[int]:
    folder = _below(root, parts)
    try:
        yield folder
    finally:
        os.close(folder)
