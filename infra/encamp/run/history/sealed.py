"""A job's logs wherever they are: sealed in the bucket once it has ended, before that in the driver's spool.

The sealed log is the spool's file byte for byte, so the text is the same before and after tear-down. What is read from
the bucket is compared with the manifest's size and SHA-256 before any of it is given to anybody. While the record does
not say that the logs are sealed, those on this machine come first.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import UsageError
from encamp.run.logs.manifest import MANIFEST, read_entries, verified
from encamp.run.logs.spool import read_state, spooled
from encamp.run.store.trial_journal import replicas_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.history.catalogue import KnownJob

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class FoundLog:
    """One replica's log.

    Attributes:
        source: the manifest's entry of a sealed log, or the file of the spool; None if there is neither.
        reason: why the log is not whole, empty if it is.
    """

    replica: str
    source: dict[str, Any] | Path | None
    reason: str


def find_logs(job: KnownJob, storage: Storage, spool: Path) -> list[FoundLog]:
    """Return the logs of all replicas of a job.

    ``spool`` is the folder of this machine where a driver would keep them.

    Raises:
        UsageError: they are neither in the bucket nor here; says where they may be.
        EngineError: the bucket's manifest is not one of this job's logs.
        RestError: the bucket cannot be read.
    """
    names = replica_names(job, spool)
    here = spool.is_dir() and bool(names)
    manifest = _manifest(job, storage) if job.sealed or not here else None
    if manifest is not None:
        return [_sealed(entry, spool) for entry in manifest]
    if here:
        return spooled_logs(spool, names)
    raise _nowhere(job)


def replica_names(job: KnownJob, spool: Path) -> tuple[str, ...]:
    """Return the names of a job's replicas as far as they are known.

    Of trials those that ran, or that have a log here.
    """
    if job.intent is None:
        return ()
    trials = job.study.trials if job.study is not None else ()
    return replicas_of(job.intent, trials, spooled(spool))


def spooled_logs(spool: Path, names: Sequence[str]) -> list[FoundLog]:
    """Return the logs of replicas as they are in a folder now."""
    return [_spooled(spool, name) for name in names]


def chosen(logs: list[FoundLog], replica: str) -> FoundLog:
    """Return the log of one replica.

    Raises:
        UsageError: the job has no such replica; names those it has.
    """
    for log in logs:
        if log.replica == replica:
            return log
    names = [log.replica for log in logs]
    near = difflib.get_close_matches(replica, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(names[:5])}"
    raise UsageError("the job has no such replica", where=replica, hint=hint)


def read_log(log: FoundLog, storage: Storage) -> Iterator[bytes]:
    """Yield a log's bytes, piece by piece; none if there is none.

    Raises:
        EngineError: what the bucket holds is not what was sealed; told before the first piece.
        RestError: it cannot be read.
    """
    if isinstance(log.source, dict):
        yield from verified(log.source, storage)
    elif log.source is not None:
        with log.source.open("rb") as stream:
            while piece := stream.read(_READ_BYTES):
                yield piece


def replica_ends(job: KnownJob, storage: Storage, spool: Path) -> list[dict[str, Any]]:
    """Return each replica's end, as far as known: name, exit code, attempts, and whether its log is whole."""
    names = replica_names(job, spool)
    entries = _manifest(job, storage) if job.sealed or not (names and spool.is_dir()) else None
    if entries is None:
        entries = [{"replica": name, **read_state(spool, name)} for name in names]
    return [_end(entry) for entry in entries]


def _end(entry: dict[str, Any]) -> dict[str, Any]:
    found = {
        "name": entry["replica"],
        "exitCode": entry.get("exitCode"),
        "reason": (entry.get("termination") or {}).get("reason"),
        "attempts": entry.get("attempts"),
        "log": entry.get("object"),
        "logComplete": entry.get("complete"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _manifest(job: KnownJob, storage: Storage) -> list[dict[str, Any]] | None:
    text = storage.read(job.bucket, f"{job.prefix}{MANIFEST}")
    return read_entries(text, job.bucket, job.prefix) if text is not None else None


def _sealed(entry: dict[str, Any], spool: Path) -> FoundLog:
    """Return a log by the manifest; one that could not be stored may still be here."""
    here = spool / f"{entry['replica']}.log"
    source = entry if entry["object"] else here if here.is_file() else None
    return FoundLog(entry["replica"], source, "" if entry["complete"] else entry["reason"])


def _spooled(spool: Path, name: str) -> FoundLog:
    path = spool / f"{name}.log"
    state = read_state(spool, name)
    reason = "" if state.get("complete") else str(state.get("reason") or "no log was seen")
    return FoundLog(name, path if path.is_file() else None, reason)


def _nowhere(job: KnownJob) -> UsageError:
    deleted = ((job.receipt or {}).get("results") or {}).get("deleted")
    if deleted:
        return UsageError(f"its logs were deleted on {deleted}, at the end of their term", where=job.job_id)
    if job.driver is not None:
        return UsageError(
            f"its logs are with its driver, not on this machine: {job.driver}",
            where=job.job_id,
            hint="call `encamp logs` there, or wait for the end of the job, which seals them in the bucket",
        )
    if job.receipt is None and not job.torn_down:
        return UsageError(
            "its logs are neither sealed nor on this machine, and nobody drives it from here",
            where=job.job_id,
            hint="call `encamp logs` where it was started, or `encamp reap` to bring it to its end",
        )
    return UsageError("its logs are not in the bucket", where=f"gs://{job.bucket}/{job.prefix}logs/")
