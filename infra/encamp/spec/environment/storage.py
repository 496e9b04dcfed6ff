"""The ``storage`` block of an environment: retention of its buckets, and a bucket of logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")


#: Suffixes of checkpoint files: TensorFlow's shards and indices, PyTorch's and its shards, Keras' and safetensors.
CHECKPOINT_SUFFIXES = (
    *(f"-of-{shards:05}" for shards in range(1, 17)),
    ".ckpt",
    ".distcp",
    ".h5",
    ".index",
    ".keras",
    ".pt",
    ".pth",
    ".safetensors",
)
#: A rule of a bucket's lifecycle takes so many prefixes and suffixes (storage-lifecycle-affixes).
MOST_SUFFIXES = 50
#: Google takes 0, or 7 to 90 days (storage-soft-delete-default).
_SOFT_DELETE_DAYS = (7, 90)


_AT_LEAST_ONE = (
    "keep_old_versions_days",
    "keep_versions",
    "keep_old_checkpoints_days",
    "logs_retention_days",
    "colder_after_days",
)
#: Fields of the artifacts bucket alone.
_OF_ARTIFACTS = {
    "versioning",
    "keep_old_versions_days",
    "keep_versions",
    "keep_old_checkpoints_days",
    "checkpoint_suffixes",
    "colder_after_days",
}


class StorageSpec(Written):
    """Retention of the environment's buckets, and a bucket of logs beside them."""

    versioning: Flag | None = None
    """Overwritten and deleted objects of the artifacts bucket stay for a while, and are paid for. On when absent, in
    the sandbox off."""
    keep_old_versions_days: Int64 = 7
    """Days for which old versions are kept."""
    keep_versions: Int64 = 3
    """Largest number of versions of an object, the newest one included."""
    keep_old_checkpoints_days: Int64 = 1
    """Days for which overwritten or deleted checkpoints are kept: trainings write gigabytes of them every few minutes.
    """
    checkpoint_suffixes: tuple[Text, ...] = CHECKPOINT_SUFFIXES
    """Suffixes of checkpoint files."""
    soft_delete_days: Int64 = 0
    """Days, from 7 to 90, for which permanently deleted objects and old versions can be restored, and are paid for; 0
    is not at all. It holds for the artifacts bucket and for buckets that jobs make for their results."""
    colder_after_days: Int64 | None = None
    """Results are moved to Nearline after so many days; they stay as they are when absent."""
    keep_output: Flag = False
    """Jobs that name no job dir write to ``jobs/<id>/output`` of the artifacts bucket, as with ``--keep-output``. Their
    trainers are then given ``--job-dir`` and have to take it. Otherwise what such a job writes on its machines is lost.
    """
    logs_bucket: Text | None = None
    """A bucket for logs: data access to the artifacts bucket, and entries of sinks; none when absent."""
    logs_retention_days: Int64 = 400
    """Logs are deleted after so many days."""


def storage_problems(storage: StorageSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    for name in _AT_LEAST_ONE:
        days: int | None = getattr(storage, name)
        if days is not None and days < 1:
            yield Found((name,), f"{days} must be at least 1")
    yield from _soft_delete(storage)
    yield from _suffixes(storage)
    kept, colder = environment.artifacts_retention_days, storage.colder_after_days
    if kept is not None and colder is not None and colder >= kept:
        message = f"results are deleted after {kept} days, before they would be moved"
        yield Found(("colder_after_days",), message, "leave it out")
    if "artifactsBucket" in environment.adopt:
        for name in sorted(_OF_ARTIFACTS & storage.model_fields_set):
            yield Found((name,), "is of a bucket that is made, and the artifacts bucket is adopted", "leave it out")
    if storage.logs_bucket is None:
        if "logs_retention_days" in storage.model_fields_set:
            yield Found(("logs_retention_days",), "there is no logsBucket", "write logsBucket, or leave it out")
    elif not _BUCKET.fullmatch(storage.logs_bucket):
        message = f"{storage.logs_bucket!r} must be a bucket name: 3 to 63 lowercase letters, digits, ., _ and -"
        yield Found(("logs_bucket",), message)
    elif storage.logs_bucket == environment.artifacts_bucket:
        yield Found(("logs_bucket",), "must be another bucket than that of artifacts")


def _soft_delete(storage: StorageSpec) -> Iterator[Found]:
    least, most = _SOFT_DELETE_DAYS
    days = storage.soft_delete_days
    if days != 0 and not least <= days <= most:
        yield Found(("soft_delete_days",), f"{days} must be 0, or from {least} to {most}", "leave it out")


def _suffixes(storage: StorageSpec) -> Iterator[Found]:
    suffixes = storage.checkpoint_suffixes
    if len(suffixes) > MOST_SUFFIXES:
        message = f"names {len(suffixes)} suffixes; Cloud Storage takes {MOST_SUFFIXES}"
        yield Found(("checkpoint_suffixes",), message)
    for index, suffix in enumerate(suffixes):
        if not suffix or suffix in suffixes[:index]:
            yield Found(("checkpoint_suffixes", index), f"{suffix!r} is empty or named twice", "such as .ckpt")
