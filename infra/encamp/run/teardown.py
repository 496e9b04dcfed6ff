"""Takes a job down and proves it: by the engine, by its state, and by what the cloud itself lists."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JobPlace, Leftover, leftovers
from encamp.errors import EncampError, EngineError, TeardownError
from encamp.run.engine import JobEngine, LockedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

_ATTEMPTS = 4
_PAUSE_SECONDS = 5.0


class Teardown:
    """How one job ends.

    Args:
        engine: of the stack's workspace; None where there is no stack.
        committed: the stack's config is committed: the stack stays, empty, as its owner made it.
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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._place = place
        self._show = show
        self._engine = engine
        self._stack = stack
        self._committed = committed
        self._sleep = sleep
        self._there = False

    def run(self) -> None:
        """Take everything down, several times if need be.

        Raises:
            TeardownError: something is left, or its being gone cannot be proven; says what.
        """
        last: EncampError | None = None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._show(f"tear-down is tried again: {last.what if last else ''}")
                self._sleep(_PAUSE_SECONDS * attempt)
            try:
                self._destroy()
                self._sweep()
                self._forget()
            except EncampError as error:
                last = error
            else:
                return
        raise TeardownError(
            f"tear-down did not come to its end: {last.what if last else 'unknown'}",
            where=last.where if last else self._stack,
            hint="run `encamp reap`; what it cannot delete it names",
        ) from last

    def stop(self, job_set: str) -> None:
        """End the job's replicas: delete its JobSet, and return when it and its pods are gone."""
        if self._cluster is not None:
            self._cluster.delete("jobsets", self._place.namespace, job_set)

    def left(self) -> list[Leftover]:
        """What the cloud lists of the job now."""
        return leftovers(self._client, self._place, self._cluster)

    def _destroy(self) -> None:
        self._there = self._engine is not None and self._engine.has(self._stack)
        if self._engine is None or not self._there:
            return
        try:
            self._forget_pending(self._engine)
            self._engine.destroy(self._stack)
        except LockedError:
            raise
        except EngineError as error:
            # What the engine cannot delete the sweep may; the state then has to say the same at the next attempt.
            self._show(f"the engine could not destroy everything: {error.what}")
            self._sweep()
            self._engine.destroy(self._stack)

    def _forget_pending(self, engine: JobEngine) -> None:
        try:
            pending = engine.forget_pending(self._stack)
        except LockedError as error:
            if not engine.unlock(self._stack, error.lock):
                raise
            pending = engine.forget_pending(self._stack)
        for one in pending:
            self._show(f"{one} had no answer when it was created; the cloud is asked whether it exists")

    def _sweep(self) -> None:
        """Delete what the cloud still lists of the job, and ask again."""
        found = self.left()
        for one in found:
            self._show(f"deleting {one}, which the engine did not know")
            one.delete()
        left = self.left() if found else []
        if left:
            raise TeardownError(
                f"the cloud still lists {', '.join(map(str, left))}", where=self._stack, hint="run `encamp reap`"
            )

    def _forget(self) -> None:
        if self._engine is not None and self._there and not self._committed:
            self._engine.remove(self._stack)
