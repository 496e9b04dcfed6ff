"""The port to where trials run: the job's cluster, or this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.run.store.states import ReplicaFailure
    from encamp.tuning.model import Measurement, Trial, TrialState


@dataclass(frozen=True)
class TrialLook:
    """The state of a trial at one look.

    Attributes:
        state: of its replicas alone; whether it has a metric is the study's to judge.
        measurements: all that it has reported so far, in the order of their coming.
        message: why it failed; of one that ended well and reported nothing, what to say of that.
        failure: the replica that failed it.
        started: when all its replicas ran, in seconds since the epoch; None if they do not or that is not known.
        ended: when it ended, likewise.
    """

    state: TrialState
    measurements: tuple[Measurement, ...] = ()
    message: str = ""
    failure: ReplicaFailure | None = None
    started: float | None = None
    ended: float | None = None


class TrialHost(Protocol):
    """Runs the trials of one study."""

    def begin(self, trial: Trial) -> None:
        """Start a trial. One that runs or has run already, begun by an earlier driver, is adopted."""
        ...

    def look(self) -> Mapping[int, TrialLook]:
        """Return every trial that was begun and not settled, by number.

        A trial that was told to stop is CANCELLED once nothing of it runs any more.
        """
        ...

    def stop(self, number: int) -> None:
        """Stop a trial's replicas, and do not wait for it."""
        ...

    def settle(self, number: int) -> None:
        """Keep the logs of a trial that has ended and is on record, and give up what it held."""
        ...
