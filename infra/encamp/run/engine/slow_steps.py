"""Messages about the engine's long steps while they last.

An operation on a node pool waits while GKE is at another one of the same cluster: jobs that begin together, an upgrade.
Without a word that looks like a hang.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.duration import Duration
from encamp.errors import EngineError
from encamp.run.periodic import Periodic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from encamp.run.engine.events import EventLog

_EVERY_SECONDS = 60.0
#: A pool without nodes is there within so long where nothing is in its way.
_USUAL_SECONDS = 120.0
_POOLS = "gcp:container/"


class SlowSteps(Periodic):
    """Says once a minute which steps take longer than usual, and GKE's operation if one is about a pool.

    Args:
        events: of the engine run.
        operations: returns GKE's operations in the cluster, in words; None if the cluster is not known.
    """

    def __init__(
        self,
        events: EventLog,
        show: Callable[[str], None],
        operations: Callable[[], Sequence[str]] | None = None,
        *,
        every: float = _EVERY_SECONDS,
        usual: float = _USUAL_SECONDS,
    ) -> None:
        super().__init__("slow-steps", every)
        self._events = events
        self._show = show
        self._operations = operations
        self._usual = usual

    def step(self) -> bool:
        """Show it once."""
        now = time.monotonic()
        slow = [step for step in self._events.open_steps() if now - step.since >= self._usual]
        for step in slow:
            self._show(f"still {step}, for {Duration.of(int(now - step.since)).words}")
        if any(step.type.startswith(_POOLS) for step in slow):
            self._say_operations()
        return True

    def _say_operations(self) -> None:
        if self._operations is None:
            return
        try:
            found = self._operations()
        except EngineError as error:
            self._show(f"what GKE is at cannot be told: {error.what}")
            return
        if found:
            self._show(f"GKE changes a cluster's pools one after another, and is at: {'; '.join(found)}")
