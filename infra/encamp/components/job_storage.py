"""A job's buckets and the packages of this machine. All of it goes with the job but a bucket made for its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.components.deadline import kept_deadline
from encamp.components.environment_storage import soft_delete
from encamp.plan.model import JOB_LABEL, RESULTS_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan, LocalPackagePlan

_DAY_SECONDS = 86_400


class JobStorage(pulumi.ComponentResource):
    """Buckets that the job makes, and what is uploaded for it.

    Args:
        prefix: of the logical names of what it is made of.

    Attributes:
        own: the buckets that the job makes, by name.
    """

    def __init__(
        self,
        name: str,
        plan: JobPlan,
        labels: Mapping[str, str],
        *,
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobStorage", name, {}, opts)
        self._prefix = prefix
        key = plan.storage.key
        self._encryption: gcp.storage.BucketEncryptionArgsDict | None = None
        if key is not None:
            self._encryption = {"default_kms_key_name": key}
        self.own: dict[str, gcp.storage.Bucket] = {}
        if plan.storage.scratch_bucket is not None:
            self.own[plan.storage.scratch_bucket] = self._scratch(plan.storage.scratch_bucket, plan, labels)
        if plan.storage.results_bucket is not None:
            self.own[plan.storage.results_bucket] = self._results(plan.storage.results_bucket, plan)
        self.packages = [self._upload(index, package) for index, package in enumerate(plan.storage.packages)]
        if plan.storage.folder is not None:
            # Clients that look for the folder above a file, as TensorFlow does, would climb to where the job may not
            # read. The mark goes with the job, what the job writes below it stays.
            bucket, folder = plan.storage.folder
            gcp.storage.BucketObject(
                f"{prefix}job-dir",
                bucket=bucket,
                name=folder,
                # As ``content`` the state would encrypt it, and no preview without the stack's key could compare it.
                source=pulumi.StringAsset("\n"),
                content_type="application/x-directory",
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})

    def _scratch(self, name: str, plan: JobPlan, labels: Mapping[str, str]) -> gcp.storage.Bucket:
        """A bucket for the job's packages, emptied when it is destroyed."""
        return gcp.storage.Bucket(
            f"{self._prefix}scratch",
            name=name,
            location=plan.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            # Soft-deleted objects are billed on; scratch is scratch.
            soft_delete_policy=soft_delete(0),
            force_destroy=True,
            encryption=self._encryption,
            labels={**plan.bill_labels, **labels},
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=kept_deadline("labels")),
        )

    def _results(self, name: str, plan: JobPlan) -> gcp.storage.Bucket:
        """A bucket of the job's own that stays with what is in it when everything else goes.

        It carries neither the job's label nor a deadline: what does is taken down. Its lifecycle rule is for those who
        never reap; ages count from an object's creation, so the time that the job itself may take comes on top.
        """
        days = plan.storage.results_days
        age = None if days is None else days + -(-plan.limits.expiry_seconds // _DAY_SECONDS)
        labels = {key: value for key, value in plan.labels.items() if key != JOB_LABEL}
        return gcp.storage.Bucket(
            f"{self._prefix}results",
            name=name,
            location=plan.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            soft_delete_policy=soft_delete(plan.storage.soft_delete_days),
            lifecycle_rules=None if age is None else [{"action": {"type": "Delete"}, "condition": {"age": age}}],
            encryption=self._encryption,
            labels={**plan.bill_labels, **labels, RESULTS_LABEL: plan.name},
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
        )

    def _upload(self, index: int, package: LocalPackagePlan) -> gcp.storage.BucketObject:
        """An archive in its bucket; the bucket of somebody else is only named."""
        made = self.own.get(package.bucket)
        return gcp.storage.BucketObject(
            f"{self._prefix}package-{index}",
            bucket=made.name if made is not None else package.bucket,
            name=package.object_name,
            source=pulumi.FileAsset(str(package.path)),
            opts=pulumi.ResourceOptions(parent=self),
        )
