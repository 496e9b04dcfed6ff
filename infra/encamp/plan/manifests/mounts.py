"""Buckets as files of every replica, at ``/gcs/BUCKET``: the place that Vertex AI has for them too.

An object's file is where its address says: ``gs://BUCKET/a/b`` is ``/gcs/BUCKET/a/b``, also where a folder alone is
mounted. A folder of the environment's own bucket is never mounted but as the job dir: the rest is other jobs' results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.access.ownership import OwnedStorage
    from encamp.spec.encamp import MountSpec

ROOT = "/gcs"
WHERE = "encamp.mounts"


@dataclass(frozen=True)
class MountPlan:
    """One bucket, or a folder of it, as files.

    Attributes:
        folder: without a final ``/``; empty for the whole bucket.
        path: where replicas see it.
        options: of Cloud Storage FUSE, those that encamp sets among them.
        is_job_dir: whether the job's own rights reach it already.
    """

    bucket: str
    folder: str
    path: str
    read_only: bool
    options: tuple[str, ...]
    is_job_dir: bool = False


def mounts(wanted: Sequence[MountSpec], job_dir: str | None, owned: OwnedStorage) -> tuple[MountPlan, ...]:
    """Return the mounts, in the order of the job file.

    Args:
        wanted: mounts that keep the rules.
        job_dir: the job dir, None if the job has none.
        owned: the job's part of Cloud Storage.

    Raises:
        PlanError: one of them is a bucket of the environment or of another job, or lies inside another.
    """
    found = [_mount(each, job_dir, index) for index, each in enumerate(wanted)]
    for index, mount in enumerate(found):
        owned.check_bucket(mount.bucket, f"{WHERE}[{index}].bucket")
        if mount.bucket == owned.artifacts and not mount.is_job_dir:
            raise PlanError(
                f"gs://{owned.artifacts} holds the results of every job of the environment",
                where=f"{WHERE}[{index}].bucket",
                hint="write jobDir: true for the job's own folder of it, or mount another bucket",
            )
        inside = [other for other in found[:index] if _nested(mount.path, other.path)]
        if inside:
            raise PlanError(
                f"{mount.path} and {inside[0].path} lie inside each other",
                where=f"{WHERE}[{index}]",
                hint="mount folders that are beside each other, or the outer one alone",
            )
    return tuple(found)


def _mount(wanted: MountSpec, job_dir: str | None, index: int) -> MountPlan:
    bucket, folder = wanted.bucket, wanted.prefix or ""
    if wanted.job_dir:
        if job_dir is None:
            raise PlanError("the job has no job dir", where=f"{WHERE}[{index}].jobDir", hint="give one, or remove it")
        bucket, _, folder = job_dir.removeprefix("gs://").partition("/")
        folder = folder.strip("/")
        if any(character in folder for character in ",:"):
            raise PlanError(
                f"the job dir {job_dir} cannot be mounted: Cloud Storage FUSE takes no , and no : in a folder's name",
                where=f"{WHERE}[{index}].jobDir",
                hint="rename the folder, or remove the mount",
            )
    # Objects that were uploaded one by one have no folders above them; this shows folders all the same.
    options = ("implicit-dirs", *((f"only-dir={folder}",) if folder else ()), *(wanted.options or ()))
    return MountPlan(
        bucket=bucket or "",
        folder=folder,
        path="/".join((ROOT, bucket or "", *((folder,) if folder else ()))),
        read_only=not (wanted.job_dir or wanted.write),
        options=options,
        is_job_dir=wanted.job_dir,
    )


def _nested(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)
