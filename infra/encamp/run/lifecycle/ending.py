"""The proper end of a job, whoever brings it about: outcome, sealed logs, tear-down, receipt.

The order is the promise: the outcome is on record before anything is touched, the logs are in the bucket before
anything is destroyed, and the record says that a job is gone only after the cloud's own listing is empty. An ending
that another process began is gone on with: what was counted stays counted.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.cloud.storage import Storage
from encamp.errors import EncampError, ExitCode
from encamp.run.engine.events import ResourceStep
from encamp.run.engine.made import swept_step
from encamp.run.heartbeat import Heartbeat
from encamp.run.history.retention import delete_if_empty, is_results_bucket, kept_until, note_term
from encamp.run.lifecycle.teardown import Teardown
from encamp.run.lifecycle.telling import Teller
from encamp.run.logs.recover import recover_logs
from encamp.run.logs.seal import seal_logs, stored_logs
from encamp.run.logs.spool import spooled
from encamp.run.results.notices import Notifier
from encamp.run.results.receipt import RECEIPT, KeptResults, build_receipt
from encamp.run.store.records import LeaseLostError
from encamp.run.store.states import Outcome, State
from encamp.run.store.trial_journal import replicas_of, trials_of
from encamp.run.studies.closing import close_trials, keep_study
from encamp.run.watch.usage import image_digests, node_seconds, sealed_at, used

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.run.engine.job_engine import JobEngine
    from encamp.run.history.context import Context
    from encamp.run.logs.replicas import Replica
    from encamp.run.logs.stream import LogStreams
    from encamp.run.store.intent import Intent
    from encamp.run.store.records import Entry, Lease, Records
    from encamp.run.watch.usage import PodUse

#: How long nothing may come from the streams of an ended job, and how long they may take to come to their ends.
_QUIET_SECONDS, _DRAIN_SECONDS = 60.0, 300.0
_PROBLEMS_SHOWN = 20


@dataclass(frozen=True)
class RunResult:
    """The result of a job.

    Attributes:
        left: what the cloud still lists of it; its results in the bucket are not meant.
        error: the first error of bringing up or watching, None where there was none.
        teardown_error: why tear-down is not done or not proven.
    """

    job_id: str
    outcome: Outcome
    receipt: dict[str, Any] | None
    left: tuple[str, ...]
    results: str
    error: EncampError | None = None
    teardown_error: EncampError | None = None

    @property
    def exit_code(self) -> ExitCode:
        """The command's exit code; a failed tear-down costs money and goes first."""
        if self.teardown_error is not None:
            return ExitCode.TEARDOWN_FAILED
        if self.error is not None and self.outcome.state is not State.CANCELLED:
            return self.error.exit_code
        return self.outcome.exit_code


def ending(
    context: Context,
    records: Records,
    lease: Lease,
    intent: Intent,
    *,
    cluster: Cluster | None,
    streams: LogStreams,
    engine: JobEngine | None,
    committed: bool,
    keep_logs: bool = False,
) -> Ending:
    """The end of a job in its environment.

    ``cluster`` is None where that is gone, ``engine`` where the job has no stack; a committed stack outlives its job.
    """
    teardown = job_teardown(context, records, lease, intent, cluster=cluster, engine=engine, committed=committed)
    return Ending(
        records,
        lease,
        intent,
        client=context.patient,
        streams=streams,
        teardown=teardown,
        show=context.show,
        keep_logs=keep_logs,
    )


def job_teardown(
    context: Context,
    records: Records,
    lease: Lease,
    intent: Intent,
    *,
    cluster: Cluster | None,
    engine: JobEngine | None,
    committed: bool,
) -> Teardown:
    """How a job is taken down under its lease; arguments as for ``ending``."""
    return Teardown(
        context.patient,
        cluster,
        intent.place,
        context.show,
        engine=engine,
        stack=intent.stack,
        committed=committed,
        held=partial(check_lease, records, lease),
        swept=lambda one: records.append(lease, "resource", swept_step(one.kind, one.name).to_json()),
    )


def check_lease(records: Records, lease: Lease) -> None:
    """Go on only while the job is ours.

    Raises:
        LeaseLostError: it is another's.
    """
    if not records.holds(lease):
        raise LeaseLostError(lease.job_id)


class Ending:
    """Brings one job to its end.

    Args:
        streams: None where the cluster is gone; then only what lies in the spool is sealed.
        keep_logs: leave the local copy of the logs.
    """

    def __init__(
        self,
        records: Records,
        lease: Lease,
        intent: Intent,
        *,
        client: GoogleClient,
        streams: LogStreams,
        teardown: Teardown,
        show: Callable[[str], None],
        keep_logs: bool = False,
    ) -> None:
        self._records = records
        self._lease = lease
        self._intent = intent
        self._client = client
        self._storage = Storage(client)
        self._streams = streams
        self._teardown = teardown
        self._show = show
        self._keep_logs = keep_logs

    def run(
        self,
        outcome: Outcome,
        replicas: Iterable[Replica],
        error: EncampError | None = None,
        at: datetime | None = None,
    ) -> RunResult:
        """Seal, tear down, account. What goes wrong with the job is in the result.

        ``at`` is when the training ended, where that was before now.

        Raises:
            LeaseLostError: another driver has the job; nothing is touched any more.
        """
        self._records.append(self._lease, "outcome", outcome.to_json())
        cancelled = outcome.state is State.CANCELLED
        self._records.move(self._lease, State.CANCELLING if cancelled else outcome.state, at)
        if cancelled or self._intent.study is not None:
            self._stop()
        if self._intent.study is not None:
            close_trials(self._records, self._lease)
            keep_study(self._records, self._storage, self._intent, self._show)
        sealed, stored = self._seal()
        # Replicas that are told to stop hold their machines until their logs have ended.
        ended = datetime.now(UTC)
        trouble: EncampError | None = None
        left: tuple[str, ...] = ()
        try:
            self._show("tearing down")
            self._teardown.run()
        except LeaseLostError:
            raise
        except EncampError as failure:
            trouble = failure
            left = self._named_left()
        if cancelled and trouble is None:
            self._records.move(self._lease, State.CANCELLED)
        gone = datetime.now(UTC) if trouble is None else None
        kept = self._kept(ended, proven=trouble is None)
        account = partial(
            self._receipt, sealed, used(self._entries(), replicas), ended, left=left, kept=kept, gone=gone
        )
        receipt = account()
        self._tell(outcome, receipt, trouble, left)
        notifier = Notifier(self._records, self._lease, self._intent, self._client, self._show)
        if notifier.tell(outcome, receipt, trouble.what if trouble is not None else None):
            # The receipt lies in the bucket before anybody is told, and says afterwards who was.
            receipt = account()
        if trouble is None:
            self._records.append(self._lease, "gone", {})
            self._clean(stored=stored)
        bucket = f"gs://{self._intent.artifacts_bucket}/{self._intent.prefix}"
        return RunResult(self._intent.job_id, outcome, receipt, left, bucket, error, trouble)

    def _tell(
        self, outcome: Outcome, receipt: dict[str, Any] | None, trouble: EncampError | None, left: Sequence[str]
    ) -> None:
        intent = self._intent
        teller = Teller(
            self._client, project=intent.project, cluster=intent.cluster, labels=intent.labels, show=self._show
        )
        if trouble is None:
            teller.ended(intent.job_id, intent.name, outcome, receipt)
        else:
            teller.not_ended(intent.job_id, trouble.what, left)

    def _stop(self) -> None:
        """End the replicas first, so that what they say when they are told to stop is sealed as well."""
        try:
            if self._intent.study is not None:
                self._teardown.stop_trials()
                return
            self._show("stopping the replicas")
            self._teardown.stop(self._intent.name)
        except LeaseLostError:
            raise
        except EncampError as error:
            self._show(f"the replicas could not be stopped before tear-down: {error.what}")

    def _seal(self) -> tuple[dict[str, Any], bool]:
        intent = self._intent
        self._show("sealing the logs")
        with Heartbeat(self._show, self._reading):
            self._streams.drain(_QUIET_SECONDS, _DRAIN_SECONDS)
        before = stored_logs(self._storage, intent.artifacts_bucket, intent.prefix)
        if intent.study is None and not self._may_be_sealed():
            before = before.unclaimed()
        names = replicas_of(intent, trials_of(self._entries()), {*spooled(self._streams.folder), *before.sizes})
        recover_logs(self._client, intent, self._streams, self._show, replicas=names, sealed=before.whole)
        seal = seal_logs(
            self._storage,
            intent.artifacts_bucket,
            intent.prefix,
            names,
            self._streams.log,
            before=before,
            times=self._streams.times(),
        )
        for problem in seal.problems[:_PROBLEMS_SHOWN]:
            self._show(f"log not whole: {problem}")
        if len(seal.problems) > _PROBLEMS_SHOWN:
            self._show(f"and {len(seal.problems) - _PROBLEMS_SHOWN} more; the manifest of the logs names them all")
        if not seal.stored:
            where = self._streams.folder
            self._show(f"logs that are not in the bucket stay in {where}; `encamp reap` on this machine stores them")
        self._records.append(self._lease, "sealed", {"stored": seal.stored, "problems": list(seal.problems)})
        return seal.manifest, seal.stored

    def _reading(self) -> str:
        names = self._streams.reading()
        more = f" and {len(names) - 1} more" if names[1:] else ""
        bound = f"({_DRAIN_SECONDS:.0f} s at most, {_QUIET_SECONDS:.0f} s without a line)"
        return f"waiting for the end of the log of {names[0]}{more} {bound}" if names else ""

    def _receipt(
        self,
        sealed: dict[str, Any],
        pods: Sequence[PodUse],
        ended: datetime,
        *,
        left: tuple[str, ...],
        kept: KeptResults,
        gone: datetime | None,
    ) -> dict[str, Any] | None:
        record = self._records.record(self._lease.job_id)
        if record is None:
            return None
        seconds = node_seconds(pods, self._intent.machines, sealed_at(record.entries, ended))
        # Of an ending that failed before, when there still were pods to ask.
        known: dict[str, float] = (record.receipt or {}).get("nodeSeconds") or {}
        seconds = {one: max(seconds.get(one, 0.0), known.get(one, 0.0)) for one in sorted({*seconds, *known})}
        steps = [ResourceStep.from_json(entry.data) for entry in record.entries if entry.kind == "resource"]
        receipt = build_receipt(
            record,
            steps=steps,
            seconds=seconds,
            digests=image_digests(pods, self._intent.images),
            hourly=self._intent.hourly,
            prices_of=self._intent.prices_of,
            logs=sealed,
            left=left,
            kept=kept,
            gone=gone,
        )
        self._records.append(self._lease, "receipt", receipt)
        try:
            text = json.dumps(receipt, indent=2, sort_keys=True).encode()
            self._storage.upload(
                self._intent.artifacts_bucket, f"{self._intent.prefix}{RECEIPT}", text, "application/json"
            )
        except EncampError as error:
            self._show(f"the receipt is in the record only: {error.what}")
        return receipt

    def _may_be_sealed(self) -> bool:
        """Whether an earlier driver may have stored logs: by the record, unless it did not see the job begin."""
        record = self._records.record(self._lease.job_id)
        if record is None or State.PREPARING not in record.times:
            return True
        return any(entry.kind == "sealed" for entry in record.entries)

    def _entries(self) -> tuple[Entry, ...]:
        record = self._records.record(self._lease.job_id)
        return record.entries if record is not None else ()

    def _kept(self, ended: datetime, *, proven: bool) -> KeptResults:
        """Return what stays of the job, and until when; its own bucket goes when nothing is in it."""
        intent = self._intent
        own = intent.results_bucket
        until = kept_until(intent, ended)
        try:
            if own is not None and proven and self._without_results(own):
                own = None
            if until is not None:
                note_term(self._storage, intent, until)
        except EncampError as error:
            self._show(f"the results are kept, and nobody is told for how long: {error.what}")
        return KeptResults(intent.job_dir, f"gs://{intent.artifacts_bucket}/{intent.prefix}", own, until)

    def _without_results(self, own: str) -> bool:
        """Whether the job's own bucket is not there, also because it was empty and is deleted now."""
        found = self._storage.bucket(own)
        if found is None:
            return True
        return is_results_bucket(found, self._intent.name) and delete_if_empty(self._storage, own)

    def _named_left(self) -> tuple[str, ...]:
        try:
            return tuple(map(str, self._teardown.left()))
        except EncampError:
            return ("unknown: the cloud could not be asked",)

    def _clean(self, *, stored: bool) -> None:
        """Remove the job's own folder; a spool that could not be stored elsewhere is the only copy and stays."""
        self._streams.close()
        if not self._intent.folder:
            return
        folder = Path(self._intent.folder)
        if stored and not self._keep_logs:
            shutil.rmtree(folder, ignore_errors=True)
            return
        for file in folder.glob("Pulumi*.yaml"):
            file.unlink(missing_ok=True)
