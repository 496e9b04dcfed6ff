"""Takes one job without a living driver over: supervises it on, or brings it to its end.

Everything is done under the job's lease. Whoever loses it stops at once and leaves everything as it is.
"""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from encamp.errors import EngineError
from encamp.project import project_folder
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.locks import ADOPTED, Fence
from encamp.run.engine.run_errors import UnreadableStateError
from encamp.run.engine.stalling import stall_seconds
from encamp.run.engine.workspace import make_workspace
from encamp.run.lifecycle.by_hand import began_at, running_at, written_job
from encamp.run.lifecycle.ending import check_lease, ending
from encamp.run.lifecycle.finding import Finding, Verdict
from encamp.run.lifecycle.judging import LEFT, OVER, Facts, Judgement, Seen, judge
from encamp.run.lifecycle.reached import reach
from encamp.run.lifecycle.resuming import LeftError, Resumption
from encamp.run.lifecycle.supervision import supervision, watching
from encamp.run.lifecycle.teardown import Teardown
from encamp.run.logs.stream import LogStreams
from encamp.run.store import holder
from encamp.run.store.actor import ACTOR, Actor
from encamp.run.store.journal import time_of
from encamp.run.store.keeper import LeaseKeeper
from encamp.run.store.records import LeaseLostError
from encamp.run.store.requests import RequestWatch
from encamp.run.store.states import Outcome, State
from encamp.run.studies.supervisor import Supervised
from encamp.run.watch.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from datetime import datetime
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.engine.events import ResourceStep
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.candidates import Candidate
    from encamp.run.lifecycle.target import Target
    from encamp.run.logs.replicas import Replica
    from encamp.run.store.records import CancelRequest, Lease, Records, RunRecord
    from encamp.run.watch.supervise import Supervision


class Reaper:
    """One job's.

    Args:
        gate: entered while the job is brought to its end, so that not all jobs are at once.
    """

    def __init__(
        self,
        candidate: Candidate,
        context: Context,
        records: Records,
        target: Target,
        gate: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._candidate = candidate
        self._intent = candidate.intent
        self._job = candidate.intent.job_id
        self._context = context
        self._records = records
        self._target = target
        self._gate = gate or nullcontext()
        self._folder = context.job_folder(self._intent.name)
        self._lease: Lease
        self._wake = threading.Event()
        self._leaving = False
        self._lost = False
        self._cancel: CancelRequest | None = None
        self._engine: JobEngine | None = None
        self._usage: Usage | None = None
        self._running: datetime | None = None
        self._shown = self._resuming = False
        found = reach(context, target, self._intent)
        self._cluster, self._seen, self._ended, self._trouble = found.cluster, found.seen, found.ended, found.trouble
        self._since: datetime | None = None
        if candidate.record is None:
            self._since = began_at(candidate.state, found.job_set)
            self._intent = self._intent.model_copy(update={"job": written_job(found.job_set, self._job)})
        # Without a cluster no stream is ever begun; what was spooled before is still there.
        self._streams = LogStreams(
            cast("Cluster", self._cluster), self._intent.namespace, self._folder / "logs", self._log
        )

    def dry_run(self) -> Finding:
        """Report the action for the job without performing it."""
        judgement = self._judged(self._candidate.record)
        verdict = Verdict.WOULD_END if judgement.over else Verdict.HELD
        return Finding(self._job, verdict, judgement.why, resources=self._resources())

    def run(self, *, wait: bool) -> Finding:
        """Bring the job to its end if it is over; else look at it once, or with ``wait`` until it is over.

        Raises:
            UsageError: a living driver holds it.
            LeaseLostError: another has taken it.
            EngineError: it cannot be judged.
        """
        judgement = self._judged(self._candidate.record)
        if not (judgement.over or judgement.goes_on):
            return Finding(self._job, Verdict.HELD, judgement.why)
        if not self._engine_is_ours(judgement):
            return Finding(self._job, Verdict.HELD, "another engine run works on its stack")
        before = self._records.last_hold(self._job)
        self._lease = self._records.adopt(self._job, self._intent.name, self._intent.to_json(), self._since)
        asked = RequestWatch(self._records, self._lease, cancel=self._asked, lost=self._lose)
        with LeaseKeeper(self._records, self._lease, self._lose), asked:
            self._records.append(self._lease, ACTOR, {"did": "taken over", **Actor.myself().to_json()})
            if before is not None and before.expires > 0 and before.place != _me()["place"]:
                held = {"host": before.host, "place": before.place, "expired": before.expires}
                self._records.append(self._lease, ADOPTED, held)
            return self._held(wait=wait)

    def leave(self) -> None:
        """Let go of a job that trains or is being prepared; one that is being brought to its end comes to it."""
        self._leaving = True
        self._interrupt_resuming()

    def close(self) -> None:
        """Let go of connections and files."""
        self._streams.close()
        if self._cluster is not None:
            self._cluster.close()

    def _held(self, *, wait: bool) -> Finding:
        """With the lease taken everything is looked at anew: who had it before may have done all there was to do."""
        record = self._records.record(self._job)
        if record is not None and record.torn_down and not self._gone_but_listed():
            return Finding(self._job, Verdict.HELD, "it has come to its end meanwhile")
        judgement = self._judged(record)
        outcome = judgement.outcome
        if not (judgement.over or judgement.goes_on):
            return Finding(self._job, Verdict.HELD, judgement.why)
        self._records.move(self._lease, State.PREPARING, self._since)
        if judgement.prepares:
            judgement = self._resumed(record)
            outcome = judgement.outcome
            if not (judgement.over or judgement.trains):
                return Finding(self._job, Verdict.HELD, judgement.why)
        if not judgement.over:
            outcome = self._supervised(record, wait=wait)
            if outcome is None:
                why = "it still trains and is left to itself" if self._leaving else judgement.why
                return Finding(self._job, Verdict.HELD, why)
            judgement = replace(judgement, why=outcome.message or "its training has ended")
        with self._gate:
            return self._end(outcome, judgement.why, record)

    def _resumed(self, record: RunRecord | None) -> Judgement:
        """Bring the job up from where its driver let go of it; what is to be done with it then."""
        self._context.show("its driver was ended while it was being prepared; going on with it")
        supervisor = self._supervisor(record)
        self._engine = self._engine_in(self._folder, self._fence(record))
        self._resuming = True
        try:
            outcome = Resumption(
                self._context,
                self._records,
                self._lease,
                self._intent,
                self._engine,
                cast("Cluster", self._cluster),
                self._target.outputs.kubeconfig,
                overdue=supervisor.overdue,
                cancel=lambda: self._cancel,
                leaving=lambda: self._leaving,
                woken=self._wake,
            ).run()
        except LeftError as error:
            return Judgement(LEFT, error.what)
        finally:
            self._resuming = False
            supervisor.close()
        if outcome is not None:
            return Judgement(OVER, outcome.message, outcome)
        self._candidate = replace(self._candidate, has_stack=True)
        self._seen = Seen.RUNS
        return Judgement(LEFT, "it was brought up; `encamp reap --wait` supervises it", trains=True)

    def _end(self, outcome: Outcome | None, why: str, record: RunRecord | None) -> Finding:
        supervisor = self._supervisor(record) if self._cluster is not None else None
        if outcome is None:
            outcome = supervisor.look()[0] if supervisor is not None else None
            if outcome is None:
                return Finding(self._job, Verdict.HELD, "its JobSet changes; it is looked at again later")
        elif supervisor is not None and self._seen in {Seen.RUNS, Seen.ENDED}:
            self._look_for_logs(supervisor)
        if supervisor is not None:
            supervisor.close()
        self._context.show(f"{self._job}: {why}")
        self._engine = self._opened(record)
        if self._gone_but_listed():
            self._teardown(self._engine, check=True).run()
            self._records.append(self._lease, "gone", {})
            return Finding(self._job, Verdict.ENDED, f"{why}; {outcome.state}")
        moved = {} if self._candidate.committed else {"folder": str(self._folder)}
        intent = self._intent.model_copy(update=moved)
        end = ending(
            self._context,
            self._records,
            self._lease,
            intent,
            cluster=self._cluster,
            streams=self._streams,
            engine=self._engine,
            committed=self._candidate.committed,
        )
        at = time_of(self._ended) if self._ended is not None else None
        result = end.run(outcome, supervisor.seen.values() if supervisor is not None else (), at=at)
        verdict = Verdict.ENDED if result.teardown_error is None else Verdict.FAILED
        return Finding(self._job, verdict, f"{why}; {outcome.state}", result, result.teardown_error)

    def _look_for_logs(self, supervisor: Supervision) -> None:
        """Begin the streams of what still runs or has just ended; its logs are sealed as far as they can be had."""
        try:
            supervisor.look()
        except EngineError as error:
            self._context.show(f"the replicas cannot be looked at: {error.what}")

    def _supervised(self, record: RunRecord | None, *, wait: bool) -> Outcome | None:
        """The outcome once there is one; None where the job trains on without us."""
        self._shown = wait
        if wait:
            self._context.show("it still trains; supervising it on")
        supervisor = self._supervisor(record, begins=wait)
        try:
            return self._watched(supervisor, wait=wait)
        finally:
            supervisor.close()

    def _watched(self, supervisor: Supervision, *, wait: bool) -> Outcome | None:
        while True:
            outcome, pause = supervisor.step()
            check_lease(self._records, self._lease)
            if outcome is not None or not wait:
                return outcome
            self._wake.wait(pause)
            if self._lost:
                raise LeaseLostError(self._job)
            if self._cancel is not None:
                return Outcome(State.CANCELLED, f"{self._cancel.by} cancelled it")
            if self._records.now() > self._intent.deadline:
                return Outcome(State.CANCELLED, "its deadline has passed")
            if self._leaving:
                return None

    def _supervisor(self, record: RunRecord | None, *, begins: bool = False) -> Supervision:
        """Make the supervision of the job; ``begins`` says whether trials of a study may be begun."""
        times = record.times if record is not None else {}
        if self._usage is None:
            self._usage = Usage(self._records, self._lease, record.entries if record is not None else ())
        cluster = cast("Cluster", self._cluster)
        job = Supervised(self._intent, cluster, self._context.client, self._streams, self._records, lambda: self._lease)
        return supervision(
            job,
            watching(self._context, self._intent.cluster, entered=self._entered, used=self._used),
            self._wake,
            begins=begins,
            running_since=_stamp(times.get(State.RUNNING)),
            begun=_stamp(times.get(State.PREPARING) or times.get(State.QUEUED)),
        )

    def _judged(self, record: RunRecord | None) -> Judgement:
        facts = Facts(
            seen=self._seen,
            record=record,
            state=self._candidate.state,
            ended=self._ended,
            alone=self._target.alone or self._candidate.record is not None,
            cancel=self._records.cancel_requested(self._job),
            gone_but_listed=self._gone_but_listed(),
        )
        judgement = judge(self._intent, facts, self._records.now())
        if self._trouble is not None and not judgement.over:
            raise self._trouble
        return judgement

    def _gone_but_listed(self) -> bool:
        return self._candidate.record is not None and self._candidate.record.torn_down

    def _engine_is_ours(self, judgement: Judgement) -> bool:
        """Whether no engine works on a stack that somebody brings up by hand, and of which no lease tells."""
        state = self._candidate.state
        if self._candidate.record is not None or state is None or not (judgement.over and state.has_pending):
            return True
        return self._engine_at(None).take_lock(self._intent.stack)

    def _opened(self, record: RunRecord | None) -> JobEngine | None:
        if not self._candidate.has_stack:
            return None
        engine = self._engine_at(self._fence(record))
        # What a driver made and died before it wrote it down.
        told = {entry.data.get("urn") for entry in record.entries if entry.kind == "resource"} if record else set()
        # Tear-down sets a state aside that nobody can read.
        with suppress(UnreadableStateError):
            for step in engine.state(self._intent.stack).created():
                if step.urn not in told:
                    self._keep(step)
        return engine

    def _engine_at(self, fence: Fence | None) -> JobEngine:
        if self._candidate.committed:
            return self._engine_in(project_folder(), fence)
        if not (self._folder / "Pulumi.yaml").exists():
            make_workspace(self._folder, self._intent.stack, {"gcp:project": self._intent.project})
        return self._engine_in(self._folder, fence)

    def _engine_in(self, folder: Path, fence: Fence | None) -> JobEngine:
        operations = self._context.operations(self._intent.cluster)
        return JobEngine(folder, self._context.show, self._keep, fence, operations=operations, stall=stall_seconds())

    def _fence(self, record: RunRecord | None) -> Fence:
        """Return the proof that removes locks of dead engines: the lease is ours, and who had it before."""
        me = _me()
        return Fence.of(me["host"], me["place"], record.entries if record is not None else ())

    def _teardown(self, engine: JobEngine | None, *, check: bool) -> Teardown:
        return Teardown(
            self._context.client,
            self._cluster,
            self._intent.place,
            self._context.show,
            engine=engine,
            stack=self._intent.stack,
            committed=self._candidate.committed,
            held=(lambda: check_lease(self._records, self._lease)) if check else lambda: None,
        )

    def _resources(self) -> tuple[str, ...]:
        """Return the job's resources: by the engine's state, and by the cloud's listing."""
        engine = self._engine_at(None) if self._candidate.has_stack else None
        teardown = self._teardown(engine, check=False)
        try:
            named = [f"{name} (in the engine's state)" for name in teardown.listed()]
        except UnreadableStateError as error:
            named = [error.what]
        try:
            return (*named, *map(str, teardown.left()))
        except EngineError as error:
            return (*named, f"unknown: {error.what}")

    def _asked(self, request: CancelRequest) -> None:
        self._cancel = request
        self._interrupt_resuming()

    def _interrupt_resuming(self) -> None:
        self._wake.set()
        if self._resuming and self._engine is not None:
            self._engine.interrupt()

    def _lose(self) -> None:
        self._lost = True
        self._wake.set()
        if self._engine is not None:
            self._engine.interrupt()

    def _log(self, replica: str, line: str) -> None:
        """Lines of a job that has ended are sealed, not shown; those of one that goes on are."""
        if self._shown:
            self._context.log(replica, line)

    def _used(self, replicas: Iterable[Replica]) -> None:
        self._running = running_at(replicas)
        cast("Usage", self._usage).note(replicas)

    def _entered(self, state: State) -> None:
        self._records.move(self._lease, state, self._running)

    def _keep(self, step: ResourceStep) -> None:
        if not self._lost:
            self._records.append(self._lease, "resource", step.to_json())


def _me() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(holder.myself())
    return found


def _stamp(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None
