"""Tear-down of a job, with proof: by the engine, by its state, and by the cloud's own listings.

Beliefs: teardown-deleted-is-404, teardown-destroy-leaves-nothing.
"""

from __future__ import annotations

import itertools
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JobPlace, Leftover, label_selector, objects, resources
from encamp.errors import EncampError, EngineError, TeardownError
from encamp.retries import RetryPolicy, TransientError, with_retries
from encamp.run.engine.run_errors import LockedError, NoStackError, UnreadableStateError
from encamp.run.engine.transient import is_transient
from encamp.run.engine.unanswered import settle
from encamp.run.heartbeat import Heartbeat
from encamp.run.store.records import LeaseLostError
from encamp.run.watch.departing import Departures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.run.engine.job_engine import JobEngine
    from encamp.run.engine.unanswered import Unanswered

#: Attempts for failures that are not known to be transient.
_ATTEMPTS = 4
#: Policy for transient failures: a cloud or a cluster that is away for a quarter of an hour.
_POLICY = RetryPolicy(attempts=20, first_pause=5.0, longest_pause=60.0, total=900.0)
#: Seconds that trials have to stop: as long as replicas take that have to be taken by force.
_STOP_SECONDS = 180
#: Seconds that an unanswered create may take to be listed.
_SETTLE_SECONDS = 2.0


class Teardown:
    """The tear-down of one job.

    Args:
        cluster: the job's API server, None if that is gone, and its objects with it.
        engine: of the stack's workspace; None if there is no stack.
        committed: the stack's config is committed: the stack stays, empty, as its owner made it.
        held: raises LeaseLostError once the job is another's; asked before everything that is deleted.
        swept: called with everything that was deleted because the cloud listed it.
    """

    def __init__(
        self,
        client: GoogleClient,
        cluster: Cluster | None,
        place: JobPlace,
        show: Callable[[str], None],
        *,
        engine: JobEngine | None,
        stack: str,
        committed: bool,
        held: Callable[[], None] = lambda: None,
        swept: Callable[[Leftover], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._place = place
        self._show = show
        self._engine = engine
        self._stack = stack
        self._committed = committed
        self._held = held
        self._swept = swept
        self._sleep = sleep
        self._there = False
        self._unseen: list[Unanswered] = []

    def run(self) -> None:
        """Take everything down, several times if need be.

        Raises:
            TeardownError: something is left, or its being gone cannot be proven; says what.
            LeaseLostError: another driver has the job; nothing was deleted since it has.
        """
        try:
            with_retries(partial(self._attempt, itertools.count(1)), _POLICY, sleep=self._sleep, told=self._tell_retry)
        except LeaseLostError:
            raise
        except EncampError as last:
            raise TeardownError(
                f"tear-down did not finish: {last.what}",
                where=last.where or self._stack,
                hint="run `encamp reap`; what it cannot delete it names",
            ) from last

    def _attempt(self, attempts: Iterator[int]) -> None:
        """Make one attempt; transient failures are retried for longer than others."""
        attempt = next(attempts)
        try:
            self._take_down()
        except LeaseLostError:
            raise
        except EncampError as error:
            self._held()
            if attempt < _ATTEMPTS or is_transient(error.what):
                raise TransientError(error) from error
            raise

    def _take_down(self) -> None:
        with self._departures():
            try:
                self._destroy()
            except UnreadableStateError as error:
                self._set_aside(error)
            self._settle()
            self._sweep()
        self._forget()

    def _departures(self) -> AbstractContextManager[object]:
        """Return replicas that do not go while the context lasts are named, and taken by force at last."""
        if self._cluster is None:
            return nullcontext()
        return Departures(self._cluster, self._place, self._show, self._held)

    def _set_aside(self, error: UnreadableStateError) -> None:
        """Set aside a state that nobody can read: the cloud's listing then is all that is known of the job."""
        self._held()
        place = self._engine.set_aside(self._stack) if self._engine is not None else None
        self._show(f"{error.what}; it is kept as {place}, and what the cloud lists of the job is deleted")
        self._engine, self._there = None, False

    def _tell_retry(self, _: int, pause: float, error: Exception) -> None:
        what = error.what if isinstance(error, EncampError) else str(error)
        self._show(f"tear-down is tried again in {pause:.0f} s: {what}")

    def stop(self, job_set: str) -> None:
        """End the job's replicas: delete its JobSet, and return when it and its pods are gone."""
        if self._cluster is not None:
            self._held()
            with self._departures():
                self._cluster.delete("jobsets", self._place.namespace, job_set)

    def stop_trials(self) -> None:
        """End the replicas of all trials of the job, and return when their JobSets are gone (three minutes at most).

        Raises:
            TeardownError: some are still there.
            EngineError: the cluster gives no answer.
        """
        if self._cluster is None:
            return
        with self._departures():
            self._stop_trials(self._cluster)

    def _stop_trials(self, cluster: Cluster) -> None:
        selector = label_selector(self._place.labels)
        for attempt in range(_STOP_SECONDS):
            found = cluster.list("jobsets", self._place.namespace, selector)
            names = [one["metadata"]["name"] for one in found]
            if not names:
                return
            self._held()
            for name in names if attempt == 0 else ():
                cluster.delete("jobsets", self._place.namespace, name, wait=False)
            self._sleep(1.0)
        raise TeardownError(f"still there: {', '.join(names)}", where=self._stack, hint="run `encamp reap`")

    def settle(self, failed: Iterable[Unanswered], extra: Iterable[Leftover] = ()) -> None:
        """Make way for another attempt to bring the job up: take away a dead engine's lock, and what it left unknown.

        Args:
            failed: creates that failed, and may have been done all the same.
            extra: things of the job that a tear-down leaves alone.

        Raises:
            EngineError: the engine, the cloud or the cluster gives no answer.
        """
        if self._engine is None or not self._engine.has(self._stack):
            return
        creates = {create.name: create for create in (*failed, *self._clear(self._engine))}
        if not creates:
            return
        found, trouble = self._found()
        if trouble is not None:
            raise trouble
        self._settled(creates.values(), [*found, *extra])

    def left(self) -> list[Leftover]:
        """Return what the cloud lists of the job now."""
        found = objects(self._place, self._cluster) if self._cluster is not None else []
        return [*found, *resources(self._client, self._place)]

    def listed(self) -> list[str]:
        """Return what the engine's state lists of the job now, by logical name."""
        if self._engine is None or not self._engine.has(self._stack):
            return []
        return self._engine.resources(self._stack)

    def _destroy(self) -> None:
        self._there = self._engine is not None
        if self._engine is None:
            return
        self._held()
        try:
            self._resolve(self._clear(self._engine))
            if self._cluster is None:
                self._engine.forget_cluster(self._stack)
            self._held()
            self._engine.destroy(self._stack)
        except (LockedError, LeaseLostError, UnreadableStateError):
            raise
        except NoStackError:
            self._there = False
        except EngineError as error:
            # The sweep may delete what the engine cannot; the state then has to say the same at the next attempt.
            self._held()
            self._show(f"the engine could not destroy everything: {error.what}")
            self._sweep()
            self._engine.destroy(self._stack, refresh=True)

    def _clear(self, engine: JobEngine) -> list[Unanswered]:
        """Take away the lock of a dead engine and what it never heard of; returns the creates among that.

        The engine then reaches the cluster as this process does: who brought the job up may have run elsewhere.
        """
        reached = self._cluster.kubeconfig if self._cluster is not None else None
        try:
            return engine.forget_pending(self._stack, reached)
        except LockedError as error:
            if not engine.unlock(self._stack, error.lock):
                raise
            return engine.forget_pending(self._stack, reached)

    def _resolve(self, pending: Sequence[Unanswered]) -> None:
        """Ask the cloud whether creates without an answer happened; what did is deleted before all that it may use."""
        if not pending:
            return
        found, _ = self._found()
        self._unseen = self._settled(pending, found)
        for create in self._unseen:
            self._show(f"{create} had no answer when it was created; the cloud does not list it")

    def _settled(self, creates: Iterable[Unanswered], found: Sequence[Leftover]) -> list[Unanswered]:
        known = set(self._engine.resources(self._stack)) if self._engine is not None else set[str]()
        return settle(creates, known=known, found=found, show=self._show, delete=self._delete)

    def _delete(self, thing: Leftover) -> None:
        self._held()
        with Heartbeat(self._show, lambda: f"still deleting {thing}"):
            thing.delete()
        self._swept(thing)

    def _settle(self) -> None:
        """Wait until unanswered creates are listed."""
        if self._unseen:
            self._sleep(_SETTLE_SECONDS)
            self._unseen = []

    def _found(self) -> tuple[list[Leftover], EngineError | None]:
        """Return what the cloud lists, as far as it answers, and the cluster's error if it does not."""
        trouble: EngineError | None = None
        found: list[Leftover] = []
        try:
            found = objects(self._place, self._cluster) if self._cluster is not None else []
        except EngineError as error:
            trouble = error
        return [*found, *resources(self._client, self._place)], trouble

    def _sweep(self) -> None:
        """Delete what the cloud still lists of the job, and ask again; one that cannot be deleted keeps no other."""
        found, trouble = self._found()
        for one in found:
            self._show(f"deleting {one}, which the engine did not know")
            self._held()
            try:
                self._delete(one)
            except LeaseLostError:
                raise
            except EngineError as error:
                self._show(f"{one} could not be deleted: {error.what}")
                trouble = trouble or error
        if trouble is not None:
            raise trouble
        left = self.left() if found else []
        if left:
            raise TeardownError(
                f"the cloud still lists {', '.join(map(str, left))}", where=self._stack, hint="run `encamp reap`"
            )

    def _forget(self) -> None:
        if self._engine is not None and self._there and not self._committed:
            self._held()
            self._engine.remove(self._stack)
