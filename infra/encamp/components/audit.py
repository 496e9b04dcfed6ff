"""Audit logs of the services that jobs touch, and where they are exported to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulumi
import pulumi_gcp as gcp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.access.model import AuditPlan, AuditSinkPlan
    from encamp.plan.model import EnvironmentPlan

_DAY_SECONDS = 86_400


class Audit(pulumi.ComponentResource):
    """Data Access logs and their sink; Admin Activity is always kept, whatever stands here.

    Args:
        after: what must stand before the bucket: rights on its key.

    Attributes:
        writer: the identity that writes to the sink's destination, None without a sink.
    """

    def __init__(
        self,
        name: str,
        environment: EnvironmentPlan,
        plan: AuditPlan,
        *,
        after: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:Audit", name, {}, opts)
        self._after = list(after)
        self._child = pulumi.ResourceOptions(parent=self)
        for service, types in plan.services.items():
            configs: list[gcp.projects.IAMAuditConfigAuditLogConfigArgsDict] = [
                {"log_type": kind, "exempted_members": list(plan.exempted) or None} for kind in types
            ]
            gcp.projects.IAMAuditConfig(
                f"audit-{service.partition('.')[0]}",
                project=environment.project,
                service=service,
                audit_log_configs=configs,
                opts=self._child,
            )
        self.writer = self._sink(environment, plan.sink) if plan.sink is not None else None
        self.register_outputs({})

    def _sink(self, environment: EnvironmentPlan, plan: AuditSinkPlan) -> pulumi.Output[str]:
        bucket = self._bucket(environment, plan) if plan.bucket is not None else None
        sink = gcp.logging.ProjectSink(
            "audit",
            name=plan.name,
            project=environment.project,
            # By the bucket itself, so that it is there before.
            destination=plan.destination
            if bucket is None
            else pulumi.Output.concat("storage.googleapis.com/", bucket.name),
            filter=plan.filter,
            unique_writer_identity=True,
            opts=self._child,
        )
        if bucket is not None:
            gcp.storage.BucketIAMMember(
                "audit",
                bucket=bucket.name,
                role="roles/storage.objectCreator",
                member=sink.writer_identity,
                opts=self._child,
            )
        return sink.writer_identity

    def _bucket(self, environment: EnvironmentPlan, plan: AuditSinkPlan) -> gcp.storage.Bucket:
        days = plan.retention_days or 0
        key: gcp.storage.BucketEncryptionArgsDict | None = None
        if environment.key is not None:
            key = {"default_kms_key_name": environment.key.full_name}
        return gcp.storage.Bucket(
            "audit",
            name=plan.bucket,
            location=environment.region.upper(),
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            retention_policy={"retention_period": str(days * _DAY_SECONDS)},
            lifecycle_rules=[{"action": {"type": "Delete"}, "condition": {"age": days}}],
            encryption=key,
            force_destroy=False,
            labels=dict(environment.labels),
            opts=pulumi.ResourceOptions(parent=self, protect=plan.protect, depends_on=self._after),
        )
