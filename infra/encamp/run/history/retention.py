"""The retention and deletion of a job's remains: results, logs and receipt, but for the mark of a used id.

A job with a term leaves a note in the artifacts bucket, ``expiry/<end of the term>/<jobId>.json``. Names sort by time,
so whoever reaps reads only the notes that are due, from any machine and without a record. What a note names is checked
before it is deleted: a bucket must carry the job's own label, and a prefix must be the job's.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError
from encamp.plan.access.ownership import EXPIRY, job_prefix
from encamp.run.results.receipt import RECEIPT
from encamp.spec.job_id import is_job_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.cloud.storage import Storage
    from encamp.run.store.intent import Intent

#: Label of a bucket that a job made for its results; its value is the job's cloud name.
RESULTS_LABEL = "encamp-results"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
#: Fields of a receipt that stay when the rest is deleted: enough to refuse the id, to say why, and to add up the cost.
_REMEMBERED = ("version", "jobId", "name", "outcome", "times", "environment", "project", "nodeSeconds", "cost")


@dataclass(frozen=True)
class Expired:
    """A job whose term has passed: its note, and what the note names."""

    job_id: str
    bucket: str
    note: str
    name: str
    prefix: str
    results_bucket: str | None
    until: datetime


def kept_until(intent: Intent, ended: datetime) -> datetime | None:
    """Return the end of the term of what a job leaves, in whole seconds; None if it is kept."""
    if intent.results_days is None:
        return None
    return ended.replace(microsecond=0) + timedelta(days=intent.results_days)


def note_term(storage: Storage, intent: Intent, until: datetime) -> None:
    """Leave the note that whoever reaps works from.

    Raises:
        RestError: it could not be stored.
    """
    note = {
        "version": 1,
        "jobId": intent.job_id,
        "name": intent.name,
        "prefix": intent.prefix,
        "resultsBucket": intent.results_bucket,
    }
    storage.upload(
        intent.artifacts_bucket, _note_name(intent.job_id, until), json.dumps(note).encode(), "application/json"
    )


def expired(storage: Storage, bucket: str, now: datetime) -> Iterator[Expired]:
    """Yield jobs of an artifacts bucket whose term has passed, the longest past first.

    Raises:
        RestError: the bucket cannot be listed.
    """
    for item in storage.objects(bucket, EXPIRY):
        until = _term(item.name)
        if until is None:
            continue
        if until > now:
            return
        found = _read(storage, bucket, item.name, until)
        if found is not None:
            yield found


def delete_results(storage: Storage, one: Expired, now: datetime) -> None:
    """Delete what a job left; the receipt becomes the mark of a used id. May be done again after a failure.

    Raises:
        EngineError: something could not be deleted; the note stays, so that it is tried again.
    """
    _delete_own_bucket(storage, one)
    receipt = f"{one.prefix}{RECEIPT}"
    mark = _mark(storage.read(one.bucket, receipt), one, now)
    for item in list(storage.objects(one.bucket, one.prefix)):
        if item.name != receipt:
            storage.delete(one.bucket, item.name)
    storage.upload(one.bucket, receipt, json.dumps(mark, indent=2, sort_keys=True).encode(), "application/json")
    storage.delete(one.bucket, one.note)


def is_results_bucket(found: dict[str, Any] | None, name: str) -> bool:
    """Whether a bucket's resource is that of the results of the job with this cloud name."""
    return found is not None and (found.get("labels") or {}).get(RESULTS_LABEL) == name


def delete_if_empty(storage: Storage, bucket: str) -> bool:
    """Delete a bucket that holds nothing but marks of folders; whether it is gone."""
    marks: list[str] = []
    for item in storage.objects(bucket):
        if item.size or not item.name.endswith("/"):
            return False
        marks.append(item.name)
    for name in marks:
        storage.delete(bucket, name)
    return storage.delete_empty_bucket(bucket)


def _delete_own_bucket(storage: Storage, one: Expired) -> None:
    if one.results_bucket is None:
        return
    found = storage.bucket(one.results_bucket)
    if found is None:
        return
    if not is_results_bucket(found, one.name):
        raise EngineError(
            f"it does not carry the label {RESULTS_LABEL}={one.name}",
            where=f"gs://{one.results_bucket}",
            hint=f"delete it by hand if it is the job's, then gs://{one.bucket}/{one.note}",
        )
    storage.delete_bucket(one.results_bucket)


def _mark(receipt: bytes | None, one: Expired, now: datetime) -> dict[str, Any]:
    known: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        known = json.loads(receipt or b"{}")
    kept = {key: known[key] for key in _REMEMBERED if key in known}
    outcome = kept.get("outcome") or {}
    if outcome:
        # The message and the failure may quote the training.
        kept["outcome"] = {"state": outcome.get("state")}
    results = {"until": one.until.strftime(_TIME), "deleted": now.strftime(_TIME)}
    return {"version": 1, "jobId": one.job_id, "name": one.name, **kept, "results": results}


def _note_name(job_id: str, until: datetime) -> str:
    return f"{EXPIRY}{until.astimezone(UTC).strftime(_TIME)}/{job_id}.json"


def _term(name: str) -> datetime | None:
    try:
        return datetime.strptime(name.removeprefix(EXPIRY).partition("/")[0], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def _read(storage: Storage, bucket: str, note: str, until: datetime) -> Expired | None:
    """Return a note's content, None if it is gone meanwhile or malformed."""
    try:
        data = json.loads(storage.read(bucket, note) or b"null")
        job_id, name, own = str(data["jobId"]), str(data["name"]), data["resultsBucket"]
    except (ValueError, KeyError, TypeError):
        return None
    if note != _note_name(job_id, until) or data.get("prefix") != job_prefix(job_id) or not is_job_id(job_id):
        return None
    return Expired(job_id, bucket, note, name, job_prefix(job_id), str(own) if own else None, until)
