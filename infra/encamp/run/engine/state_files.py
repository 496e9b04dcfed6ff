"""The states of stacks as their backend keeps them, for the day on which the engine cannot read one.

The engine's own listing reads every state of the backend: one that is damaged fails the listing for all. Here each
state is a file or an object of its own. A state that is no JSON checkpoint is unreadable for good; it is renamed, never
deleted, to a place that the engine does not list. Source of the layout: pulumi/pulumi, pkg/backend/diy (``.pulumi/
stacks/PROJECT/STACK.json``, or ``.json.gz``), and what CLI 3.259 does with such files.
"""

from __future__ import annotations

import gzip
import json
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from encamp.cloud.storage import Storage

_STATES = ".pulumi/stacks"
#: Beside the states, where the engine looks for none.
_ASIDE = ".pulumi/unreadable"
_SUFFIXES = (".json", ".json.gz")
_ATTRIBUTES = ".attrs"


class StateFiles(ABC):
    """The states of one project in one backend."""

    def __init__(self, project: str) -> None:
        self._project = project

    def stacks(self) -> list[str]:
        """Return the names of all stacks that have a state, readable or not.

        Raises:
            OSError: the folder cannot be listed.
            EngineError: the bucket cannot be.
        """
        return sorted(self._found())

    def trouble(self, stack: str) -> str | None:
        """Return why a stack's state cannot be read; None if it can, or there is none.

        Raises:
            OSError, EngineError: nobody can tell.
        """
        file = self._found().get(stack)
        content = self._content(file) if file is not None else None
        return None if content is None else _trouble(content, packed=str(file).endswith(".gz"))

    def place(self, stack: str) -> str:
        """Return a stack's state file for messages: a path or a ``gs://`` name."""
        return self._shown(self._found().get(stack) or f"{_STATES}/{self._project}/{stack}.json")

    def set_aside(self, stack: str) -> str | None:
        """Rename an unreadable state; where it is now, None if nothing was wrong with it.

        Raises:
            OSError, EngineError: it cannot be renamed.
        """
        file = self._found().get(stack)
        if file is None or self.trouble(stack) is None:
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = f"{_ASIDE}/{self._project}/{file.rpartition('/')[2]}.{stamp}"
        self._rename(file, aside)
        return self._shown(aside)

    def _found(self) -> dict[str, str]:
        """Name to file of every state."""
        files = {}
        for file in self._files(f"{_STATES}/{self._project}/"):
            name = file.rpartition("/")[2]
            for suffix in _SUFFIXES:
                if name.endswith(suffix):
                    files[name.removesuffix(suffix)] = file
        return files

    @abstractmethod
    def _files(self, folder: str) -> Iterator[str]:
        """Return files directly in a folder, named from the backend's root."""

    @abstractmethod
    def _content(self, file: str) -> bytes | None:
        """Return a file's bytes, None if it is gone."""

    @abstractmethod
    def _rename(self, file: str, new: str) -> None:
        """Rename a file, with what the backend keeps beside it."""

    @abstractmethod
    def _shown(self, file: str) -> str:
        """Return a file for people."""


class _Folder(StateFiles):
    def __init__(self, root: Path, project: str) -> None:
        super().__init__(project)
        self._root = root

    def _files(self, folder: str) -> Iterator[str]:
        with suppress(FileNotFoundError):
            yield from (f"{folder}{path.name}" for path in (self._root / folder).iterdir() if path.is_file())

    def _content(self, file: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._root / file).read_bytes()
        return None

    def _rename(self, file: str, new: str) -> None:
        (self._root / new).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            (self._root / f"{file}{_ATTRIBUTES}").rename(self._root / f"{new}{_ATTRIBUTES}")
        (self._root / file).rename(self._root / new)

    def _shown(self, file: str) -> str:
        return str(self._root / file)


class _Bucket(StateFiles):
    def __init__(self, storage: Storage, bucket: str, prefix: str, project: str) -> None:
        super().__init__(project)
        self._storage = storage
        self._bucket = bucket
        self._prefix = prefix

    def _files(self, folder: str) -> Iterator[str]:
        for found in self._storage.objects(self._bucket, f"{self._prefix}{folder}"):
            name = found.name.removeprefix(self._prefix)
            if "/" not in name.removeprefix(folder):
                yield name

    def _content(self, file: str) -> bytes | None:
        return self._storage.read(self._bucket, f"{self._prefix}{file}")

    def _rename(self, file: str, new: str) -> None:
        content = self._content(file)
        if content is not None:
            # The upload is compared with what the service has stored before the object goes.
            self._storage.upload(self._bucket, f"{self._prefix}{new}", content, "application/octet-stream")
            self._storage.delete(self._bucket, f"{self._prefix}{file}")

    def _shown(self, file: str) -> str:
        return f"gs://{self._bucket}/{self._prefix}{file}"


def state_files(url: str | None, project: str, storage: Callable[[], Storage]) -> StateFiles | None:
    """Return the states of a project at a backend's URL; None for a kind of backend whose files are not known here."""
    parts = urlsplit(url or "")
    if parts.scheme == "gs":
        prefix = parts.path.strip("/")
        return _Bucket(storage(), parts.netloc, f"{prefix}/" if prefix else "", project)
    if parts.scheme == "file":
        path = unquote((url or "").removeprefix("file://").partition("?")[0])
        return _Folder(Path(path).expanduser(), project)
    return None


def _trouble(content: bytes, *, packed: bool) -> str | None:
    """Return why bytes are no state of any version."""
    try:
        found = json.loads(gzip.decompress(content) if packed else content)
    except (ValueError, OSError, EOFError) as error:
        if not content:
            return "it is empty"
        return f"it is no JSON: {error}"
    if not isinstance(found, dict) or not isinstance(found.get("checkpoint"), dict):
        return "it is JSON, but no state"
    return None
