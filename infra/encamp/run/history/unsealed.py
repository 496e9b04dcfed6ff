"""Logs of jobs that are gone which could not be stored when they ended: they lie in the spool of the driver's machine.

Tear-down does not wait for a bucket that cannot be written, so somebody has to come back for them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.cloud.storage import Storage
from encamp.errors import EncampError
from encamp.run.logs.log_times import TIMES
from encamp.run.logs.seal import Seal, seal_logs, stored_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.results.receipt import RECEIPT, log_summary
from encamp.run.store.actor import ACTOR, Actor
from encamp.run.store.intent import Intent
from encamp.run.store.trial_journal import replicas_of, trials_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.run.history.context import Context
    from encamp.run.store.records import Records, RunRecord


@dataclass(frozen=True)
class Unsealed:
    """A job that is gone with logs here that its bucket does not have."""

    intent: Intent
    record: RunRecord
    spool: Path


def unsealed(context: Context, records: Records) -> Iterator[Unsealed]:
    """Yield every such job whose spool is on this machine."""
    for record in records.records():
        sealed = [entry.data for entry in record.entries if entry.kind == "sealed"]
        if not record.torn_down or record.intent is None or not sealed or sealed[-1].get("stored", True):
            continue
        intent = Intent.read(record.intent)
        if intent is None:
            continue
        spool = context.job_folder(intent.name) / "logs"
        if spool.is_dir():
            yield Unsealed(intent, record, spool)


def store_logs(job: Unsealed, context: Context, records: Records) -> Seal:
    """Store them now; once they are, the job's folder goes and its receipt says so.

    Raises:
        UsageError: a living driver holds the job.
        EngineError: another one took it meanwhile.
    """
    intent = job.intent
    storage = Storage(context.client)
    lease = records.adopt(intent.job_id, intent.name, job.record.intent or {})
    try:
        records.append(lease, ACTOR, {"did": "taken over", **Actor.myself().to_json()})
        names = replicas_of(intent, trials_of(job.record.entries))
        logs = {name: ReplicaLog(job.spool, name, lambda *_: None) for name in names}
        before = stored_logs(storage, intent.artifacts_bucket, intent.prefix)
        seal = seal_logs(
            storage,
            intent.artifacts_bucket,
            intent.prefix,
            names,
            logs.__getitem__,
            before=before,
            times=job.spool / TIMES,
        )
        records.append(lease, "sealed", {"stored": seal.stored, "problems": list(seal.problems)})
        if seal.stored:
            receipt = {**(job.record.receipt or {}), "logs": log_summary(seal.manifest)}
            if job.record.receipt is not None:
                records.append(lease, "receipt", receipt)
                _write(storage, intent, json.dumps(receipt, indent=2, sort_keys=True), context)
            shutil.rmtree(job.spool.parent, ignore_errors=True)
        return seal
    finally:
        records.release(lease)


def _write(storage: Storage, intent: Intent, text: str, context: Context) -> None:
    try:
        storage.upload(intent.artifacts_bucket, f"{intent.prefix}{RECEIPT}", text.encode(), "application/json")
    except EncampError as error:
        context.show(f"the receipt is in the record only: {error.what}")
