"""The environment's buckets: one where results, sealed logs and receipts outlive their jobs, and one for logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

from encamp.plan.environment.parts import LOG_WRITER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.environment.model import BucketPlan, LifecyclePlan
    from encamp.plan.model import EnvironmentPlan


_DAY_SECONDS = 86_400


class EnvironmentStorage(pulumi.ComponentResource):
    """Buckets that no public address reads, whatever anybody grants, with access by IAM alone.

    Args:
        owner: the environment, whose own child the artifacts bucket once was.
        after: what must stand before: rights on their key.

    Attributes:
        artifacts: name of the bucket of results.
        logs: name of the bucket of logs, if there is one.
    """

    def __init__(
        self,
        name: str,
        plan: EnvironmentPlan,
        *,
        owner: pulumi.Resource,
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:EnvironmentStorage", name, {}, opts)
        self._plan = plan
        self._after = list(after)
        logs = self._bucket(f"{name}-logs", plan.logs, pulumi.ResourceOptions()) if plan.logs is not None else None
        artifacts = f"{name}-artifacts"
        if "artifactsBucket" in plan.adopted:
            found = gcp.storage.Bucket.get(artifacts, plan.artifacts.name, opts=pulumi.ResourceOptions(parent=self))
        else:
            moved = pulumi.ResourceOptions(aliases=[pulumi.Alias(parent=owner)])
            found = self._bucket(artifacts, plan.artifacts, moved, usage=self._usage(name, logs))
        self.artifacts: pulumi.Output[str] = found.name
        self.logs: pulumi.Output[str] | None = logs.name if logs is not None else None
        self.register_outputs({})

    def _usage(self, name: str, logs: gcp.storage.Bucket | None) -> gcp.storage.BucketLoggingArgsDict | None:
        """Who read and wrote what in the artifacts bucket, as lines in the bucket of logs."""
        if logs is None:
            return None
        writer = gcp.storage.BucketIAMMember(
            f"{name}-usage",
            bucket=logs.name,
            role="roles/storage.objectCreator",
            member=f"group:{LOG_WRITER}",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._after.append(writer)
        return {"log_bucket": logs.name, "log_object_prefix": f"usage/{self._plan.artifacts.name}"}

    def _bucket(
        self,
        name: str,
        bucket: BucketPlan,
        opts: pulumi.ResourceOptions,
        usage: gcp.storage.BucketLoggingArgsDict | None = None,
    ) -> gcp.storage.Bucket:
        plan = self._plan
        versioning: gcp.storage.BucketVersioningArgsDict | None = {"enabled": True} if bucket.versioning else None
        key: gcp.storage.BucketEncryptionArgsDict | None = None
        if plan.key is not None:
            key = {"default_kms_key_name": plan.key.full_name}
        own = pulumi.ResourceOptions(parent=self, protect=plan.protect, depends_on=self._after)
        return gcp.storage.Bucket(
            name,
            name=bucket.name,
            location=plan.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=versioning,
            soft_delete_policy=soft_delete(bucket.soft_delete_days),
            lifecycle_rules=[_rule(one) for one in bucket.lifecycle],
            encryption=key,
            logging=usage,
            # People's results: a destroy of the environment must fail rather than lose them.
            force_destroy=False,
            labels=dict(plan.labels),
            opts=pulumi.ResourceOptions.merge(own, opts),
        )


def soft_delete(days: int | None) -> gcp.storage.BucketSoftDeletePolicyArgsDict | None:
    """Give the policy that keeps what is deleted for so many days; None leaves that to Google, which keeps a week."""
    return None if days is None else {"retention_duration_seconds": days * _DAY_SECONDS}


def _rule(rule: LifecyclePlan) -> gcp.storage.BucketLifecycleRuleArgsDict:
    action: gcp.storage.BucketLifecycleRuleActionArgsDict = {"type": rule.action}
    condition: gcp.storage.BucketLifecycleRuleConditionArgsDict = {}
    if rule.storage_class is not None:
        action["storage_class"] = rule.storage_class
    if rule.age_days is not None:
        condition["age"] = rule.age_days
    if rule.old_days is not None:
        condition["days_since_noncurrent_time"] = rule.old_days
    if rule.newer is not None:
        condition["num_newer_versions"] = rule.newer
    if rule.suffixes:
        condition["matches_suffixes"] = list(rule.suffixes)
    if rule.live:
        condition["with_state"] = "LIVE"
    return {"action": action, "condition": condition}
