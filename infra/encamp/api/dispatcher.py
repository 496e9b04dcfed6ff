"""Begins the jobs that wait: some at once, each by a driver of its own, which goes on without this process.

What is decided stands in the record, and a job is begun by whoever its record lets, once. So nothing here has to be
right for that: a dispatcher that was killed, that runs twice or sees something late, loses time and no job.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from encamp.errors import EncampError, ExitCode
from encamp.run.store import holder
from encamp.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from encamp.run.store.records import Records
    from encamp.run.store.submissions import Submissions, Waiting

_LOG = logging.getLogger(__name__)
#: Default number of jobs that a server drives at once.
DRIVERS = 4
#: Seconds between looks at the record if nobody wakes the dispatcher.
_LOOK_SECONDS = 1.0
#: Seconds until a job that could not be begun is retried; after the last retry it is FAILED.
_PAUSES_SECONDS = (5.0, 30.0)
#: Seconds that a driver, just started by a dead server, has to identify itself; one that cannot be looked at, to begin.
_CHECK_IN_SECONDS, _BEGIN_SECONDS = 5.0, 60.0
#: Seconds until a failed adoption is retried, and at most.
_ADOPT_SECONDS, _LONGEST_SECONDS = 30.0, 900.0


class Handle(Protocol):
    """Something that was started for a job."""

    def alive(self) -> bool:
        """Whether it is still at work."""
        ...


class Launcher(Protocol):
    """Starts the drivers of jobs."""

    def start(self, job: Waiting) -> Handle:
        """Start the driver of a job that waits.

        Raises:
            EncampError, OSError: it cannot be started now.
        """
        ...

    def find(self, job: Waiting) -> Handle | None:
        """Return the driver that another server started for a job and that still works; None if there is none."""
        ...

    def adopt(self, job: Waiting) -> Handle | None:
        """Start an adopter that ends a begun job without a driver; None if others do that.

        Raises:
            EncampError, OSError: it cannot be started now.
        """
        ...


@dataclass
class _Adoption:
    handle: Handle | None = None
    tries: int = 0
    not_before: float = 0.0


class Dispatcher:
    """Begins the jobs of one environment.

    Args:
        environment: name of its stack.
        drivers: how many jobs are driven at once.
        clock: seconds, for pauses.
    """

    def __init__(
        self,
        submissions: Submissions,
        records: Records,
        launcher: Launcher,
        environment: str,
        *,
        drivers: int = DRIVERS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._submissions = submissions
        self._records = records
        self._launcher = launcher
        self._environment = environment
        self._drivers = drivers
        self._clock = clock
        self._handles: dict[str, Handle] = {}
        self._adoptions: dict[str, _Adoption] = {}
        self._wake = threading.Event()
        self._closed = False
        self._looked = False
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Start looking, in a thread."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something has changed."""
        self._wake.set()

    def close(self) -> None:
        """Stop beginning jobs; drivers go on."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def step(self) -> None:
        """Look once, and do what there is to do.

        Raises:
            EncampError: the record cannot be used.
        """
        if not self._looked:
            for job_id in self._submissions.fail_lost(self._environment):
                _LOG.warning("%s is lost: it waits, and what was sent is not on record", job_id)
            self._looked = True
        for job_id in self._submissions.expire(self._environment):
            _LOG.info("%s waited for longer than its maxWaitTime and is cancelled", job_id)
        # A driver that is gone has written all that it ever will.
        living = {job_id for job_id, handle in self._handles.items() if handle.alive()}
        found = self._submissions.open(self._environment)
        held = self._records.holders() if any(one.begun is not None for one in found) else {}
        driven = living | {one.job_id for one in found if self._is_driven(one, living, held)}
        self._handles = {job_id: handle for job_id, handle in self._handles.items() if job_id in living}
        self._adoptions = {one.job_id: self._adoptions[one.job_id] for one in found if one.job_id in self._adoptions}
        for _ in range(self._drivers - len(driven)):
            if self._closed or not self._begin_next():
                return

    def _is_driven(self, one: Waiting, living: Collection[str], held: Collection[str]) -> bool:
        """Whether somebody is at work on a job, or is now, or may be; ``held`` are ids that a lease is held of."""
        if one.job_id in living:
            return True
        if one.begun is not None:
            return one.job_id in held or self._adopted(one)
        return one.claimed is not None and not self._taken_back(one)

    def _taken_back(self, one: Waiting) -> bool:
        """Return a job to the queue if its driver has not begun it and never will."""
        if one.job_id in self._handles:
            trouble = one.trouble or "its driver ended before it had begun the job"
            self._came_to_nothing(one, trouble)
            return True
        handle = self._launcher.find(one)
        if handle is not None:
            self._handles[one.job_id] = handle
            return False
        who = one.driver or one.claimed_by or ""
        if holder.is_here(who) and not holder.alive(who, math.inf, 0.0):
            # A driver that a server started and had no time to note identifies itself within seconds.
            if one.driver is not None:
                self._came_to_nothing(one, one.trouble or "its driver ended before it had begun the job")
                return True
            over = one.claimed_ago > _CHECK_IN_SECONDS
        else:
            over = one.claimed_ago > _BEGIN_SECONDS and one.driver is None
        return over and self._submissions.take_back(one, tried=False)

    def _came_to_nothing(self, one: Waiting, trouble: str) -> None:
        """Try again later what could not be begun, or give it up."""
        if one.tries < len(_PAUSES_SECONDS):
            _LOG.warning("%s could not be begun and is tried again: %s", one.job_id, visible(trouble))
            self._submissions.take_back(one, trouble, pause=_PAUSES_SECONDS[one.tries])
        elif self._submissions.fail(one.job_id, f"the job could not be begun in {one.tries + 1} tries: {trouble}"):
            _LOG.warning("%s could not be begun and is FAILED: %s", one.job_id, visible(trouble))

    def _adopted(self, one: Waiting) -> bool:
        """Whether somebody brings a begun job without a driver to its end."""
        known = self._adoptions.setdefault(one.job_id, _Adoption())
        if known.handle is not None:
            if known.handle.alive():
                return True
            known.handle = None
        if self._clock() < known.not_before:
            return False
        try:
            known.handle = self._launcher.adopt(one)
        except (EncampError, OSError) as error:
            _LOG.warning("%s has no driver, and none can be started: %s", one.job_id, visible(str(error)))
        else:
            if known.handle is not None:
                _LOG.warning("%s has lost its driver; another takes it over", one.job_id)
        known.not_before = self._clock() + min(_ADOPT_SECONDS * 4**known.tries, _LONGEST_SECONDS)
        known.tries += 1
        return known.handle is not None

    def _begin_next(self) -> bool:
        """Start the driver of the next job; False if none waits."""
        one = self._submissions.claim(self._environment, besides=tuple(self._handles))
        if one is None:
            return False
        try:
            self._handles[one.job_id] = self._launcher.start(one)
        except (EncampError, OSError) as error:
            if isinstance(error, EncampError) and error.exit_code == ExitCode.BAD_INPUT:
                # It cannot become better, such as a job that no key opens.
                self._submissions.fail(one.job_id, f"the job could not be begun: {error}")
            else:
                self._came_to_nothing(one, f"no driver can be started: {error}")
        else:
            _LOG.info("%s: its driver is started", one.job_id)
        return True

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            try:
                self.step()
            except EncampError as error:
                _LOG.error("the jobs that wait could not be looked at: %s", visible(error.what))
            except Exception:  # noqa: BLE001 - whatever it was, jobs go on waiting, and are looked at again
                _LOG.exception("the jobs that wait could not be looked at")
            self._wake.wait(_LOOK_SECONDS)
