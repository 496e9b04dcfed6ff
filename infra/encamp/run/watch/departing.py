"""Watch over replicas that are being deleted: reports what is waited for, and forces what does not end by itself.

A pod whose node is gone or does not answer stays ``Terminating``, its Job and JobSet stay with it, and every deletion
of them waits. After the pod's own grace period and a little more it is deleted without one, which its node is not asked
about; what then still stands with finalizers loses these. Only pods, Jobs and JobSets with the job's own labels are
taken. Belief: pods-of-lost-nodes-terminate-for-ever.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.leftovers import label_selector
from encamp.errors import EncampError
from encamp.kinds.objects import REPLICA_KINDS
from encamp.run.periodic import Periodic

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.leftovers import JobPlace

#: In the order of their deletion.
_KINDS = tuple(kind.plural for kind in REPLICA_KINDS)
_EVERY_SECONDS = 5.0
#: Seconds after its grace period until a pod is forced, and those for objects without a grace period.
_MARGIN_SECONDS = 20.0
_NAMED = 3


@dataclass
class _Waited:
    """An object that is being deleted, and since when it was seen so."""

    kind: str
    name: str
    uid: str
    since: float
    grace: float
    forced: bool = False

    def __str__(self) -> str:
        return f"{self.kind.removesuffix('s')} {self.name}"


class Departures(Periodic):
    """The watch over one job's deletions while the context lasts.

    Args:
        show: gets a line for people every few seconds while anything is waited for.
        held: raises LeaseLostError once the job is another's; asked before force is used.
    """

    def __init__(
        self,
        cluster: Cluster,
        place: JobPlace,
        show: Callable[[str], None],
        held: Callable[[], None],
        *,
        every: float = _EVERY_SECONDS,
        margin: float = _MARGIN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("departures", every)
        self._cluster = cluster
        self._place = place
        self._show = show
        self._held = held
        self._margin = margin
        self._clock = clock
        self._waited: dict[str, _Waited] = {}
        self._trouble = ""

    def step(self) -> bool:
        """Look once, say what goes slowly, and take what is overdue."""
        try:
            self._look()
            self._take()
            self._trouble = ""
        except EncampError as error:
            if error.what != self._trouble:
                self._trouble = error.what
                self._show(f"what the replicas wait for cannot be told: {error.what}")
        return True

    def _look(self) -> None:
        selector = label_selector(self._place.labels)
        now = self._clock()
        there: dict[str, _Waited] = {}
        for kind in _KINDS:
            for found in self._cluster.list(kind, self._place.namespace, selector):
                metadata: dict[str, Any] = found["metadata"]
                if metadata.get("deletionTimestamp"):
                    grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
                    new = _Waited(kind, metadata["name"], metadata["uid"], now, grace)
                    there[new.uid] = self._waited.get(new.uid, new)
        self._waited = there
        if there:
            self._say(list(there.values()), now)

    def _say(self, waited: list[_Waited], now: float) -> None:
        longest = max(waited, key=lambda one: now - one.since)
        names = ", ".join(map(str, waited[:_NAMED])) + (f" and {len(waited) - _NAMED} more" if waited[_NAMED:] else "")
        bound = self._bound(longest)
        self._show(f"waiting for {names} to go, for {now - longest.since:.0f} s; taken by force after {bound:.0f} s")

    def _take(self) -> None:
        """Take the first kind of which something is overdue: what owns it may go by itself then."""
        now = self._clock()
        for kind in _KINDS:
            overdue = [one for one in self._waited.values() if one.kind == kind and now - one.since > self._bound(one)]
            for one in overdue:
                self._held()
                self._cluster.force(one.kind, self._place.namespace, one.name, one.uid, finalizers=one.forced)
                if not one.forced:
                    one.forced = True
                    self._show(f"{one} did not go within {self._bound(one):.0f} s; it is deleted by force")
            if overdue:
                return

    def _bound(self, one: _Waited) -> float:
        """Return seconds after which an object is taken: what owns others is given longer than these."""
        graces = [other.grace for other in self._waited.values()]
        return max(graces, default=0.0) + self._margin * (1 + _KINDS.index(one.kind))
