"""Drives one job from its intent to its receipt: up, supervise, seal, destroy, account.

Bringing up and watching may fail in any way: what follows is always the same ending. Nothing comes between a job and
its ending but the end of the driver itself: SIGKILL, a machine that goes down under a detached driver, a lease that is
lost. Whoever adopts the job then goes on from the record; a driver that has no job any more takes nothing down.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.storage import Storage
from encamp.errors import EncampError, EngineError, UsageError
from encamp.extras import TUNING, need
from encamp.preflight import check_job
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.stalling import stall_seconds
from encamp.run.history.earlier_trials import earlier_trials
from encamp.run.lifecycle.bring_up import BringUp
from encamp.run.lifecycle.ended import FAILURE, failure_data
from encamp.run.lifecycle.ending import Ending, RunResult, ending, job_teardown
from encamp.run.lifecycle.interrupts import Interrupts, Stop
from encamp.run.lifecycle.job_stack import JobStack
from encamp.run.lifecycle.preparation import JobPreparation, OverdueError
from encamp.run.lifecycle.supervision import supervision, watching
from encamp.run.logs.stream import LogStreams
from encamp.run.results.notices import unready
from encamp.run.results.receipt import RECEIPT, spec_hash
from encamp.run.results.source import trainer_source
from encamp.run.store.actor import Actor
from encamp.run.store.intent import Intent, planned_intent
from encamp.run.store.journal import LEFT, RETRY
from encamp.run.store.keeper import LeaseKeeper
from encamp.run.store.requests import RequestWatch
from encamp.run.store.states import Outcome, State
from encamp.run.studies.supervisor import Supervised
from encamp.run.watch.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.plan.model import JobPlan
    from encamp.run.engine.events import ResourceStep
    from encamp.run.history.context import Context
    from encamp.run.logs.replicas import Replica
    from encamp.run.store.outputs import EnvironmentOutputs
    from encamp.run.store.records import CancelRequest, Lease, Records
    from encamp.run.watch.supervise import Supervision


class JobEndedError(UsageError):
    """A job of this id has ended before, here or elsewhere."""


@dataclass(frozen=True)
class JobRequest:
    """A job to run.

    Attributes:
        job: the Job resource as data, with its id.
        job_folder: folder that its ``encamp.packagePath`` is relative to, None if it came from no file.
        environment: name of the environment's stack.
        detached: no terminal belongs to it, see ``interrupts``.
        started_by: who handed it over, None for this process' user.
        submitted: it was handed in and waits, see ``submissions``.
        waited: since how many seconds it did; they count towards its maxWaitTime.
    """

    plan: JobPlan
    job: dict[str, Any]
    environment: str
    job_folder: Path | None = None
    keep_logs: bool = False
    detached: bool = False
    started_by: Actor | None = None
    submitted: bool = False
    waited: float = 0.0


def run_job(request: JobRequest, context: Context, accepted: Callable[[Path], None] | None = None) -> RunResult:
    """Run a job to its end.

    ``accepted`` is called once with the job's folder, when the record holds the intent and nothing has been made yet.

    Raises:
        UsageError: the job id was used before, the job's data is not as it must be, or what a tuning job needs is not
            installed. Nothing was made.
        EngineError: the environment is not up, or the engine is missing, and nothing was made; or this driver had to
            let go of the job, which another one has or may take.
    """
    if request.plan.study is not None:
        need("tuning", TUNING)
    context.show(f"job {request.plan.job_id} in environment {request.environment}")
    environment = context.environment(request.environment)
    look_ahead(request.plan, context.steady)
    for line in unready(request.plan.notices, request.environment, os.environ):
        context.show(f"warning: {line}")
    records = context.records()
    try:
        intent = _intent(request, environment, context)
        return _Driver(request, context, environment, records=records, intent=intent).run(accepted)
    finally:
        records.close()


def look_ahead(plan: JobPlan, context: Context) -> None:
    """Look at what would make a job fail, before anything of it is on record; what may go wrong is shown.

    Raises:
        UsageError: the job id was used before, the job's data is not as it must be, or there is no study to resume.
        EngineError: the environment is not up.
    """
    storage = Storage(context.client)
    _refuse_ended(storage, plan)
    if plan.study is not None and plan.study.resumes is not None:
        with contextlib.closing(context.records()) as records:
            earlier_trials(plan.study, records, storage, plan.storage.bucket)
    for warning in check_job(plan, context.client):
        context.show(f"warning: {warning}")


def _refuse_ended(storage: Storage, plan: JobPlan) -> None:
    """Refuse a job id that was used before, also on another machine with another record."""
    bucket = plan.storage.bucket
    if storage.bucket(bucket) is None:
        raise EngineError("the artifacts bucket is not there", where=f"gs://{bucket}", hint="bring the environment up")
    if storage.read(bucket, f"{plan.storage.prefix}{RECEIPT}") is not None:
        raise JobEndedError(
            "this job has ended: its receipt is in the bucket; a job id is never used again",
            where=plan.job_id,
            hint="choose another --job-id",
        )


def _intent(request: JobRequest, environment: EnvironmentOutputs, context: Context) -> Intent:
    plan = request.plan
    intent = planned_intent(
        plan,
        environment,
        environment_stack=request.environment,
        stack=f"job-{plan.name}",
        folder=str(context.job_folder(plan.name)),
        deadline=float(int(time.time()) + plan.limits.expiry_seconds),
        spec_hash=spec_hash(request.job),
        source=trainer_source(request.job, request.job_folder),
        job=request.job,
        started_by=(request.started_by or Actor.myself()).to_json(),
    )
    scheduling = request.job.get("trainingInput", {}).get("scheduling") or {}
    if intent.max_wait_seconds is None or not scheduling.get("maxWaitTime"):
        return intent
    left = max(0.0, intent.max_wait_seconds - request.waited)
    return intent.model_copy(update={"max_wait_seconds": left})


class _Driver:
    def __init__(
        self,
        request: JobRequest,
        context: Context,
        environment: EnvironmentOutputs,
        *,
        records: Records,
        intent: Intent,
    ) -> None:
        self._request = request
        self._context = context
        self._environment = environment
        self._records = records
        self._intent = intent
        self._folder = context.job_folder(intent.name)
        self._cluster: Cluster = context.cluster(environment)
        self._streams = LogStreams(self._cluster, intent.namespace, self._folder / "logs", context.log)
        # The lease comes first in ``run``, before anything is written or made.
        self._lease: Lease
        self._usage: Usage
        operations = context.operations(intent.cluster)
        self._engine = JobEngine(self._folder, context.show, self._keep, operations=operations, stall=stall_seconds())
        self._interrupts = Interrupts(context.show, self._engine.interrupt, detached=request.detached)
        self._supervisor = self._watching()

    def run(self, accepted: Callable[[Path], None] | None) -> RunResult:
        with self._interrupts:
            intent = self._intent
            self._lease = self._records.begin(
                intent.job_id, intent.name, intent.to_json(), submitted=self._request.submitted
            )
            self._usage = Usage(self._records, self._lease, ())
            asked = RequestWatch(self._records, self._lease, cancel=self._asked, lost=self._interrupts.lose)
            with LeaseKeeper(self._records, self._lease, self._interrupts.lose), asked:
                if accepted is not None:
                    accepted(self._folder)
                error: EncampError | None = None
                outcome = Outcome(State.FAILED, "encamp itself failed; its traceback says how")
                try:
                    outcome = self._train()
                except EncampError as trouble:
                    error = trouble
                    outcome = self._outcome_of(trouble)
                finally:
                    # Also on the way of a traceback: a bug of ours must not leave machines behind.
                    result = self._end(outcome, error)
                return result

    def _end(self, outcome: Outcome, error: EncampError | None) -> RunResult:
        """End the job, unless this driver is not the one to do it.

        Raises:
            EngineError: the job goes on without this driver.
        """
        try:
            if self._interrupts.reason is Stop.LEFT:
                self._records.append(self._lease, LEFT, {})
            self._mine()
            self._interrupts.ending()
            self._supervisor.close()
            if error is not None:
                self._records.append(self._lease, FAILURE, failure_data(error))
            return self._ending().run(outcome, self._supervisor.seen.values(), error)
        except EngineError:
            self._mine()
            raise
        finally:
            self._supervisor.close()
            self._streams.close()
            self._cluster.close()

    def _mine(self) -> None:
        """Raise unless the job is this driver's: it must not be brought up or torn down twice.

        Raises:
            EngineError: it is not; says whose it is.
        """
        job = self._intent.job_id
        if self._interrupts.reason is Stop.LOST or not self._records.holds(self._lease):
            other = self._records.holder_of(job) or "another driver, which has ended since,"
            raise EngineError(
                f"{other} has adopted this job; this driver stops and deletes nothing",
                where=job,
                hint=f"`encamp attach {job}` follows it",
            )
        if self._interrupts.reason is Stop.LEFT:
            raise EngineError("this driver was stopped; the job continues", where=job, hint=f"`encamp attach {job}`")

    def _train(self) -> Outcome:
        self._records.move(self._lease, State.PREPARING)
        self._context.show(f"bringing up stack {self._intent.stack}")
        stack = self._stack()
        stack.write_workspace()
        self._checked()
        try:
            BringUp(self._preparation(stack), self._context.show, self._note_retry).run()
        except OverdueError as error:
            return error.outcome
        self._checked()
        self._context.show("waiting for the replicas" if self._intent.study is None else "the study begins")
        outcome = self._supervisor.run()
        self._mine()
        self._context.show(f"the job is {outcome.state}{f': {outcome.message}' if outcome.message else ''}")
        return outcome

    def _preparation(self, stack: JobStack) -> JobPreparation:
        return JobPreparation(
            self._intent,
            self._engine,
            job_teardown(
                self._context,
                self._records,
                self._lease,
                self._intent,
                cluster=self._cluster,
                engine=self._engine,
                committed=False,
            ),
            Storage(self._context.client),
            bring_up=stack.up,
            check_job=self._checked,
            overdue=self._supervisor.overdue,
            cancelled=self._interrupts.cancelled,
        )

    def _stack(self) -> JobStack:
        return JobStack(
            self._intent,
            self._engine,
            self._folder,
            job=self._request.job,
            job_folder=self._request.job_folder,
            kubeconfig=self._environment.kubeconfig,
            reached=self._cluster.kubeconfig,
            check=self._checked,
        )

    def _note_retry(self, entry: dict[str, Any]) -> None:
        self._records.append(self._lease, RETRY, entry)

    def _checked(self) -> None:
        self._mine()
        if self._interrupts.cancelled.is_set():
            raise EngineError("cancelled by the user", where=self._intent.job_id)

    def _outcome_of(self, error: EncampError) -> Outcome:
        if self._interrupts.reason is Stop.CANCELLED:
            return Outcome(State.CANCELLED, "cancelled by the user")
        return Outcome(State.FAILED, f"the infrastructure failed: {error.what}")

    def _watching(self) -> Supervision:
        job = Supervised(
            self._intent, self._cluster, self._context.client, self._streams, self._records, lambda: self._lease
        )
        watch = watching(self._context, self._intent.cluster, entered=self._entered, used=self._used)
        return supervision(job, watch, self._interrupts.cancelled)

    def _entered(self, state: State) -> None:
        self._records.move(self._lease, state)
        whose = "" if self._intent.study is None else " of a trial"
        self._context.show(f"the job is {state}: every replica{whose} has started")

    def _used(self, replicas: Iterable[Replica]) -> None:
        self._usage.note(replicas)

    def _keep(self, step: ResourceStep) -> None:
        self._records.append(self._lease, "resource", step.to_json())

    def _asked(self, request: CancelRequest) -> None:
        self._interrupts.cancel(f"as {request.by} asked at {request.at:%H:%M:%S} UTC")

    def _ending(self) -> Ending:
        return ending(
            self._context,
            self._records,
            self._lease,
            self._intent,
            cluster=self._cluster,
            streams=self._streams,
            engine=self._engine,
            committed=False,
            keep_logs=self._request.keep_logs,
        )
