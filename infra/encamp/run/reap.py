"""Brings jobs without a living driver to their end, whoever started them and whatever died on the way.

Left alone: a job that a living driver holds, one that still trains within its deadline, anything that does not carry
a job's labels, and every environment. What had succeeded stays SUCCEEDED. Of jobs that have ended, what was to be kept
for a time and no longer goes (see ``retention``).
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JOB_LABEL, JobPlace, leftovers
from encamp.cloud.storage import Storage
from encamp.errors import EncampError, EngineError, TeardownError, UsageError
from encamp.run.candidates import Candidate, Stranger, candidates, environments, strangers
from encamp.run.ending import Ending, RunResult, ending
from encamp.run.engine import JobEngine
from encamp.run.interrupts import Interrupts
from encamp.run.keeper import LeaseKeeper
from encamp.run.retention import delete_results, expired
from encamp.run.states import Outcome, State
from encamp.run.stream import LogStreams
from encamp.run.supervise import Limits, Supervisor, Watch
from encamp.run.unsealed import store_logs, unsealed
from encamp.run.workspace import make_workspace, project_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.context import Context
    from encamp.run.events import ResourceStep
    from encamp.run.records import Lease, Records


class Verdict(StrEnum):
    """What the reaper did, or would do."""

    ENDED = "brought to its end"
    WOULD_END = "would be brought to its end"
    HELD = "left alone"
    FAILED = "not brought to its end"
    EXPIRED = "its results are deleted"
    WOULD_EXPIRE = "its results would be deleted"
    SEALED = "its logs are stored"
    WOULD_SEAL = "its logs would be stored"


@dataclass(frozen=True)
class Finding:
    """One job that the reaper looked at; ``why`` in plain words."""

    job: str
    verdict: Verdict
    why: str
    result: RunResult | None = None
    error: EncampError | None = None


def reap(
    context: Context, *, dry_run: bool = False, wait: bool = False, clock: Callable[[], float] = time.time
) -> list[Finding]:
    """Look at every job that may need an end, and at every ended one whose results are kept no longer.

    With ``dry_run`` it only says what would be done; with ``wait`` it supervises what still trains to its end.
    ``clock`` gives the seconds since the epoch by which results are judged.

    Raises:
        EngineError: the engine cannot be asked for its stacks.
    """
    records = context.records()
    try:
        findings = _store(context, records, None, dry_run=dry_run)
        known: set[str] = set()
        for candidate in list(candidates(context, records)):
            known.add(candidate.intent.name)
            findings.append(_guarded(candidate, context, records, dry_run=dry_run, wait=wait))
        findings += [_end_stranger(one, context, dry_run=dry_run) for one in list(strangers(context, known))]
        return [*findings, *_expire(context, datetime.fromtimestamp(clock(), UTC), dry_run=dry_run)]
    finally:
        records.close()


def _guarded(candidate: Candidate, context: Context, records: Records, *, dry_run: bool, wait: bool) -> Finding:
    job = candidate.intent.job_id
    held = records.holder_of(job)
    if held is not None:
        return Finding(job, Verdict.HELD, f"{held} drives it")
    try:
        reaper = _Reaper(candidate, context, records)
        try:
            return reaper.run(dry_run=dry_run, wait=wait)
        finally:
            reaper.close()
    except UsageError as error:
        return Finding(job, Verdict.HELD, error.what)
    except EncampError as error:
        return Finding(job, Verdict.FAILED, error.what, error=error)


class _Reaper:
    def __init__(self, candidate: Candidate, context: Context, records: Records) -> None:
        self._candidate = candidate
        self._intent = candidate.intent
        self._context = context
        self._records = records
        self._cluster = self._reachable()
        self._lease: Lease
        self._cancelled = threading.Event()
        self._folder = context.job_folder(self._intent.name)
        self._shown = False
        self._streams = LogStreams(self._cluster, self._intent.namespace, self._folder / "logs", self._log)
        limits = Limits(self._intent.max_running_seconds, None, len(self._intent.replicas))
        watch = Watch(context.show, self._entered, context.pools(self._intent.cluster), context.allocatable)
        began = candidate.record.times.get(State.RUNNING) if candidate.record else None
        self._supervisor = Supervisor(
            self._cluster,
            self._intent.namespace,
            self._intent.name,
            limits=limits,
            streams=self._streams,
            watch=watch,
            cancelled=self._cancelled,
            running_since=began.timestamp() if began else None,
        )

    def run(self, *, dry_run: bool, wait: bool) -> Finding:
        job = self._intent.job_id
        outcome, ended, why = self._settled()
        over = outcome is not None or ended
        if dry_run or not (over or wait):
            return Finding(job, Verdict.WOULD_END if over else Verdict.HELD, why)
        self._shown = not over
        self._lease = self._records.adopt(job, self._intent.name, self._intent.to_json())
        self._records.move(self._lease, State.PREPARING)
        engine = self._engine()
        with (
            LeaseKeeper(self._records, self._lease, self._cancelled.set),
            Interrupts(self._context.show, self._cancelled.set) as interrupts,
        ):
            if ended:
                outcome = self._supervisor.look()[0]
            if outcome is None:
                self._context.show(f"{job} still trains; supervising it to its end")
                outcome = self._supervisor.run()
            interrupts.ending()
            self._context.show(f"{job}: {why}")
            result = self._ending(engine).run(outcome, self._supervisor.seen.values())
        verdict = Verdict.ENDED if result.teardown_error is None else Verdict.FAILED
        return Finding(job, verdict, f"{why}; {outcome.state}", result, result.teardown_error)

    def close(self) -> None:
        """Let go of connections and files."""
        self._streams.close()
        self._cluster.close()

    def _settled(self) -> tuple[Outcome | None, bool, str]:
        """The outcome where it is known without looking at pods; whether the training has ended; and why."""
        record = self._candidate.record
        exists, ended = self._supervisor.peek()
        if record is not None and record.outcome is not None:
            return record.outcome, False, "its driver died after the training had ended"
        if ended:
            return None, True, "its training has ended"
        if not exists:
            what = "its driver died before the training began" if record else "its JobSet is gone"
            return Outcome(State.FAILED, what), False, what
        if time.time() > self._intent.deadline:
            what = "its deadline has passed"
            return Outcome(State.CANCELLED, what), False, what
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._intent.deadline))
        return None, False, f"it still trains, and may until {until}; `encamp reap --wait` supervises it"

    def _reachable(self) -> Cluster:
        environment = self._context.environment(self._intent.environment)
        return self._context.cluster(environment)

    def _engine(self) -> JobEngine | None:
        if not self._candidate.has_stack:
            return None
        if self._candidate.committed:
            folder: Path = project_file().parent
        else:
            folder = self._folder
            if not (folder / "Pulumi.yaml").exists():
                make_workspace(folder, self._intent.stack, {"gcp:project": self._intent.project})
        engine = JobEngine(folder, self._context.show, self._keep)
        if self._candidate.record is None:
            for step in engine.created(self._intent.stack):
                self._keep(step)
        return engine

    def _ending(self, engine: JobEngine | None) -> Ending:
        return ending(
            self._context,
            self._records,
            self._lease,
            self._intent,
            cluster=self._cluster,
            streams=self._streams,
            engine=engine,
            committed=self._candidate.committed,
        )

    def _log(self, replica: str, line: str) -> None:
        """Lines of a job that has ended are sealed, not shown; those of one that goes on are."""
        if self._shown:
            self._context.log(replica, line)

    def _entered(self, state: State) -> None:
        # Before the job is adopted there is nothing to write to; afterwards the state is on record.
        with contextlib.suppress(AttributeError):
            self._records.move(self._lease, state)

    def _keep(self, step: ResourceStep) -> None:
        self._records.append(self._lease, "resource", step.to_json())


def _end_stranger(stranger: Stranger, context: Context, *, dry_run: bool) -> Finding:
    """Things that only the cloud knows of: gone with their deadline, never before."""
    job = stranger.labels[JOB_LABEL]
    names = ", ".join(stranger.found)
    if stranger.deadline is None or stranger.deadline > time.time():
        return Finding(job, Verdict.HELD, f"no record and no stack here; another driver may have it ({names})")
    if dry_run:
        return Finding(job, Verdict.WOULD_END, f"only the cloud knows it, and its deadline has passed ({names})")
    try:
        _sweep(stranger, context)
    except EncampError as error:
        return Finding(job, Verdict.FAILED, error.what, error=error)
    return Finding(job, Verdict.ENDED, f"only the cloud knew it, and its deadline had passed ({names})")


def _expire(context: Context, now: datetime, *, dry_run: bool) -> list[Finding]:
    """Delete what jobs left whose term has passed, in every environment that is up."""
    storage = Storage(context.client)
    findings: list[Finding] = []
    for _, environment in environments(context):
        for one in list(expired(storage, environment.artifacts_bucket, now)):
            why = f"they were kept until {one.until:%Y-%m-%d %H:%M:%S} UTC"
            try:
                if not dry_run:
                    delete_results(storage, one, now)
                findings.append(Finding(one.job_id, Verdict.WOULD_EXPIRE if dry_run else Verdict.EXPIRED, why))
            except EncampError as error:
                findings.append(Finding(one.job_id, Verdict.FAILED, error.what, error=error))
    return findings


def _store(context: Context, records: Records, job: str | None, *, dry_run: bool) -> list[Finding]:
    """Store the logs that could not be stored when their jobs ended."""
    findings: list[Finding] = []
    for one in list(unsealed(context, records)):
        name = one.intent.job_id
        if job is not None and name != job:
            continue
        why = f"they are in {one.spool}"
        try:
            stored = dry_run or store_logs(one, context, records).stored
        except UsageError as error:
            findings.append(Finding(name, Verdict.HELD, error.what))
        except EncampError as error:
            findings.append(Finding(name, Verdict.FAILED, error.what, error=error))
        else:
            verdict = Verdict.WOULD_SEAL if dry_run else Verdict.SEALED if stored else Verdict.HELD
            findings.append(Finding(name, verdict, why if stored else f"{why} and cannot be stored yet"))
    return findings


def _sweep(stranger: Stranger, context: Context) -> None:
    environment = context.environment(stranger.environment)
    place = JobPlace(
        project=environment.project,
        labels=stranger.labels,
        cluster=environment.cluster_path,
        namespace=environment.namespace,
        buckets=(environment.artifacts_bucket,),
    )
    cluster = context.cluster(environment)
    try:
        for one in leftovers(context.client, place, cluster):
            context.show(f"deleting {one}")
            one.delete()
        left = leftovers(context.client, place, cluster)
    finally:
        cluster.close()
    if left:
        raise TeardownError(f"the cloud still lists {', '.join(map(str, left))}", hint="run `encamp reap` again")


def worst(findings: list[Finding]) -> EncampError | None:
    """The error that decides the command's exit code, None where all went well."""
    errors = [finding.error for finding in findings if finding.error is not None]
    return next((error for error in errors if not isinstance(error, EngineError)), errors[0] if errors else None)
