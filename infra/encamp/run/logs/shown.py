"""A buffer of replicas' lines for readers, who may be slow or not read at all.

Nothing of a job waits for a reader: what a reader has not taken within some megabytes is left out for them, and they
are told how much. The spool has all of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from encamp.run.logs.log_lines import plain

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes that a reader may be behind.
_MOST_BYTES = 8 * 1024 * 1024
#: Seconds that the last lines may take without progress.
_PATIENCE_SECONDS = 5.0
_LONGEST_SHOWN = 4096


class ShownLines:
    """Gives lines to ``show`` one by one, in a thread of its own.

    Args:
        show: gets a replica's name and a line of its log; it may take its time.
    """

    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._shown = 0
        self._left_out = 0
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, replica: str, lines: bytes) -> None:
        """Take whole lines; never waits."""
        with self._changed:
            if self._closed:
                return
            if self._bytes + len(lines) > _MOST_BYTES:
                self._left_out += lines.count(b"\n")
                return
            if self._left_out:
                self._waiting.append((replica, _notice(self._left_out)))
                self._left_out = 0
            self._waiting.append((replica, lines))
            self._bytes += len(lines)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shown lines", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all is shown, or nothing has been for five seconds."""
        with self._changed:
            if self._left_out:
                self._waiting.append(("encamp", _notice(self._left_out)))
                self._left_out = 0
                self._changed.notify_all()
            before, since = self._shown, time.monotonic()
            while (self._waiting or self._busy) and time.monotonic() - since < _PATIENCE_SECONDS:
                self._changed.wait(0.1)
                if self._shown != before:
                    before, since = self._shown, time.monotonic()

    def close(self) -> None:
        """Show no more than what is waiting."""
        self.flush()
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                replica, lines = self._waiting.popleft()
                self._bytes = max(0, self._bytes - len(lines))
                self._busy = True
            for line in lines[:-1].split(b"\n"):
                self._show(replica, plain(line)[:_LONGEST_SHOWN].decode("utf-8", "backslashreplace"))
                self._shown += 1


def _notice(lines: int) -> bytes:
    return b"[encamp] %d lines are left out here, nobody read them in time; `encamp logs` has them\n" % lines
