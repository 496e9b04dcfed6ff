"""A job's scratch bucket and the trainer package in it. Both go with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import kept_deadline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from encamp.plan.model import JobPlan


class JobStorage(pulumi.ComponentResource):
    """The scratch bucket, emptied when it is destroyed, and the packed local trainer if the job has one.

    Args:
        package: the packed trainer's file, None where the job names its packages by URI.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        labels: Mapping[str, str],
        package: Path | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobStorage", name, {}, opts)
        self.scratch = gcp.storage.Bucket(
            "scratch",
            name=plan.storage.scratch_bucket,
            location=plan.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            # Soft-deleted objects are billed on; scratch is scratch.
            soft_delete_policy={"retention_duration_seconds": 0},
            force_destroy=True,
            labels=labels,
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=kept_deadline("labels")),
        )
        self.package: gcp.storage.BucketObject | None = None
        if plan.storage.package is not None and package is not None:
            self.package = gcp.storage.BucketObject(
                "package",
                bucket=self.scratch.name,
                name=plan.storage.package.object_name,
                source=pulumi.FileAsset(str(package)),
                opts=pulumi.ResourceOptions(parent=self),
            )
        folder = _managed_folder(plan)
        if folder is not None:
            # Clients that look for the folder above a file, as TensorFlow does, would climb to where the job may not
            # read. The mark goes with the job, what the job writes below it stays.
            gcp.storage.BucketObject(
                "job-dir",
                bucket=plan.storage.bucket,
                name=folder,
                content="\n",
                content_type="application/x-directory",
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})


def _managed_folder(plan: JobPlan) -> str | None:
    """The object that marks the job dir as a folder, where the job dir lies below the job's own prefix."""
    below = f"gs://{plan.storage.bucket}/"
    if plan.storage.job_dir is None or not plan.storage.job_dir.startswith(below + plan.storage.prefix):
        return None
    return plan.storage.job_dir.removeprefix(below).rstrip("/") + "/"
