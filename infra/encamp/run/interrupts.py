"""Ctrl-C and its kin: the first cancels the job, later ones are told that tearing down goes on."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns signals into an event, for as long as the context lasts. Nothing is ever raised in between.

    Args:
        show: gets a line for people.
        first: called at the first signal, in the main thread.

    Attributes:
        cancelled: set at the first signal.
    """

    def __init__(self, show: Callable[[str], None], first: Callable[[], None]) -> None:
        self._show = show
        self._first = first
        self._before: dict[int, object] = {}
        self._ending = False
        self.cancelled = threading.Event()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def ending(self) -> None:
        """From now on the job has ended by itself: a signal cancels nothing any more."""
        self._ending = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._ending or self.cancelled.is_set():
            self._show("tearing down goes on; it ends by itself, so that nothing is left that costs money")
            return
        self.cancelled.set()
        self._show("cancelling: the job is stopped, its logs are kept, everything it made is taken down")
        self._first()
