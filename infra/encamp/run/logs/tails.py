"""Logs of replicas as they grow in a folder, each byte given away once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_READ_BYTES = 1024 * 1024


class Tails:
    """Logs that grow, given away as whole lines once each; every reader takes its own time.

    Args:
        write: gets a replica's name and whole lines.
        positions: how many bytes of each log are not wanted.
    """

    def __init__(self, write: Callable[[str, bytes], None], positions: Mapping[str, int] | None = None) -> None:
        self._write = write
        self._positions = dict(positions or {})

    def look(self, folder: Path, replicas: Iterable[str], *, partial: bool = False) -> None:
        """Pass on what has come since; an unfinished line only if ``partial`` is set."""
        for replica in replicas:
            with suppress(FileNotFoundError), (folder / f"{replica}.log").open("rb") as stream:
                # A log that is read anew after a broken connection is shorter for a while, and says the same again.
                stream.seek(self.position(replica))
                while piece := stream.read(_READ_BYTES):
                    whole = piece.rfind(b"\n") + 1
                    if not whole and not partial and len(piece) < _READ_BYTES:
                        break
                    self._give(replica, piece if partial else piece[: whole or None])
                    stream.seek(self.position(replica))

    def position(self, replica: str) -> int:
        """Return the number of a replica's log bytes that were passed on."""
        return self._positions.get(replica, 0)

    def rest(self, replica: str, pieces: Iterable[bytes]) -> None:
        """Pass on the part of a whole log that was not passed on yet."""
        skip = self.position(replica)
        for piece in pieces:
            if len(piece) > skip:
                self._give(replica, piece[skip:])
            skip = max(0, skip - len(piece))

    def _give(self, replica: str, lines: bytes) -> None:
        self._positions[replica] = self.position(replica) + len(lines)
        self._write(replica, lines)
