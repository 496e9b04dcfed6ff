"""Trials in the job's cluster: each a JobSet that the study object owns, watched by two questions for all of them.

What a trial holds is given up beside the study's own steps, so that its machines serve the next at once: its logs are
sealed when they have come to their ends, then its JobSet goes.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from encamp.cloud.kubernetes import RefusedError
from encamp.cloud.leftovers import JOB_LABEL
from encamp.errors import EncampError
from encamp.plan.names import trial_log_name, trial_name
from encamp.run.logs.replicas import trial_number
from encamp.run.studies.event_folders import event_folder
from encamp.run.studies.host import TrialLook
from encamp.run.studies.metrics import TrialMetrics
from encamp.run.studies.template import begun_as
from encamp.run.studies.trial_watch import TrialWatch
from encamp.run.watch.watching import JobSetWatch
from encamp.tuning.model import TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.storage import Storage
    from encamp.run.logs.replicas import Replica
    from encamp.run.logs.stream import LogStreams
    from encamp.run.store.intent import Intent
    from encamp.run.studies.template import StudyObject
    from encamp.tuning.model import Trial

_LOG = logging.getLogger(__name__)
_READERS, _SETTLERS = 8, 4
#: Seconds that the logs of an ended trial are waited for before its JobSet is deleted.
_QUIET_SECONDS = 60.0
_PAUSE_SECONDS = 0.05
#: After how long a JobSet that was to go and is still there is told again.
_AGAIN_SECONDS = 30.0


class ClusterTrials:
    """The trials of one job.

    Args:
        streams: of the job; a trial's logs are followed there.
        storage: where event files are looked for.
        seal: stores the logs of these replicas.
        recover: completes the logs of these replicas from Cloud Logging.
        remaining: seconds after which the cluster ends a trial that begins now by itself.
        show: gets a line for people.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        cluster: Cluster,
        intent: Intent,
        study: StudyObject,
        *,
        streams: LogStreams,
        storage: Storage,
        seal: Callable[[Sequence[str]], None],
        recover: Callable[[Sequence[str]], None],
        remaining: Callable[[], float],
        show: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._intent = intent
        self._study = study
        self._streams = streams
        self._storage = storage
        self._seal = seal
        self._recover = recover
        self._remaining = remaining
        self._show = show
        self._clock = clock
        self._selector = f"{JOB_LABEL}={intent.name}"
        self._watches: dict[int, TrialWatch] = {}
        self._refused: dict[int, str] = {}
        self._told: set[int] = set()
        self._settling: dict[int, tuple[float, Future[None]]] = {}
        self._readers = ThreadPoolExecutor(_READERS, "trials' reports")
        self._settlers = ThreadPoolExecutor(_SETTLERS, "trials' ends")
        self._closed = False
        self.job_sets: list[dict[str, Any]] = []
        self.pods: list[dict[str, Any]] = []
        self.seen: dict[str, Replica] = {}

    def close(self) -> None:
        """Cancel what is under way; tear-down seals and deletes what is left."""
        self._closed = True
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._settlers.shutdown(cancel_futures=True)

    @property
    def ending(self) -> bool:
        """Whether replicas of a trial have ended that is not settled: its last reports are on their way."""
        return any(watch.ending for number, watch in self._watches.items() if number not in self._settling)

    def recorded(self) -> list[Trial]:
        """Return every trial that there is a JobSet of, as it was when it began.

        Raises:
            EngineError: the cluster gives no answer.
        """
        job_sets = self._cluster.list("jobsets", self._intent.namespace, self._selector)
        return [trial for trial in map(begun_as, job_sets) if trial is not None]

    def begin(self, trial: Trial) -> None:
        """Make a trial's JobSet; one that is there is taken as it is.

        Raises:
            EngineError: the cluster gives no answer.
        """
        job_set = self._study.job_set(trial, max(1, int(self._remaining())))
        try:
            self._cluster.create("jobsets", self._intent.namespace, job_set)
        except RefusedError as error:
            self._refused[trial.number] = f"the cluster refused it: {error.what}"
        else:
            self._watch(trial.number)

    def look(self) -> Mapping[int, TrialLook]:
        """Return every trial that was begun and not settled.

        Raises:
            EngineError: the cluster gives no answer.
        """
        namespace, now = self._intent.namespace, self._clock()
        # Taken before the listing: a trial that was begun before and is not listed is gone.
        begun = set(self._watches)
        self.job_sets = self._cluster.list("jobsets", namespace, self._selector)
        self.pods = self._cluster.list("pods", namespace, self._selector)
        pods: dict[int | None, list[dict[str, Any]]] = {}
        for pod in self.pods:
            pods.setdefault(_trial_of(pod), []).append(pod)
        there = {number: one for one in self.job_sets if (number := _trial_of(one)) is not None}
        found: dict[int, TrialLook] = {
            number: TrialLook(TrialState.FAILED, message=why) for number, why in self._refused.items()
        }
        for number, job_set in sorted(there.items()):
            if number in self._settling:
                self._settle_again(number)
                continue
            watch = self._watch(number)
            found[number] = watch.look(job_set, pods.get(number, []), now)
            self.seen.update(watch.watch.seen)
        for number in sorted(begun - set(there)):
            if number in self._settling:
                self._forget(number)
            else:
                found[number] = self._watches[number].gone()
        return found

    def stop(self, number: int) -> None:
        """Stop a trial's replicas.

        Raises:
            EngineError: the cluster gives no answer.
        """
        self._told.add(number)
        if number in self._watches:
            self._watches[number].stopped = True
        self._cluster.delete("jobsets", self._intent.namespace, trial_name(self._intent.name, number), wait=False)

    def settle(self, number: int) -> None:
        """Seal a trial's logs and delete its JobSet, beside all else."""
        self._refused.pop(number, None)
        if number in self._watches and number not in self._settling and not self._closed:
            self._settling[number] = time.monotonic(), self._settlers.submit(self._settled, self._watches[number])

    def _watch(self, number: int) -> TrialWatch:
        if number not in self._watches:
            names = [trial_log_name(number, name) for name in self._intent.replicas]
            job_set = JobSetWatch(
                self._cluster,
                self._intent.namespace,
                trial_name(self._intent.name, number),
                streams=self._streams,
                show=self._show,
                called=f"trial {number}",
                patience=0,
            )
            metrics = TrialMetrics(
                self._study.plan.metric,
                [self._streams.log(name).path for name in names],
                event_folder(self._intent.job_dir, number, self._storage),
            )
            self._watches[number] = TrialWatch(
                number,
                job_set,
                metrics,
                replicas=self._study.replicas,
                streams=self._streams,
                pool=self._readers,
                recover=lambda: self._recover(names),
            )
            self._watches[number].stopped = number in self._told
        return self._watches[number]

    def _settled(self, watch: TrialWatch) -> None:
        """Wait for a trial's logs, seal them and delete its JobSet; what goes wrong is done at the job's end."""
        name = trial_name(self._intent.name, watch.number)
        if not watch.terminal:
            # Judged before its end, as one that ran out of memory; its machines are for others.
            self._delete(name)
        end = time.monotonic() + _QUIET_SECONDS
        while not (watch.quiet or self._closed) and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
        if self._closed:
            return
        try:
            self._seal(watch.logs)
        except EncampError as error:
            _LOG.warning("the logs of trial %s are not sealed yet: %s", watch.number, error.what)
        self._delete(name)

    def _delete(self, name: str) -> None:
        try:
            self._cluster.delete("jobsets", self._intent.namespace, name, wait=False)
        except EncampError as error:
            _LOG.warning("%s is still there: %s", name, error.what)

    def _settle_again(self, number: int) -> None:
        since, settling = self._settling[number]
        if settling.done() and time.monotonic() - since > _AGAIN_SECONDS:
            del self._settling[number]
            self.settle(number)

    def _forget(self, number: int) -> None:
        """Stop watching a settled trial whose JobSet is gone."""
        if self._settling[number][1].done():
            del self._watches[number], self._settling[number]


def _trial_of(found: Mapping[str, Any]) -> int | None:
    return trial_number(found["metadata"].get("labels") or {})
