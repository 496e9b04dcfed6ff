"""The manifest of a job's sealed logs, judged by everybody who reads it.

A bucket is written by others too. An entry counts only where it names the replica's own object below the job's own
``logs/`` folder, and is of the form that sealing writes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.cloud.storage import Storage

MANIFEST = "logs/manifest.json"
#: The manifest of a job that goes on: the sealed logs of ended trials.
PARTIAL = "logs/sealed.json"
_READ_BYTES = 1024 * 1024
#: A log up to this size is checked in memory, a larger one in a temporary file.
_IN_MEMORY = 8 * 1024 * 1024
_LONGEST_TEXT = 4096
_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, Field(max_length=_LONGEST_TEXT)]


class _Entry(BaseModel):
    """One replica's log, as ``seal.py`` writes it; later versions may have more fields."""

    model_config = ConfigDict(strict=True, extra="ignore")

    replica: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,126}[a-z0-9])?$")]
    object: str | None
    size: _Count | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    generation: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")] | None = None
    complete: bool
    reason: str = ""
    exitCode: int | None = None  # noqa: N815 - as the manifest spells it
    termination: dict[str, Any] | None = None
    attempts: _Count | None = None


class _Manifest(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    version: Literal[1] = 1
    replicas: list[_Entry]


def log_object(bucket: str, prefix: str, replica: str) -> str:
    """Return the ``gs://`` name of a replica's sealed log; ``prefix`` is ``jobs/<jobId>/``."""
    return f"gs://{bucket}/{prefix}logs/{replica}.log"


def read_entries(text: bytes, bucket: str, prefix: str, name: str = MANIFEST) -> list[dict[str, Any]]:
    """Return the entries of a job's manifest.

    Raises:
        EngineError: it is damaged, or names what is no log of this job.
    """
    where = f"gs://{bucket}/{prefix}{name}"
    try:
        data = json.loads(text)
        found = _Manifest.model_validate(data)
    except (ValueError, RecursionError) as error:
        why = _first(error) if isinstance(error, ValidationError) else "it is no JSON"
        hint = "read the logs beside it"
        raise EngineError(f"the manifest of the logs is damaged: {why}", where=where, hint=hint) from error
    for entry in found.replicas:
        if entry.object is None:
            continue
        if entry.object != log_object(bucket, prefix, entry.replica) or entry.sha256 is None or entry.size is None:
            raise EngineError(
                f"the manifest of the logs names what is no sealed log of {entry.replica}: {entry.object[:200]}",
                where=where,
                hint="somebody else than encamp wrote it; nothing of it is shown",
            )
    entries: list[dict[str, Any]] = data["replicas"]
    return entries


def verified(entry: dict[str, Any], storage: Storage) -> Iterator[bytes]:
    """Yield the bytes of a sealed log, none before all of them are known to be unchanged.

    Raises:
        EngineError: they are not.
        RestError: the object cannot be read.
    """
    bucket, name = sealed_place(entry)
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as held:
        _check(entry, storage.download(bucket, name), held.write)
        held.seek(0)
        while piece := held.read(_READ_BYTES):
            yield piece


def verified_generation(entry: dict[str, Any], storage: Storage) -> str:
    """Return the generation of a sealed log that was read once and found to be what was sealed; empty if it is gone.

    Raises:
        EngineError: it is not what was sealed.
        RestError: the object cannot be read.
    """
    bucket, name = sealed_place(entry)
    found = storage.stat(bucket, name)
    if found is None:
        return ""
    generation = str(found.get("generation") or "")
    _check(entry, storage.download(bucket, name, generation=generation), len)
    return generation


def _check(entry: dict[str, Any], pieces: Iterator[bytes], keep: Any) -> None:
    digest, left = hashlib.sha256(), int(entry["size"])
    for piece in pieces:
        digest.update(piece)
        left -= len(piece)
        if left < 0:
            break
        keep(piece)
    if left or digest.hexdigest() != entry["sha256"]:
        raise EngineError("the log is not the one that was sealed: its SHA-256 differs", where=entry["object"])


def sealed_place(entry: dict[str, Any]) -> tuple[str, str]:
    """Return the bucket and name of a sealed log."""
    bucket, _, name = str(entry["object"]).removeprefix("gs://").partition("/")
    return bucket, name


def _first(error: ValidationError) -> str:
    """Return the first of the problems, with its place."""
    found = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
