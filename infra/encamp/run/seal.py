"""Puts every replica's whole log into the job's bucket before anything of the job is destroyed.

The manifest beside the logs says of each replica how its log ends: its size and SHA-256, the exit code and the
termination message; or the reason why it is not whole. It is written last, so that its being there proves the rest.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from encamp.errors import EncampError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from encamp.cloud.storage import Storage
    from encamp.run.spool import ReplicaLog

MANIFEST = "logs/manifest.json"


@dataclass(frozen=True)
class Seal:
    """What was sealed.

    Attributes:
        manifest: as it was written.
        stored: whether the manifest is in the bucket.
        problems: why a log is missing or short, one sentence each.
    """

    manifest: dict[str, Any]
    stored: bool
    problems: tuple[str, ...]


def seal_logs(
    storage: Storage,
    bucket: str,
    prefix: str,
    replicas: Sequence[str],
    log_of: Callable[[str], ReplicaLog],
) -> Seal:
    """Store the logs of all replicas and their manifest; never raises for one that cannot be stored.

    ``prefix`` is ``jobs/<jobId>/``, ``replicas`` the names of every replica that the job was to have.
    """
    entries = [_seal_one(storage, bucket, f"{prefix}logs/", log_of(name)) for name in replicas]
    manifest = {"version": 1, "replicas": entries}
    problems = [f"{entry['replica']}: {entry['reason']}" for entry in entries if entry["reason"]]
    try:
        text = json.dumps(manifest, indent=2, sort_keys=True).encode()
        storage.upload(bucket, f"{prefix}{MANIFEST}", text, "application/json")
    except EncampError as error:
        return Seal(manifest, stored=False, problems=(*problems, f"manifest: {error.what}"))
    return Seal(manifest, stored=True, problems=tuple(problems))


def _seal_one(storage: Storage, bucket: str, folder: str, log: ReplicaLog) -> dict[str, Any]:
    state = log.state
    entry: dict[str, Any] = {
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
    name = f"{folder}{log.replica}.log"
    try:
        with log.path.open("rb") if log.path.exists() else io.BytesIO() as stream:
            hashing = _Hashing(stream)
            storage.upload(bucket, name, hashing, "text/plain; charset=utf-8")
    except (EncampError, OSError) as error:
        why = error.what if isinstance(error, EncampError) else f"the local copy: {error.strerror}"
        return {**entry, "complete": False, "reason": f"it could not be stored: {why}"}
    return {**entry, "object": f"gs://{bucket}/{name}", "size": hashing.size, "sha256": hashing.digest.hexdigest()}


class _Hashing:
    """A stream that knows what went through it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size = 0
        self.digest = hashlib.sha256()

    def read(self, count: int = -1) -> bytes:
        piece = self._stream.read(count)
        self.size += len(piece)
        self.digest.update(piece)
        return piece
