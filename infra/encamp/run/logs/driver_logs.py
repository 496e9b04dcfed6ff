"""Readers of the files that a driver writes: its own log and the logs of its replicas.

No file is trusted to stay: at a job's end its folder goes, and what was not read of a replica's log until then comes
from the bucket, where the sealed log is the same bytes.
"""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from encamp.errors import EncampError
from encamp.run.logs.manifest import MANIFEST, read_entries, verified
from encamp.run.logs.spool import spooled
from encamp.run.logs.tails import Tails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage

_PIECE = 1024 * 1024
#: Longest part of a line that is shown; the whole is in the log.
_LONGEST_SHOWN = 4096


@dataclass
class _Text:
    """The lines of a text that comes in pieces."""

    show: Callable[[str], None]
    _held: bytes = b""

    def feed(self, piece: bytes) -> None:
        *lines, self._held = (self._held + piece).split(b"\n")
        for line in lines:
            self._line(line)
        # A very long line is shown once, by its beginning.
        self._held = self._held[: _LONGEST_SHOWN + 1]

    def end(self) -> None:
        if self._held:
            self._line(self._held)
        self._held = b""

    def _line(self, line: bytes) -> None:
        self.show(line[:_LONGEST_SHOWN].decode("utf-8", "backslashreplace"))


class DriverLog:
    """A file of lines that another process writes; its deletion does not end the reading of its content.

    Args:
        from_end: leave out what is in it already.
    """

    def __init__(self, path: Path, show: Callable[[str], None], *, from_end: bool = False) -> None:
        self._path = path
        self._text = _Text(show)
        self._file: IO[bytes] | None = None
        if from_end:
            with suppress(OSError):
                self._file = path.open("rb")
                self._file.seek(0, os.SEEK_END)

    def look(self) -> None:
        """Show what has come since."""
        if self._file is None:
            with suppress(OSError):
                self._file = self._path.open("rb")
        if self._file is not None:
            while piece := self._file.read(_PIECE):
                self._text.feed(piece)

    def end(self) -> None:
        """Show what there is left, and close the file."""
        self.look()
        self._text.end()
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True)
class SealedLogs:
    """The logs of a job's replicas once it has ended, as its manifest names them; ``prefix`` is ``jobs/<jobId>/``."""

    storage: Storage
    bucket: str
    prefix: str

    def sizes(self) -> dict[str, int]:
        """Return the size of each replica's log in bytes.

        Raises:
            EngineError: the manifest is not one of this job's logs.
        """
        return {name: int(entry["size"]) for name, entry in self._entries().items()}

    def read(self, replica: str) -> Iterable[bytes]:
        """Return a replica's whole log, in pieces, once it is known to be equal to the sealed log.

        Raises:
            EngineError: it is not, or the manifest is not one of this job's logs.
        """
        entry = self._entries().get(replica)
        return verified(entry, self.storage) if entry is not None else ()

    def _entries(self) -> dict[str, dict[str, Any]]:
        text = self.storage.read(self.bucket, f"{self.prefix}{MANIFEST}")
        entries = read_entries(text, self.bucket, self.prefix) if text is not None else []
        return {entry["replica"]: entry for entry in entries if entry["object"]}


class DriverSpool:
    """The logs of a job's replicas: files of the spool while it lives, then objects.

    Args:
        replicas: their names, None for all of which a log comes to be there, as trials do.
        show: gets a replica's name and a line of its log.
    """

    def __init__(
        self, folder: Path, replicas: Sequence[str] | None, sealed: SealedLogs, show: Callable[[str, str], None]
    ) -> None:
        self._folder = folder
        self._sealed = sealed
        self._show = show
        self._open = replicas is None
        self._texts: dict[str, _Text] = {}
        self._know(replicas or ())
        self._tails = Tails(lambda replica, lines: self._texts[replica].feed(lines))

    def look(self) -> None:
        """Show what has come since."""
        if self._open:
            self._know(spooled(self._folder))
        self._tails.look(self._folder, self._texts)

    def end(self) -> None:
        """Show what there is left."""
        self.look()
        self._tails.look(self._folder, self._texts, partial=True)
        sizes: dict[str, int] = {}
        with suppress(EncampError):
            # If the bucket fails now, `encamp logs` reads it later.
            sizes = self._sealed.sizes()
        if self._open:
            self._know(sizes)
        for replica, text in self._texts.items():
            if sizes.get(replica, 0) > self._tails.position(replica):
                self._tails.rest(replica, self._sealed.read(replica))
            text.end()

    def _know(self, replicas: Iterable[str]) -> None:
        for replica in replicas:
            self._texts.setdefault(replica, _Text(functools.partial(self._show, replica)))
