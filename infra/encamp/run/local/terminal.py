"""A writer to a terminal or pipe with its own thread, so that a slow reader holds up nothing.

Without it a pager that has enough on its page, or a stopped terminal, would hold up the whole run, Ctrl-C included.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque

#: Bytes that may wait before writers block.
_MOST_WAITING = 16 * 1024 * 1024
#: Bytes of one write.
_PIECE = 64 * 1024


class TerminalWriter:
    """A writer of text to a descriptor, in order; a reader that has gone away is no error."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue text for writing; blocks only when the buffer is full."""
        data = text.encode(self._encoding, "backslashreplace")
        with self._changed:
            if self._size >= _MOST_WAITING:
                self._changed.wait_for(lambda: self._size < _MOST_WAITING or self._closing)
            self._waiting.append(data)
            self._size += len(data)
            if len(self._waiting) == 1:  # else the thread has been told and has not come yet
                self._changed.notify_all()

    def close(self, patience: float | None = None) -> None:
        """Wait until all of it is written, at most ``patience`` seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(patience)

    def _run(self) -> None:
        read = True
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                data = b"".join(self._waiting)
                self._waiting.clear()
            read = read and self._written(data)
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()

    def _written(self, data: bytes) -> bool:
        """Write all of it; False if the reader is gone."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view[:_PIECE]) :]
            except BlockingIOError:  # another program has made the terminal non-blocking
                select.select((), (self._descriptor,), ())
            except OSError:
                return False
        return True
