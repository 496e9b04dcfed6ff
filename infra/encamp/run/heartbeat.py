"""A heartbeat that says every few seconds what is still waited for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.run.periodic import Periodic

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_SECONDS = 5.0


class Heartbeat(Periodic):
    """Shows a line while the context lasts, first after a few seconds.

    Args:
        what: is waited for, such as ``waiting for the logs of a, b``; empty while there is nothing to say.
    """

    def __init__(self, show: Callable[[str], None], what: Callable[[], str], *, every: float = _EVERY_SECONDS) -> None:
        super().__init__("heartbeat", every)
        self._show = show
        self._what = what
        self._begun = time.monotonic()

    def step(self) -> bool:
        """Show it once."""
        if what := self._what():
            self._show(f"{what}, for {time.monotonic() - self._begun:.0f} s")
        return True
