"""The buckets of an environment beyond their names: what somebody writes of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")


class StorageSpec(Written):
    """How long the artifacts bucket keeps what, and a bucket of logs beside it."""

    versioning: Flag | None = None
    """What is overwritten or deleted stays for a while. On when absent, in the sandbox off."""
    keep_old_versions_days: Int64 = 30
    """So long."""
    colder_after_days: Int64 | None = None
    """Results are moved to Nearline after so many days; they stay as they are when absent."""
    logs_bucket: Text | None = None
    """A bucket for logs: who read and wrote what in the artifacts bucket, and what sinks bring; none when absent."""
    logs_retention_days: Int64 = 400
    """Logs are deleted after so many days."""


def storage_problems(storage: StorageSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Everything that is wrong with it."""
    for name in ("keep_old_versions_days", "logs_retention_days", "colder_after_days"):
        days: int | None = getattr(storage, name)
        if days is not None and days < 1:
            yield Found((name,), f"{days} must be at least 1")
    kept, colder = environment.artifacts_retention_days, storage.colder_after_days
    if kept is not None and colder is not None and colder >= kept:
        message = f"results are deleted after {kept} days, before they would be moved"
        yield Found(("colder_after_days",), message, "leave it out")
    if "artifactsBucket" in environment.adopt:
        for name in sorted({"versioning", "keep_old_versions_days", "colder_after_days"} & storage.model_fields_set):
            yield Found((name,), "is of a bucket that is made, and the artifacts bucket is adopted", "leave it out")
    if storage.logs_bucket is None:
        if "logs_retention_days" in storage.model_fields_set:
            yield Found(("logs_retention_days",), "there is no logsBucket", "write logsBucket, or leave it out")
    elif not _BUCKET.fullmatch(storage.logs_bucket):
        message = f"{storage.logs_bucket!r} must be a bucket name: 3 to 63 lowercase letters, digits, ., _ and -"
        yield Found(("logs_bucket",), message)
    elif storage.logs_bucket == environment.artifacts_bucket:
        yield Found(("logs_bucket",), "must be another bucket than that of artifacts")
