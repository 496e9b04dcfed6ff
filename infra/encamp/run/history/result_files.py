"""Objects that a job left in buckets, and where each lies in a folder of this machine.

Names of objects are written by jobs, so they are not trusted: a name that could lead out of the folder, steer a
terminal or meet another one's file is left out, with the reason.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from encamp.cloud.storage import Storage, StoredObject
    from encamp.run.history.catalogue import KnownJob

#: Folder of unfinished copies, in the folder that is copied to.
PARTIAL = ".encamp-partial"
#: Folder that a job dir outside the job's own folder is copied to.
OUTPUT = "output"
_LONGEST_PART = 255


@dataclass(frozen=True)
class ResultFile:
    """One object and the parts of its path below the folder that is copied to."""

    stored: StoredObject
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path with ``/``."""
        return "/".join(self.parts)


@dataclass(frozen=True)
class LeftOut:
    """One object that is not copied, and why."""

    uri: str
    reason: str


@dataclass(frozen=True)
class ResultFiles:
    """Objects that a job left, each with its name below the folder that is copied to."""

    named: Sequence[tuple[StoredObject, str]]

    def placed(self, *, folds_case: bool) -> tuple[list[ResultFile], list[LeftOut]]:
        """Return the objects with their places, and those left out with the reason.

        ``folds_case`` says that the file system takes names that differ by case alone for the same.
        """
        files: list[ResultFile] = []
        left: list[LeftOut] = []
        for stored, name in self.named:
            if name.endswith("/") and not stored.size:
                continue  # Consoles and file systems mark folders so.
            reason = _refusal(stored, name)
            if reason is None:
                files.append(ResultFile(stored, tuple(name.split("/"))))
            else:
                left.append(LeftOut(stored.uri, reason))
        kept, met = _apart(files, folds_case=folds_case)
        return kept, left + met


def result_files(job: KnownJob, storage: Storage) -> ResultFiles:
    """List what a job left: logs, receipt, output and the output of its trials. The job may still run.

    Raises:
        UsageError: no output was kept, or there is none yet.
        RestError: a bucket cannot be listed.
    """
    found = list(_named(job, storage))
    if not any(name.startswith(f"{OUTPUT}/") for _, name in found):
        raise _without_output(job)
    return ResultFiles(found)


def job_dir_of(job: KnownJob) -> str | None:
    """Return the job dir by receipt or record, or None."""
    told = ((job.receipt or {}).get("results") or {}).get("jobDir")
    return told or (job.intent.job_dir if job.intent is not None else None)


def is_living(job: KnownJob) -> bool:
    """Whether a job is known to go on."""
    return job.state in set(State) and not State(job.state).ended


def _named(job: KnownJob, storage: Storage) -> Iterator[tuple[StoredObject, str]]:
    """Yield every object with its name relative to the job's folder, that of the job dir below ``output/``."""
    for stored in storage.objects(job.bucket, job.prefix):
        yield stored, stored.name.removeprefix(job.prefix)
    job_dir = job_dir_of(job)
    own = f"gs://{job.bucket}/{job.prefix}"
    if job_dir is None or f"{job_dir.rstrip('/')}/".startswith(own):
        return
    bucket, _, name = job_dir.removeprefix("gs://").partition("/")
    prefix = f"{name.rstrip('/')}/" if name else ""
    for stored in storage.objects(bucket, prefix):
        yield stored, f"{OUTPUT}/{stored.name.removeprefix(prefix)}"


def _without_output(job: KnownJob) -> UsageError:
    logs = f"`encamp logs {job.job_id}` shows its logs"
    deleted = ((job.receipt or {}).get("results") or {}).get("deleted")
    if deleted:
        return UsageError(f"its results were deleted at the end of their term, {deleted}", where=job.job_id)
    known = job.receipt is not None or job.intent is not None
    if job_dir_of(job) is None and known:
        return UsageError(
            "it keeps no output: it has no job dir, so what it writes is gone with its machines",
            where=job.job_id,
            hint=f"run it with --keep-output; {logs}",
        )
    if is_living(job):
        return UsageError("it has written nothing so far", where=job.job_id, hint=f"wait for it; {logs}")
    where = job_dir_of(job) or f"gs://{job.bucket}/{job.prefix}{OUTPUT}"
    return UsageError(
        f"nothing lies in its job dir {where}",
        where=job.job_id,
        hint=f"does the trainer write to --job-dir? {logs}",
    )


def _refusal(stored: StoredObject, name: str) -> str | None:
    """Return why an object is not copied; None if it is."""
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        return "its name has an empty part, `.` or `..`"
    if not name.isprintable() or "\\" in name:
        return "its name has a control character, a backslash or a character that cannot be shown"
    if any(len(part.encode()) > _LONGEST_PART for part in parts):
        return f"a part of its name is longer than {_LONGEST_PART} bytes"
    if parts[0].casefold() == PARTIAL:
        return f"{PARTIAL} is the folder of unfinished copies"
    if stored.encoding:  # Belief storage-gzip-is-decoded.
        return f"it is stored with Content-Encoding {stored.encoding[:40]}; `gcloud storage cp` copies it"
    return None


def _apart(files: Sequence[ResultFile], *, folds_case: bool) -> tuple[list[ResultFile], list[LeftOut]]:
    """Leave out files that would lie where another file or a folder lies; the first of two files stays."""
    folders = {_key(file.parts[:end], folds_case=folds_case) for file in files for end in range(1, len(file.parts))}
    seen: dict[tuple[str, ...], str] = {}
    kept: list[ResultFile] = []
    left: list[LeftOut] = []
    for file in files:
        key = _key(file.parts, folds_case=folds_case)
        if key in folders:
            left.append(LeftOut(file.stored.uri, "other objects have its name as their folder"))
        elif key in seen:
            left.append(LeftOut(file.stored.uri, f"it would lie where {seen[key]} lies"))
        else:
            seen[key] = file.path
            kept.append(file)
    return kept, left


def _key(parts: Iterable[str], *, folds_case: bool) -> tuple[str, ...]:
    if not folds_case:
        return tuple(parts)
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts)
