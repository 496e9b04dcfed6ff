"""A job's logs wherever they are: sealed in the bucket once it has ended, before that in the driver's spool.

The sealed log is the spool's file byte for byte, so the text is the same before and after tear-down. What is read from
the bucket is compared with the manifest's size and SHA-256.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError, UsageError
from encamp.run.seal import MANIFEST
from encamp.run.spool import read_state, spooled
from encamp.run.study.journal import replicas_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.catalogue import KnownJob

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class FoundLog:
    """One replica's log.

    Attributes:
        source: the manifest's entry of a sealed log, or the file of the spool; None where there is neither.
        reason: why the log is not whole, empty where it is.
    """

    replica: str
    source: dict[str, Any] | Path | None
    reason: str


def find_logs(job: KnownJob, storage: Storage, spool: Path) -> list[FoundLog]:
    """The logs of all replicas of a job.

    ``spool`` is the folder of this machine where a driver would keep them.

    Raises:
        UsageError: they are neither in the bucket nor here; says where they may be.
        RestError: the bucket cannot be read.
    """
    manifest = _manifest(job, storage)
    if manifest is not None:
        return [_sealed(entry, spool) for entry in manifest]
    names = replica_names(job, spool)
    if spool.is_dir() and names:
        return spooled_logs(spool, names)
    raise _nowhere(job)


def replica_names(job: KnownJob, spool: Path) -> tuple[str, ...]:
    """Names of a job's replicas as far as they are known; of trials those that ran, or that have a log here."""
    if job.intent is None:
        return ()
    trials = job.study.trials if job.study is not None else ()
    return replicas_of(job.intent, trials, spooled(spool))


def spooled_logs(spool: Path, names: Sequence[str]) -> list[FoundLog]:
    """The logs of replicas as they are in a folder now."""
    return [_spooled(spool, name) for name in names]


def chosen(logs: list[FoundLog], replica: str) -> FoundLog:
    """The log of one replica.

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
    """A log's bytes, piece by piece; none where there is none.

    Raises:
        EngineError: what the bucket holds is not what was sealed, told after the last piece.
        RestError: it cannot be read.
    """
    if isinstance(log.source, dict):
        yield from _checked(log.source, storage)
    elif log.source is not None:
        with log.source.open("rb") as stream:
            while piece := stream.read(_READ_BYTES):
                yield piece


def replica_ends(job: KnownJob, storage: Storage, spool: Path) -> list[dict[str, Any]]:
    """How each replica ended, as far as it is known: name, exit code, attempts, and whether its log is whole."""
    entries = _manifest(job, storage)
    if entries is None:
        names = replica_names(job, spool)
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
    if text is None:
        return None
    try:
        entries: list[dict[str, Any]] = json.loads(text)["replicas"]
    except (ValueError, KeyError, TypeError) as error:
        where = f"gs://{job.bucket}/{job.prefix}{MANIFEST}"
        raise EngineError("the manifest of the logs is damaged", where=where, hint="read the logs beside it") from error
    return entries


def _sealed(entry: dict[str, Any], spool: Path) -> FoundLog:
    """A log by the manifest; one that could not be stored may still be here."""
    here = spool / f"{entry['replica']}.log"
    source = entry if entry["object"] else here if here.is_file() else None
    return FoundLog(entry["replica"], source, "" if entry["complete"] else entry["reason"])


def _spooled(spool: Path, name: str) -> FoundLog:
    path = spool / f"{name}.log"
    state = read_state(spool, name)
    reason = "" if state.get("complete") else str(state.get("reason") or "no log was seen")
    return FoundLog(name, path if path.is_file() else None, reason)


def _checked(entry: dict[str, Any], storage: Storage) -> Iterator[bytes]:
    bucket, _, name = entry["object"].removeprefix("gs://").partition("/")
    digest = hashlib.sha256()
    for piece in storage.download(bucket, name):
        digest.update(piece)
        yield piece
    if digest.hexdigest() != entry["sha256"]:
        raise EngineError("the log is not the one that was sealed: its SHA-256 differs", where=entry["object"])


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
