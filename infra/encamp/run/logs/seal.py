"""Puts every replica's whole log into the job's bucket before anything of the job is destroyed.

The manifest beside the logs says of each replica how its log ends: its size and SHA-256, the exit code and the
termination message; or the reason why it is not whole. It is written last, so that its being there proves the rest.
What an earlier driver has sealed stays, unless more is known here; so sealing may be begun by one and ended by another.

It is bounded: few threads, a piece of a log in memory for each, and a time after which what is missing is said to be.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import threading
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from encamp.cloud.rest import RestError
from encamp.cloud.storage import CHUNK_BYTES
from encamp.errors import EncampError, EngineError
from encamp.run.bounded import Deadline, within
from encamp.run.logs.log_times import TIMES
from encamp.run.logs.manifest import MANIFEST, PARTIAL, read_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.logs.spool import ReplicaLog

_THREADS = 8
#: Uploads in pieces at once: each holds some pieces in memory.
_LARGE = 2
_ATTEMPTS = 3
#: Statuses after which an upload may succeed from its beginning: no usable answer, and a session that is gone.
_AGAIN = frozenset({0, 404, 410})
_MANIFEST_SECONDS = 60.0
_SECONDS, _SECONDS_A_LOG, _BYTES_A_SECOND = 60.0, 0.25, 2 * 1024 * 1024


@dataclass(frozen=True)
class Stored:
    """A job's logs in the bucket.

    Attributes:
        entries: those of an earlier manifest, by replica.
        sizes: of the logs there, in bytes, by replica; also of such as no manifest tells of.
        times: size of what tells when their text came, see ``log_times``.
    """

    entries: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    times: int = 0

    def unclaimed(self) -> Stored:
        """Return the same without what a manifest says.

        A record that saw the job begin knows whether one was written.
        """
        return replace(self, entries={})

    def whole(self, replica: str) -> bool:
        """Whether a replica's whole log is there."""
        entry = self.entries.get(replica, {})
        return bool(entry.get("complete") and entry.get("object") and replica in self.sizes)


@dataclass(frozen=True)
class Seal:
    """The result of sealing a job's logs.

    Attributes:
        manifest: as it was written.
        stored: whether the manifest and all that there is of the logs are in the bucket; if not, the spool stays.
        problems: why a log is missing or short, one sentence each.
    """

    manifest: dict[str, Any]
    stored: bool
    problems: tuple[str, ...]


def sealing_seconds(logs: int, size: int) -> float:
    """Return the most seconds for storing so many logs of so many bytes before tear-down goes on without them.

    A minute, a quarter of a second a log, and the bytes at 2 MiB a second, which most lines to a cloud exceed.
    """
    return _SECONDS + _SECONDS_A_LOG * logs + size / _BYTES_A_SECOND


def stored_logs(storage: Storage, bucket: str, prefix: str) -> Stored:
    """Return the logs that an earlier driver has stored; none if that cannot be known."""
    folder = f"{prefix}logs/"
    try:
        listed = {one.name.removeprefix(folder): one.size for one in storage.objects(bucket, folder)}
        names = [name for name in (MANIFEST, PARTIAL) if name.removeprefix("logs/") in listed]
        text = storage.read(bucket, f"{prefix}{names[0]}") if names else None
    except EncampError:
        return Stored()
    entries: dict[str, dict[str, Any]] = {}
    sizes = {name.removesuffix(".log"): size for name, size in listed.items() if name.endswith(".log")}
    # If it is damaged, the logs beside it still count by their sizes.
    with contextlib.suppress(EngineError):
        found = read_entries(text, bucket, prefix, names[0]) if text is not None else []
        entries = {one["replica"]: one for one in found if one["size"] in {None, sizes.get(one["replica"])}}
    return Stored(entries, sizes, listed.get(TIMES, 0))


def seal_logs(
    storage: Storage,
    bucket: str,
    prefix: str,
    replicas: Sequence[str],
    log_of: Callable[[str], ReplicaLog],
    *,
    before: Stored | None = None,
    seconds: float | None = None,
    beside: Sequence[dict[str, Any]] = (),
    manifest: str = MANIFEST,
    times: Path | None = None,
) -> Seal:
    """Store the logs of all replicas and their manifest; never raises for one that cannot be stored.

    ``prefix`` is ``jobs/<jobId>/``, ``replicas`` the names of every replica that the job was to have, ``before`` what
    is stored already, and ``seconds`` how long it may take, None for ``sealing_seconds``. ``beside`` are entries of
    other replicas, which ``manifest`` has as well. ``times`` is the file that tells when the logs' text came; it lies
    beside them in the bucket where it can be stored, and nothing is wrong where it cannot.
    """
    logs = [log_of(name) for name in replicas]
    deadline = Deadline(seconds if seconds is not None else sealing_seconds(len(logs), sum(map(_size, logs))))
    sealing = _Sealing(storage, bucket, f"{prefix}logs/", before or Stored(), deadline)
    found = within(deadline, [functools.partial(sealing.one, log) for log in logs], threads=_THREADS)
    late = f"it could not be stored within {deadline.seconds:.0f} s"
    entries = [entry or sealing.unstored(log, late) for entry, log in zip(found, logs, strict=True)]
    content = {"version": 1, "replicas": [*beside, *entries]}
    problems = [f"{entry['replica']}: {entry['reason']}" for entry in entries if entry["reason"]]
    kept = all(entry["object"] or not _size(log) for entry, log in zip(entries, logs, strict=True))
    if times is not None and kept:
        sealing.times(times)
    trouble = _written(storage, bucket, f"{prefix}{manifest}", content)
    if trouble:
        problems.append(f"manifest: {trouble}")
    return Seal(content, stored=kept and not trouble, problems=tuple(problems))


def _written(storage: Storage, bucket: str, name: str, manifest: dict[str, Any]) -> str:
    """Return why the manifest is not in the bucket, empty if it is."""
    text = json.dumps(manifest, indent=2, sort_keys=True).encode()
    deadline = Deadline(_MANIFEST_SECONDS)
    try:
        (stored,) = within(deadline, [lambda: storage.upload(bucket, name, text, "application/json")], threads=1)
    except EncampError as error:
        return error.what
    return "" if stored else f"it could not be stored within {deadline.seconds:.0f} s"


class _Sealing:
    def __init__(self, storage: Storage, bucket: str, folder: str, before: Stored, deadline: Deadline) -> None:
        self._storage = storage
        self._bucket = bucket
        self._folder = folder
        self._before = before
        self._deadline = deadline
        self._large = threading.Semaphore(_LARGE)

    def one(self, log: ReplicaLog) -> dict[str, Any]:
        """Return the manifest's entry of a log that is in the bucket now, or cannot be."""
        size = _size(log)
        if self._before.whole(log.replica):
            return _with_end(self._before.entries[log.replica], log)
        if not log.state["complete"] and self._before.sizes.get(log.replica, 0) > size:
            return self._adopted(log)
        try:
            if size < CHUNK_BYTES:
                return self._uploaded(log)
            with self._large:
                return self._uploaded(log)
        except (EncampError, OSError) as error:
            return self.unstored(log, f"it could not be stored: {_words(error)}")

    def times(self, file: Path) -> None:
        """Store when the logs' text came, unless an earlier driver knew more of that."""
        with contextlib.suppress(EncampError, OSError):
            if file.stat().st_size > self._before.times:
                upload = functools.partial(self._upload_times, file)
                within(Deadline(_MANIFEST_SECONDS), [upload], threads=1)

    def _upload_times(self, file: Path) -> None:
        with file.open("rb") as stream:
            self._storage.upload(self._bucket, f"{self._folder}{TIMES}", stream, "application/jsonl")

    def unstored(self, log: ReplicaLog, reason: str) -> dict[str, Any]:
        """Return the entry of a log that is not in the bucket; what made it short before that counts as well."""
        short = log.state["reason"]
        return {**_entry(log), "complete": False, "reason": f"{reason}; {short}" if short else reason}

    def _uploaded(self, log: ReplicaLog) -> dict[str, Any]:
        name = f"{self._folder}{log.replica}.log"
        attempt = 1
        while True:
            try:
                with log.path.open("rb") if log.path.exists() else io.BytesIO() as stream:
                    hashing = _Hashing(stream, self._deadline)
                    kept = self._storage.upload(self._bucket, name, hashing, "text/plain; charset=utf-8")
                break
            except RestError as error:
                if error.status not in _AGAIN or attempt == _ATTEMPTS:
                    raise
                attempt += 1
        stored = {"object": f"gs://{self._bucket}/{name}", "size": hashing.size, "sha256": hashing.digest.hexdigest()}
        # An object never changes under its generation, so that any part of it can be read alone later.
        return {**_entry(log), **stored, **({"generation": kept.generation} if kept.generation else {})}

    def _adopted(self, log: ReplicaLog) -> dict[str, Any]:
        """Return the entry of what an earlier driver stored, which is more than there is here."""
        entry = self._before.entries.get(log.replica, {})
        if entry.get("object"):
            return _with_end(entry, log)
        name = f"{self._folder}{log.replica}.log"
        size, digest = 0, hashlib.sha256()
        try:
            for piece in self._storage.download(self._bucket, name):
                self._deadline.check()
                size += len(piece)
                digest.update(piece)
        except (EncampError, OSError) as error:
            return self.unstored(log, f"what an earlier driver stored cannot be read: {_words(error)}")
        reason = "an earlier driver stored it and died before it could say whether it is whole"
        stored = {"object": f"gs://{self._bucket}/{name}", "size": size, "sha256": digest.hexdigest()}
        return {**_entry(log), **stored, "complete": False, "reason": reason}


def _entry(log: ReplicaLog) -> dict[str, Any]:
    state = log.state
    return {
        "replica": log.replica,
        "object": None,
        "size": None,
        "sha256": None,
        "complete": state["complete"],
        "reason": state["reason"],
        "exitCode": state["exitCode"],
        "termination": state["termination"],
        "pod": state["pod"],
        "attempts": state["attempts"],
    }


def _with_end(entry: dict[str, Any], log: ReplicaLog) -> dict[str, Any]:
    """Return an earlier entry, with how the replica ended where that is known only now."""
    if entry.get("exitCode") is not None or log.state["exitCode"] is None:
        return entry
    return {**entry, "exitCode": log.state["exitCode"], "termination": log.state["termination"]}


def _size(log: ReplicaLog) -> int:
    try:
        return log.path.stat().st_size
    except OSError:
        return 0


def _words(error: EncampError | OSError) -> str:
    if isinstance(error, EncampError):
        return error.what
    return str(error) if isinstance(error, TimeoutError) else f"the local copy: {error.strerror}"


class _Hashing:
    """A stream that knows what went through it, and ends with its time."""

    def __init__(self, stream: IO[bytes], deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline
        self.size = 0
        self.digest = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        self._deadline.check()
        piece = self._stream.read(count)
        self.size += len(piece)
        self.digest.update(piece)
        return piece
