"""The folders of a trial's event files: below its folder of the job dir, in a bucket or on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from encamp.cloud.rest import RestError
from encamp.run.studies.event_files import EVENT_FILE, EventFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.cloud.storage import Storage
    from encamp.tuning.model import Measurement

_REMOTE = "gs://"
_READ_BYTES = 1024 * 1024
_PAST_THE_END = 416
_NOT_FOUND = 404


@dataclass(frozen=True)
class FoundFile:
    """A file of a folder: its name below that, and its size in bytes."""

    name: str
    size: int


class EventFolder(Protocol):
    """Files below a folder, which need not be there yet."""

    def files(self) -> Iterator[FoundFile]:
        """Return every file, in the order of names.

        Raises:
            EngineError, OSError: they cannot be listed.
        """
        ...

    def read(self, name: str, begin: int) -> Iterator[bytes]:
        """Return the bytes of a file from ``begin`` on, piece by piece; none if there are none.

        Raises:
            EngineError, OSError: it cannot be read.
        """
        ...


def event_folder(job_dir: str | None, number: int, storage: Storage | None) -> EventFolder | None:
    """Return the folder of a trial's summaries (spec 7.5), or None.

    Args:
        job_dir: of the job: ``gs://`` path, or a folder of this machine.
        number: of the trial.
        storage: None where Cloud Storage is not to be asked.
    """
    if job_dir is None:
        return None
    if not job_dir.startswith(_REMOTE):
        return LocalFolder(Path(job_dir) / str(number))
    bucket, _, name = job_dir.removeprefix(_REMOTE).partition("/")
    below = f"{name.strip('/')}/{number}/".lstrip("/")
    return None if storage is None else BucketFolder(storage, bucket, below)


class BucketFolder:
    """A prefix of Cloud Storage, which ends with ``/``."""

    def __init__(self, storage: Storage, bucket: str, prefix: str) -> None:
        self._storage = storage
        self._bucket = bucket
        self._prefix = prefix

    def files(self) -> Iterator[FoundFile]:
        """Yield every object below the prefix."""
        for item in self._storage.objects(self._bucket, self._prefix):
            yield FoundFile(item.name.removeprefix(self._prefix), item.size)

    def read(self, name: str, begin: int) -> Iterator[bytes]:
        """Yield an object's bytes, by a range."""
        try:
            yield from self._storage.download(self._bucket, self._prefix + name, begin=begin)
        except RestError as error:
            if error.status not in {_PAST_THE_END, _NOT_FOUND}:
                raise


class LocalFolder:
    """A folder of this machine; links that lead out of it are not followed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def files(self) -> Iterator[FoundFile]:
        """Yield every regular file below it."""
        for folder, folders, names in os.walk(self._path):
            folders.sort()
            for name in sorted(names):
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield FoundFile(path.relative_to(self._path).as_posix(), path.stat().st_size)

    def read(self, name: str, begin: int) -> Iterator[bytes]:
        """Yield a file's bytes."""
        with (self._path / name).open("rb") as file:
            file.seek(begin)
            while piece := file.read(_READ_BYTES):
                yield piece


class EventReader:
    """All event files of a folder, each read on from its last offset.

    A tag is what TensorBoard shows; ``validation/epoch_accuracy`` is also the tag ``epoch_accuracy`` of the run, that
    is the folder, ``validation``.
    """

    def __init__(self, folder: EventFolder, tag: str) -> None:
        self._folder = folder
        self._tag = tag
        self._files: dict[str, EventFile] = {}

    @property
    def unusable(self) -> int:
        """The number of values that were not finite numbers."""
        return sum(file.unusable for file in self._files.values())

    def read(self) -> Iterator[Measurement]:
        """Yield what has come since the last call.

        Raises:
            EngineError, OSError: as its folder; the next reading goes on where this one ended.
        """
        for item in self._folder.files():
            if EVENT_FILE not in item.name.rpartition("/")[2]:
                continue
            file = self._files.get(item.name)
            if file is None or item.size < file.offset:  # written anew under its old name
                file = self._files[item.name] = EventFile(self._tags(item.name))
            if item.size > file.offset and not file.broken:
                for piece in self._folder.read(item.name, file.offset):
                    yield from file.feed(piece)

    def _tags(self, name: str) -> frozenset[str]:
        run = name.rpartition("/")[0] + "/"
        return frozenset({self._tag, self._tag.removeprefix(run)})
