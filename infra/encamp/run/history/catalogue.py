"""Every job of an environment, from the record and from the receipts in its artifacts bucket.

Neither is enough: the record knows what lives, but only of drivers that write to it; receipts know what has ended on
any machine, but nothing that still runs. Where the record knows a job, it alone says what became of it: a bucket is
written by others too. A receipt counts where no record knows the job, and only if it can be true. Reads only.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.plan.access.ownership import JOBS, job_prefix
from encamp.run.results.believed import DisbelievedReceiptError, believed_receipt
from encamp.run.results.receipt import RECEIPT, cost_of
from encamp.run.store.actor import Actor
from encamp.run.store.intent import Intent
from encamp.run.store.states import State
from encamp.run.store.study_results import recorded_results, summary_of
from encamp.run.store.submissions import Submissions
from encamp.run.times import time_of
from encamp.run.watch.restarts import restarts_of
from encamp.run.watch.usage import node_seconds, noted
from encamp.spec.job_id import is_job_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.cloud.storage import Storage
    from encamp.run.store.journal import Submitted
    from encamp.run.store.records import CancelRequest, Records, RunRecord
    from encamp.run.store.study_results import StudyResults
    from encamp.run.watch.restarts import Restarts
    from encamp.run.watch.usage import PodUse

#: State of a job that left something in the bucket, of which neither a record here nor a receipt tells more.
UNSPECIFIED = "STATE_UNSPECIFIED"
_STATES = frozenset(State)


@dataclass(frozen=True)
class KnownJob:
    """One job as far as it is known.

    Attributes:
        state: a ``State``, or ``UNSPECIFIED``.
        times: when each state began.
        message: why it ended so (errorMessage).
        driver: its driver and since when, None if it has none or it is not known here.
        intent: None where only the bucket knows the job.
        recorded: a record here knows it; else all that is known comes from the bucket.
        pods: every pod that its drivers saw, as far as the record here tells; none once a receipt says what was used.
        seen: when something of it was first put into the bucket, where nothing tells more.
        sealed: whether its logs were stored at its end, by the record, or by a receipt where no record knows it.
        receipt: None before it ended; without resources, machine time and cost once its results were deleted.
        prefix: ``jobs/<jobId>/`` of ``bucket``.
        torn_down: whether nothing of it is left but what was to be kept.
        cancel: the first request to cancel it, None if nobody asked or that is not known here.
        study: what the record knows of its study, None if it tunes nothing or that is not known here.
        submitted: what was handed in, None if a driver began it without that or it is not known here.
        waiting: it was handed in, and nobody has begun it.
        position: its place among those that wait, from 1; 0 if it does not wait or is about to be begun.
        labels: those that were set since it was accepted, None if none were.
    """

    job_id: str
    name: str | None
    state: str
    times: Mapping[State, datetime]
    message: str
    driver: str | None
    intent: Intent | None
    receipt: Mapping[str, Any] | None
    bucket: str
    prefix: str
    torn_down: bool
    cancel: CancelRequest | None = None
    study: StudyResults | None = None
    submitted: Submitted | None = None
    waiting: bool = False
    position: int = 0
    labels: Mapping[str, str] | None = None
    recorded: bool = False
    sealed: bool = False
    seen: datetime | None = None
    pods: tuple[PodUse, ...] = ()

    @property
    def created(self) -> datetime | None:
        """The time of its acceptance."""
        return self.times.get(State.QUEUED) or min(self.times.values(), default=self.seen)

    @property
    def started(self) -> datetime | None:
        """The time when every replica had started; None if that never was."""
        return self.times.get(State.RUNNING)

    @property
    def ended(self) -> datetime | None:
        """The time of its last state, None before."""
        return next((at for state, at in self.times.items() if state.ended), None)

    @property
    def cost(self) -> float | None:
        """USD by list prices, None before its end and where nothing of it has a price."""
        amount = ((self.receipt or {}).get("cost") or {}).get("amount")
        return None if amount is None else float(amount)

    def cost_so_far(self, now: datetime) -> float | None:
        """Return USD by list prices of the machines that it has held until now.

        None once a receipt says what it was.
        """
        if self.receipt is not None or self.intent is None or not self.pods:
            return None
        # Machines of what has ended stand until the tear-down, which is to come at once.
        seconds = node_seconds(self.pods, self.intent.machines, self.ended or now)
        amount: float | None = cost_of(seconds, self.intent.hourly, self.intent.prices_of)["amount"]
        return amount

    @property
    def restarts(self) -> Restarts | None:
        """Restarts in a job that goes on; None without restarts, or if it has ended."""
        living = self.state in {State.PREPARING, State.RUNNING}
        return restarts_of(self.pods) if living and (self.intent is None or self.intent.study is None) else None

    @property
    def trials(self) -> Mapping[str, Any] | None:
        """Progress of its trials, see ``summary_of``; None without a study, or if it is not known."""
        if self.study is not None and not (self.receipt or {}).get("trials"):
            return summary_of(self.study)
        return (self.receipt or {}).get("trials")

    @property
    def started_by(self) -> Mapping[str, str]:
        """The actor that started it: ``by`` in words, ``account`` at Google if known; empty if nobody is known."""
        if self.intent is not None and self.intent.started_by is not None:
            actor = Actor.from_json(self.intent.started_by)
            return {"by": actor.words(), **({"account": actor.account} if actor.account else {})}
        if self.submitted is not None:
            return {"by": self.submitted.by, "account": self.submitted.by}
        deeds = (self.receipt or {}).get("by") or ()
        return next((deed for deed in deeds if deed.get("did") == "started"), {})

    def running_seconds(self, now: datetime) -> float | None:
        """Return its training time so far or in all; None if it never trained or its end is not known."""
        if self.started is None:
            return None
        end = self.ended or (None if self.state == State.CANCELLING or self.receipt else now)
        return None if end is None else max(0.0, (end - self.started).total_seconds())


class Catalogue:
    """The jobs of one environment.

    Args:
        environment: name of its stack.
        bucket: its artifacts bucket.
    """

    def __init__(self, records: Records, storage: Storage, *, environment: str, bucket: str) -> None:
        self._records = records
        self._storage = storage
        self._environment = environment
        self._bucket = bucket

    def jobs(self) -> list[KnownJob]:
        """Return every job, newest first; those of which not even the time is known come last.

        Raises:
            RestError: the bucket cannot be listed.
        """
        recorded = {record.job_id: record for record in self._records.records() if self._is_here(record)}
        drivers = self._records.holders()
        found = {job_id: self._known(job_id, recorded.get(job_id), drivers, stored=True) for job_id in self._stored()}
        for job_id, record in recorded.items():
            if job_id not in found:
                found[job_id] = self._known(job_id, record, drivers, stored=False)
        places = self._places(*recorded.values())
        known = [replace(job, position=places.get(job.job_id, 0)) for job in found.values() if job is not None]
        return sorted(known, key=_age, reverse=True)

    def job(self, job_id: str) -> KnownJob:
        """Return one job.

        Raises:
            UsageError: neither the record nor the bucket knows it; names the nearest id.
            RestError: the bucket cannot be read.
        """
        record = self._records.record(job_id)
        here = record if record is not None and self._is_here(record) else None
        stored = is_job_id(job_id) and any(True for _ in self._storage.objects(self._bucket, job_prefix(job_id)))
        driver = self._records.holder_of(job_id) if here is not None else None
        found = self._known(job_id, here, {job_id: driver} if driver is not None else {}, stored=stored)
        if found is None:
            raise self._unknown(job_id, record)
        return replace(found, position=self._places(*([here] if here is not None else [])).get(job_id, 0))

    def _is_here(self, record: RunRecord) -> bool:
        """Whether a job belongs to the environment; one whose intent is lost may."""
        return record.environment in {None, self._environment}

    def _places(self, *records: RunRecord) -> dict[str, int]:
        """Return the queue's order, asked for only where one of the records waits."""
        waits = any(record.waiting for record in records)
        return Submissions(self._records).positions(self._environment) if waits else {}

    def _stored(self) -> list[str]:
        names = (name.removeprefix(JOBS).removesuffix("/") for name in self._storage.folders(self._bucket, JOBS))
        return [name for name in names if is_job_id(name)]

    def _known(
        self, job_id: str, record: RunRecord | None, drivers: Mapping[str, str], *, stored: bool
    ) -> KnownJob | None:
        if record is None and not stored:
            return None
        receipt, doubt = (record.receipt, "") if record is not None else self._receipt(job_id)
        outcome = (receipt or {}).get("outcome") or {}
        times = {**(record.times if record else {}), **_times(receipt)}
        state = str(outcome.get("state") or (record.state if record else UNSPECIFIED))
        if state == State.CANCELLED and State.CANCELLED not in times:
            # Its replicas may not have stopped: what takes it down has failed so far.
            state = str(State.CANCELLING)
        message = outcome.get("message") or (record.outcome.message if record and record.outcome else "")
        return KnownJob(
            job_id=job_id,
            name=record.name if record else (receipt or {}).get("name"),
            state=state,
            times=times,
            message=str(message or doubt),
            driver=drivers.get(job_id) if record else None,
            intent=Intent.read(record.intent) if record and record.intent else None,
            receipt=receipt,
            bucket=self._bucket,
            prefix=job_prefix(job_id),
            torn_down=(record is not None and record.torn_down) or (receipt is not None and not _left(receipt)),
            cancel=record.cancel if record else None,
            study=recorded_results(record) if record else None,
            submitted=record.submitted if record else None,
            waiting=record.waiting if record else False,
            labels=record.labels if record else None,
            recorded=record is not None,
            seen=self._first_seen(job_id) if not times else None,
            pods=tuple(noted(record.entries)) if record is not None and receipt is None else (),
            sealed=receipt is not None if record is None else any(entry.kind == "sealed" for entry in record.entries),
        )

    def _first_seen(self, job_id: str) -> datetime | None:
        """Return the time of a job's oldest object, if neither a record nor a receipt tells the job's time."""
        stored = self._storage.objects(self._bucket, job_prefix(job_id))
        return min(filter(None, (time_of(one.updated) for one in stored)), default=None)

    def _receipt(self, job_id: str) -> tuple[dict[str, Any] | None, str]:
        """Return the receipt in the bucket, None if there is none that counts; and why it does not."""
        prefix = job_prefix(job_id)
        text = self._storage.read(self._bucket, f"{prefix}{RECEIPT}")
        if text is None:
            return None, ""
        kept = f"gs://{self._bucket}/{prefix}"
        try:
            return believed_receipt(text, job_id=job_id, environment=self._environment, kept=kept), ""
        except DisbelievedReceiptError as error:
            return None, f"the receipt in its bucket does not count: {error}"

    def _unknown(self, job_id: str, elsewhere: RunRecord | None) -> UsageError:
        if elsewhere is not None:
            other = elsewhere.environment
            return UsageError(f"this job belongs to environment {other}", where=job_id, hint=f"add `-s {other}`")
        known = [job.job_id for job in self.jobs()]
        near = difflib.get_close_matches(job_id, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`encamp list` names every job"
        return UsageError(f"environment {self._environment} knows no such job", where=job_id, hint=hint)


def _age(job: KnownJob) -> tuple[float, str]:
    return job.created.timestamp() if job.created else 0.0, job.job_id


def _left(receipt: Mapping[str, Any]) -> list[str]:
    """Return what tear-down failed to delete; the bucket of results, which is listed too, stays on purpose."""
    kept = (receipt.get("results") or {}).get("bucket")
    return [one for one in receipt.get("left") or [] if not (kept and one.startswith(f"bucket {kept} "))]


def _times(receipt: Mapping[str, Any] | None) -> dict[State, datetime]:
    found = (receipt or {}).get("times") or {}
    return {State(state): datetime.fromisoformat(at) for state, at in found.items() if state in _STATES}
