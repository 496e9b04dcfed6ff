"""Interrupts of a driver before its job has ended: signals, a request to cancel, the loss of its lease.

The first signal cancels the job, later ones are told that tearing down goes on. For a detached driver SIGHUP means
nothing, and SIGTERM that its machine goes down, which is no reason to end a training of days: it leaves the job to
whoever adopts it.
"""

from __future__ import annotations

import signal
import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop(StrEnum):
    """The reason why a driver stops; each wins over those before it."""

    CANCELLED = "the job is to end"
    LEFT = "the driver is to end, and the job to go on"
    LOST = "another driver has the job"


class Interrupts:
    """Turns signals into an event, for as long as the context lasts. Nothing is ever raised in between.

    Args:
        show: gets a line for people.
        first: called at the first signal, in the main thread, and at a stop for another reason, in its thread.
        detached: no terminal belongs to the driver: SIGTERM leaves the job instead of cancelling it.

    Attributes:
        cancelled: set when the driver is to stop, for whatever reason.
        reason: why; None before.
    """

    def __init__(self, show: Callable[[str], None], first: Callable[[], None], *, detached: bool = False) -> None:
        self._show = show
        self._first = first
        self._detached = detached
        self._before: dict[int, object] = {}
        self._ending = False
        self.cancelled = threading.Event()
        self.reason: Stop | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def ending(self) -> None:
        """Note that the job has ended by itself: from now on a signal cancels nothing."""
        self._ending = True

    def cancel(self, why: str = "") -> None:
        """Cancel the job as the first signal does; ``why`` is said with it. Without effect once it ends."""
        if not self._ending and self.reason is None:
            self._stop(Stop.CANCELLED)
            whose = f", {why}" if why else ""
            self._show(f"cancelling{whose}: the job is stopped, its logs are kept, everything it made is taken down")

    def lose(self) -> None:
        """Stop because another driver has the job; also while the job ends."""
        if self.reason is not Stop.LOST:
            self._stop(Stop.LOST)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._detached and number == signal.SIGHUP:
            return
        if self._ending or self.reason is Stop.CANCELLED:
            self._show("tearing down goes on; it ends by itself, so that nothing is left that costs money")
        elif self._detached and number != signal.SIGINT:
            if self.reason is None:
                self._stop(Stop.LEFT)
                self._show(f"{signal.Signals(number).name}: this driver ends, and the job goes on without it")
        else:
            self.cancel()

    def _stop(self, reason: Stop) -> None:
        self.reason = reason
        self.cancelled.set()
        self._first()
