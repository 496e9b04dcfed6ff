"""The intent of a job, on record before anything exists: plain data without secrets."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import Field

from encamp.cloud.leftovers import JobPlace
from encamp.kinds.google import RESOURCE_POLICY
from encamp.plan.declared import declared_resources
from encamp.plan.names import log_name
from encamp.plan.summary import JobSummary, job_summary
from encamp.redaction import redacted_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.run.store.outputs import EnvironmentOutputs


class Intent(JobSummary):
    """Everything that tear-down needs of a job: the summary of its plan, where the job is, and how it was started."""

    environment: str
    """Name of the environment's stack."""
    stack: str
    """Name of the job's stack."""
    folder: str
    """The stack's workspace folder; empty for one whose config is committed in the repository."""
    project: str
    cluster: str
    """``projects/P/locations/L/clusters/C``."""
    deadline: float
    """Seconds since the epoch."""
    images: dict[str, str] = Field(default_factory=dict)
    """Each role's image; none if a stack or the cloud tells of the job, and no record."""
    spec_hash: str | None = None
    source: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    """The Job resource as data, without secrets of a known form, None if the job was started without a record."""
    resources: tuple[dict[str, str], ...] = ()
    """Resources that will be created, each as ``type`` (the engine's token), ``name`` (the logical one) and ``cloud``
    (its name there); none if the job was started without a record."""
    started_by: dict[str, str] | None = None
    """The starter, see ``actor``; None where plain ``pulumi up`` did, which the engine's history and Google's audit
    logs know."""

    @property
    def place(self) -> JobPlace:
        """The places of the job's resources."""
        return JobPlace(
            project=self.project,
            labels=self.labels,
            cluster=self.cluster,
            namespace=self.namespace,
            buckets=(self.artifacts_bucket, *self.granted_buckets),
            account=self.account(self.project),
            policies=tuple(one["cloud"] for one in self.resources if one["type"] == RESOURCE_POLICY.token),
            given_accounts=(self.given_account,) if self.given_account is not None else (),
            packages=self.packages,
        )


def planned_intent(
    plan: JobPlan,
    environment: EnvironmentOutputs,
    *,
    environment_stack: str,
    stack: str,
    folder: str,
    deadline: float,
    spec_hash: str,
    source: dict[str, Any] | None,
    job: Mapping[str, Any] | None = None,
    started_by: dict[str, str] | None = None,
) -> Intent:
    """Return the intent of a plan that is about to be brought up; ``job`` is the Job resource as data, with its id."""
    found = found_intent(
        job_summary(plan),
        environment,
        environment_stack=environment_stack,
        stack=stack,
        folder=folder,
        deadline=deadline,
    )
    return found.model_copy(
        update={
            "images": {str(group.role): group.image for group in plan.groups},
            "spec_hash": spec_hash,
            "source": source,
            "job": redacted_data(dict(job)) if job is not None else None,
            "resources": tuple(asdict(one) for one in declared_resources(plan)),
            "started_by": started_by,
            # The record keeps what a stack would leave out: nobody but the job's driver and its readers see it.
            "study": redacted_data(plan.study.to_json()) if plan.study is not None else None,
        }
    )


def found_intent(
    summary: JobSummary,
    environment: EnvironmentOutputs,
    *,
    environment_stack: str,
    stack: str,
    deadline: float,
    folder: str = "",
) -> Intent:
    """Return the intent of a job of which only its summary is known: its stack holds it, or its JobSet."""
    return Intent(
        **dict(summary),
        environment=environment_stack,
        stack=stack,
        folder=folder,
        project=environment.project,
        cluster=environment.cluster_path,
        deadline=deadline,
    )


def with_job_set(intent: Intent, job_set: Mapping[str, Any]) -> Intent:
    """Return the intent with the replicas and images that a JobSet names."""
    groups = job_set.get("spec", {}).get("replicatedJobs") or []
    specs = {group["name"]: group["template"]["spec"] for group in groups}
    replicas = [log_name(role, index) for role, spec in specs.items() for index in range(spec.get("completions") or 1)]
    images = {role: spec["template"]["spec"]["containers"][0]["image"] for role, spec in specs.items()}
    return intent.model_copy(update={"replicas": tuple(replicas), "images": images})
