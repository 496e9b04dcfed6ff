"""The logs of jobs for a server that reads them again and again.

Sealed in the bucket once they are whole; before that in the driver's spool if that is of this machine, else they are
followed in the cluster for as long as somebody asks.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import OrderedDict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.cloud.rest import RestError
from encamp.errors import EncampError, EngineError, UsageError
from encamp.run.history.live import LiveJob
from encamp.run.history.sealed import find_logs
from encamp.run.logs.log_lines import PIECE
from encamp.run.logs.log_times import TIMES, Frames
from encamp.run.logs.manifest import verified_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.storage import Storage
    from encamp.run.history.catalogue import Catalogue, KnownJob
    from encamp.run.logs.log_lines import Texts
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records

_JOBS_KEPT, _PIECES_KEPT, _FOLLOWED = 32, 64, 16
_NOT_FOUND = 404
#: Seconds that a job is followed in the cluster after the last request for its logs, and seconds between pod listings.
_IDLE_SECONDS, _LOOK_SECONDS = 300.0, 1.0


class LogsMovedError(EngineError):
    """Logs are not any more where they were a moment ago: they have been sealed meanwhile. Look again."""

    def __init__(self, job_id: str) -> None:
        super().__init__("the logs have been moved; ask again", where=job_id)


@dataclass(frozen=True)
class FoundTexts:
    """The logs of a job, and whether they are final."""

    texts: Texts
    whole: bool


class LogSource:
    """The logs of the jobs of one environment.

    Args:
        folder: gives the folder of a job of a cloud name on this machine, see ``Context.job_folder``.
        connect: reaches the environment's cluster; what it raises means that it cannot be asked now.
    """

    def __init__(
        self,
        records: Records,
        catalogue: Catalogue,
        storage: Storage,
        folder: Callable[[str], Path],
        connect: Callable[[], Cluster],
    ) -> None:
        self._records = records
        self._catalogue = catalogue
        self._storage = storage
        self._job_folder = folder
        self._connect = connect
        self._lock = threading.Lock()
        self._pieces = _Pieces()
        self._sealed: OrderedDict[tuple[str, int], _Sealed] = OrderedDict()
        self._spools: OrderedDict[str, _Spool] = OrderedDict()
        self._followed: OrderedDict[str, _Followed] = OrderedDict()

    def look(self, record: RunRecord) -> FoundTexts:
        """Return the logs of a job as they are now.

        Raises:
            RestError: the bucket cannot be read.
        """
        with self._lock:
            self._drop_idle()
            followed = self._followed.get(record.job_id)
        seals = sum(entry.kind == "sealed" for entry in record.entries)
        if record.torn_down or seals:
            sealed = self._whole(record, seals)
            # A reader goes on in the order that it knows.
            if followed is not None and followed.has(sealed.sizes):
                return FoundTexts(followed.texts, whole=True)
            return FoundTexts(sealed, whole=True)
        if record.intent is None:
            return FoundTexts(_Sealed(None, self._storage, self._pieces), whole=record.state.ended)
        held = self._records.last_hold(record.job_id)
        if held is None or held.host == socket.gethostname():
            spool = self._spool(record)
            spool.look()
            return FoundTexts(spool, whole=False)
        return FoundTexts(self._follow(record, followed), whole=False)

    def close(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            for followed in self._followed.values():
                followed.close()
            self._followed.clear()

    def _whole(self, record: RunRecord, seals: int) -> _Sealed:
        # A log that could not be stored at first is stored again later.
        key = (record.job_id, seals)
        with self._lock:
            if key in self._sealed:
                self._sealed.move_to_end(key)
                return self._sealed[key]
        try:
            made = _Sealed(self._catalogue.job(record.job_id), self._storage, self._pieces)
        except UsageError:
            return _Sealed(None, self._storage, self._pieces)
        made.find(self._folder(record))
        with self._lock:
            self._sealed[key] = made
            self._spools.pop(record.job_id, None)
            while len(self._sealed) > _JOBS_KEPT:
                self._sealed.popitem(last=False)
        return made

    def _spool(self, record: RunRecord) -> _Spool:
        with self._lock:
            spool = self._spools.setdefault(record.job_id, _Spool(record.job_id, self._folder(record)))
            self._spools.move_to_end(record.job_id)
            while len(self._spools) > _JOBS_KEPT:
                self._spools.popitem(last=False)
        return spool

    def _follow(self, record: RunRecord, followed: _Followed | None) -> Texts:
        """Return the logs as the cluster gives them; nothing if it cannot be asked."""
        if followed is None:
            try:
                followed = self._begin(record)
            except EncampError:
                return _Sealed(None, self._storage, self._pieces)
        followed.look()
        return followed.texts

    def _begin(self, record: RunRecord) -> _Followed:
        namespace = str((record.intent or {}).get("namespace") or "")
        made = _Followed(record.job_id, self._connect(), namespace, record.name)
        with self._lock:
            found = self._followed.setdefault(record.job_id, made)
            oldest = self._followed.popitem(last=False)[1] if len(self._followed) > _FOLLOWED else None
        for unused in (oldest, made if found is not made else None):
            if unused is not None:
                unused.close()
        return found

    def _drop_idle(self) -> None:
        idle = [job_id for job_id, one in self._followed.items() if time.monotonic() - one.asked > _IDLE_SECONDS]
        for job_id in idle:
            self._followed.pop(job_id).close()

    def _folder(self, record: RunRecord) -> Path:
        return self._job_folder(record.name) / "logs"


class _Spool:
    """Logs that grow in a folder."""

    def __init__(self, job_id: str, folder: Path) -> None:
        self.frames = Frames()
        self._job_id = job_id
        self._folder = folder
        self._lock = threading.Lock()

    @property
    def sizes(self) -> Mapping[str, int]:
        return self.frames.ends

    def look(self) -> None:
        with self._lock:
            self.frames.look(self._folder)

    def read(self, replica: str, begin: int, end: int) -> bytes:
        try:
            return _part(self._folder / f"{replica}.log", begin, end)
        except FileNotFoundError as error:
            raise LogsMovedError(self._job_id) from error


class _Followed:
    """A job's logs as they come from its pods."""

    def __init__(self, job_id: str, cluster: Cluster, namespace: str, name: str) -> None:
        self.asked = time.monotonic()
        self._looked = -_LOOK_SECONDS
        self._stack = ExitStack()
        self._stack.callback(cluster.close)
        self._live = LiveJob(cluster, namespace, name)
        self._streams = self._stack.enter_context(self._live.streams(follow=True))
        self.texts = _Spool(job_id, self._streams.folder)

    def look(self) -> None:
        self.asked = now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            with suppress(EncampError):
                self._streams.follow(self._live.replicas())
        self.texts.look()

    def has(self, sizes: Mapping[str, int]) -> bool:
        """Whether it has all of these logs."""
        self.look()
        return dict(self.texts.sizes) == {name: size for name, size in sizes.items() if size}

    def close(self) -> None:
        self._stack.close()


@dataclass
class _Sealed:
    """Final logs: objects of the bucket, or files if they could not be stored; empty without a job."""

    job: KnownJob | None
    storage: Storage
    pieces: _Pieces
    frames: Frames = field(default_factory=Frames)
    sizes: dict[str, int] = field(default_factory=dict)
    sources: dict[str, dict[str, Any] | Path] = field(default_factory=dict)
    #: Generation of each object that was found to be what was sealed, by replica.
    generations: dict[str, str] = field(default_factory=dict)

    def find(self, spool: Path) -> None:
        """Find them; none if they were deleted, or are nowhere."""
        if self.job is None:
            return
        with suppress(UsageError):
            for log in find_logs(self.job, self.storage, spool):
                if log.source is not None:
                    self.sources[log.replica] = log.source
                    self.sizes[log.replica] = _size(log.source)
        times = self.storage.read(self.job.bucket, f"{self.job.prefix}logs/{TIMES}")
        if times is not None:
            self.frames.feed(times)
        else:
            self.frames.look(spool)

    def read(self, replica: str, begin: int, end: int) -> bytes:
        source = self.sources.get(replica)
        if source is None:
            return b""
        end = min(end, self.sizes[replica])
        if not isinstance(source, dict):
            with suppress(FileNotFoundError):
                return _part(source, begin, end)
            return b""
        bucket, _, name = str(source["object"]).removeprefix("gs://").partition("/")
        if replica not in self.generations:
            self.generations[replica] = verified_generation(source, self.storage)
        generation = self.generations[replica]
        found = b""
        while begin < end:
            at = begin - begin % PIECE
            piece = self.pieces.read(self.storage, (bucket, name, generation), at, min(at + PIECE, self.sizes[replica]))
            part = piece[begin - at : end - at]
            if not part:
                break
            found += part
            begin += len(part)
        return found


class _Pieces:
    """Pieces of sealed logs, those that were asked for last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str, int], bytes] = OrderedDict()

    def read(self, storage: Storage, what: tuple[str, str, str], begin: int, end: int) -> bytes:
        """Return a piece of an object, which is named by its bucket, name and generation."""
        key = (*what, begin)
        bucket, name, generation = what
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        try:
            piece = b"".join(storage.download(bucket, name, begin=begin, end=end, generation=generation))
        except RestError as error:
            if error.status != _NOT_FOUND:
                raise
            # Deleted since, at the end of its term.
            return b""
        with self._lock:
            self._kept[key] = piece
            while len(self._kept) > _PIECES_KEPT:
                self._kept.popitem(last=False)
        return piece


def _part(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as stream:
        return os.pread(stream.fileno(), max(0, end - begin), begin)


def _size(source: dict[str, Any] | Path) -> int:
    if isinstance(source, dict):
        return int(source.get("size") or 0)
    with suppress(FileNotFoundError):
        return source.stat().st_size
    return 0
