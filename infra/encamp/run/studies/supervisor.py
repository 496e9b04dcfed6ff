"""The training of a job that tunes: its study goes on step by step, within the limits of the job."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from encamp.cloud.storage import Storage
from encamp.errors import EncampError, UsageError
from encamp.extras import TUNING, need
from encamp.plan.limits import PREPARING_ALLOWANCE_SECONDS
from encamp.run.history.earlier_trials import earlier_trials
from encamp.run.logs.recover import recover_logs
from encamp.run.store.states import Outcome, State
from encamp.run.store.study_results import StudyResults, keep_trials, kept_trials
from encamp.run.store.trial_journal import RESUMED, TRIAL, resumed_data, trials_of
from encamp.run.studies.cluster import ClusterTrials
from encamp.run.studies.loop import Study
from encamp.run.studies.sealing import TrialSeals
from encamp.run.studies.template import UnreadableStudyError, read_study
from encamp.run.watch.supervise import Supervision

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.plan.study import StudyPlan
    from encamp.run.logs.replicas import Replica
    from encamp.run.logs.stream import LogStreams
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Entry, Lease, Records
    from encamp.run.watch.supervise import Limits, Watch
    from encamp.tuning.model import Trial

_SOON_SECONDS = 0.2
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Supervised:
    """A job from the view of its driver.

    Attributes:
        lease: the right to drive it, asked for when something is written.
    """

    intent: Intent
    cluster: Cluster
    client: GoogleClient
    streams: LogStreams
    records: Records
    lease: Callable[[], Lease]

    def entries(self) -> tuple[Entry, ...]:
        """Return the job's journal so far."""
        record = self.records.record(self.intent.job_id)
        return record.entries if record is not None else ()

    def append(self, kind: str, data: dict[str, Any]) -> None:
        """Add to the journal.

        Raises:
            LeaseLostError: another driver has the job.
        """
        self.records.append(self.lease(), kind, data)

    def keep(self, trial: Trial) -> None:
        """Put a trial on record as it is now."""
        self.append(TRIAL, trial.to_json())


class StudySupervisor(Supervision):
    """The supervisor of one study.

    Args:
        begins: whether trials may be begun; else what there is is looked at, judged and settled.
    """

    def __init__(
        self,
        job: Supervised,
        *,
        limits: Limits,
        watch: Watch,
        cancelled: threading.Event,
        begins: bool = True,
        running_since: float | None = None,
        begun: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            limits=limits, watch=watch, cancelled=cancelled, running_since=running_since, begun=begun, clock=clock
        )
        self._job = job
        self._begins = begins
        self._storage = Storage(job.client)
        self._explainer = watch.explainer(job.cluster, job.intent.namespace, clock)
        self._keeper = ThreadPoolExecutor(1, "kept trials")
        self._kept = 0
        self._plan: StudyPlan | None = None
        self._host: ClusterTrials | None = None
        self._study: Study | None = None

    @property
    def seen(self) -> Mapping[str, Replica]:
        """Every pod that the job has had, by its UID."""
        return self._host.seen if self._host is not None else {}

    def look(self) -> tuple[Outcome | None, int]:
        """Take the study a step on, or only look where nothing may be begun: its outcome, and how many pods there are.

        Raises:
            EngineError: the cluster or the record gives no answer.
        """
        if self._study is None:
            outcome = self._open()
            if outcome is not None:
                return outcome, 0
        study, host = self._study, self._host
        if study is None or host is None:
            raise AssertionError("an opened study is there")
        outcome = study.advance() if self._begins else study.observe()
        self._watch.used(host.seen.values())
        if any(trial.started is not None for trial in study.own):
            self._running()
        self._keep_results(study)
        if outcome is None:
            self._explainer.explain(host.job_sets, host.pods)
        return outcome, len(host.pods)

    def _pause(self) -> float:
        """Return the usual pause, or a shorter one while an ended trial's last reports are on their way."""
        return _SOON_SECONDS if self._host is not None and self._host.ending else super()._pause()

    def close(self) -> None:
        """Release what is under way beside the study's steps."""
        if self._host is not None:
            self._host.close()
        self._keeper.shutdown(cancel_futures=True)

    def _open(self) -> Outcome | None:
        """Read the study and all that is known of its trials; an outcome where that cannot be.

        Raises:
            EngineError: the cluster, the bucket or the record gives no answer.
        """
        job, intent = self._job, self._job.intent
        try:
            found = read_study(job.cluster, intent.namespace, intent.name)
            if found is None:
                return Outcome(State.FAILED, "its study was deleted by somebody else")
            self._resume(found.plan)
        except (UnreadableStudyError, UsageError) as error:
            return Outcome(State.FAILED, error.what)
        seals = TrialSeals(self._storage, intent.artifacts_bucket, intent.prefix, job.streams.log)
        host = ClusterTrials(
            job.cluster,
            intent,
            found,
            streams=job.streams,
            storage=self._storage,
            seal=seals.seal,
            recover=lambda names: recover_logs(job.client, intent, job.streams, _quiet, replicas=names),
            remaining=self._remaining,
            show=self._watch.show,
            clock=self._clock,
        )
        self._study = self._made(found.plan, host)
        self._plan, self._host = found.plan, host
        return None

    def _made(self, plan: StudyPlan, host: ClusterTrials) -> Study:
        need("tuning", TUNING)
        from encamp.tuning.methods import search_for  # noqa: PLC0415 - heavy, and wanted by studies alone
        from encamp.tuning.stopping import unpromising  # noqa: PLC0415

        return Study(
            plan,
            search_for(plan),
            host,
            job_id=self._job.intent.job_id,
            trials=self._trials(host),
            keep=self._job.keep,
            unpromising=partial(unpromising, plan),
            show=self._watch.show,
            clock=self._clock,
        )

    def _resume(self, plan: StudyPlan) -> None:
        """Put what the study goes on from on record, once."""
        if plan.resumes is None or any(entry.kind == RESUMED for entry in self._job.entries()):
            return
        trials = earlier_trials(plan, self._job.records, self._storage, self._job.intent.artifacts_bucket)
        self._job.append(RESUMED, resumed_data(plan.resumes, trials))
        self._watch.show(f"the study goes on from {len(trials)} trials of job {plan.resumes}")

    def _trials(self, host: ClusterTrials) -> list[Trial]:
        """Return all that is known: by the journal, and where that is lost by the kept results and by what runs."""
        known = {trial.number: trial for trial in trials_of(self._job.entries())}
        kept = kept_trials(self._storage, self._job.intent.artifacts_bucket, self._job.intent.job_id)
        elsewhere = {trial.number: trial for trial in host.recorded()}
        elsewhere |= {trial.number: trial for trial in (kept.trials if kept is not None else ())}
        for number in sorted(set(elsewhere) - set(known)):
            self._job.keep(elsewhere[number])
            known[number] = elsewhere[number]
        return list(known.values())

    def _remaining(self) -> float:
        """Return seconds after which the cluster ends a trial by itself, should nobody else.

        As late as a job's own JobSet.
        """
        now, wait = self._clock(), self._limits.max_wait_seconds
        since = self._running_since if self._running_since is not None else now
        preparing = PREPARING_ALLOWANCE_SECONDS if wait is None else wait
        return min(since + self._limits.max_running_seconds + preparing, self._job.intent.deadline) - now

    def _keep_results(self, study: Study) -> None:
        """Store every ended trial in the bucket, in the background: any machine can resume from there."""
        ended = sum(trial.state.ended for trial in study.own)
        if ended == self._kept or self._plan is None:
            return
        self._kept = ended
        results = StudyResults(self._job.intent.job_id, self._plan, tuple(study.trials))
        self._keeper.submit(partial(_stored, self._storage, self._job.intent, results))


def _stored(storage: Storage, intent: Intent, results: StudyResults) -> None:
    try:
        keep_trials(storage, intent.artifacts_bucket, intent.prefix, results)
    except EncampError as error:
        # They are written again with the next trial's end, and at the end of the job.
        _LOG.warning("the trials are in the record only: %s", error.what)


def _quiet(_: str) -> None:
    """Drop messages about fetched logs of single trials."""
