"""Attempts to bring one job up, and the work between two of them (see ``bring_up``)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import Leftover
from encamp.errors import EngineError
from encamp.run.history.retention import delete_if_empty, is_results_bucket
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Sequence

    from encamp.cloud.storage import Storage
    from encamp.run.engine.job_engine import JobEngine
    from encamp.run.engine.unanswered import Unanswered
    from encamp.run.lifecycle.teardown import Teardown
    from encamp.run.store.intent import Intent


class OverdueError(EngineError):
    """The job's time was over before it was up; ``outcome`` is how it ends."""

    def __init__(self, outcome: Outcome, job: str) -> None:
        super().__init__(outcome.message, where=job)
        self.outcome = outcome


@dataclass(frozen=True)
class JobPreparation:
    """The preparation of one job.

    Attributes:
        bring_up: brings its stack up, going on from its state.
        check_job: raises where the job is another driver's, or was cancelled.
        overdue: how the job ends because it waits for too long, None while it does not.
        cancelled: set when it is to end.
    """

    intent: Intent
    engine: JobEngine
    teardown: Teardown
    storage: Storage
    bring_up: Callable[[], None]
    check_job: Callable[[], None]
    overdue: Callable[[], Outcome | None]
    cancelled: threading.Event

    def start(self) -> None:
        """Bring the stack up, resuming from its state."""
        self.bring_up()

    def settle(self, creates: Sequence[Unanswered], lock: str) -> None:
        """Take away a dead engine's lock, and delete what these creates and those that never had an answer made."""
        if lock:
            self.engine.unlock(self.intent.stack, lock)
        self.teardown.settle(creates, self._results())

    def made(self) -> Collection[str]:
        """Return names, ids and e-mails of the things that were made, as far as the engine's state can be read."""
        try:
            return self.engine.state(self.intent.stack).called
        except EngineError:
            return ()

    def check(self) -> None:
        """Raise if the job is cancelled or beyond its limits."""
        self.check_job()
        outcome = self.overdue()
        if outcome is None and time.time() > self.intent.deadline:
            outcome = Outcome(State.CANCELLED, "its deadline has passed")
        if outcome is not None:
            raise OverdueError(outcome, self.intent.job_id)

    def pause(self, seconds: float) -> None:
        """Pause; a cancel ends the pause at once."""
        self.cancelled.wait(seconds)

    def _results(self) -> Iterator[Leftover]:
        """Yield the job's bucket for its results, which a tear-down leaves; an empty one is made anew as well."""
        name = self.intent.results_bucket
        found = self.storage.bucket(name) if name is not None else None
        if name is not None and found is not None and is_results_bucket(found, self.intent.name):
            yield Leftover("bucket", f"gs://{name}", partial(delete_if_empty, self.storage, name))
