"""What a job is going to be, as the record says it before anything exists: plain data without secrets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.cloud.leftovers import JobPlace
from encamp.run.replicas import replica_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.run.engine import EnvironmentOutputs, StackOutputs


#: Where only the deadline label limits a job; JSON has no infinity.
_UNLIMITED = 1e12


@dataclass(frozen=True)
class Intent:
    """Everything that bringing a job to its end needs to know of it.

    Attributes:
        environment: name of the environment's stack.
        stack: name of the job's stack.
        folder: the stack's workspace folder; empty for one whose config is committed in the repository.
        cluster: ``projects/P/locations/L/clusters/C``.
        prefix: ``jobs/<jobId>/`` of ``bucket``.
        account: e-mail of the account that was made for the job, None where a given one is used.
        deadline: seconds since the epoch.
        replicas: names of every replica.
        machines: machine type by role.
    """

    job_id: str
    name: str
    environment: str
    stack: str
    folder: str
    project: str
    cluster: str
    namespace: str
    bucket: str
    prefix: str
    account: str | None
    labels: dict[str, str]
    deadline: float
    max_running_seconds: float
    max_wait_seconds: float | None
    replicas: tuple[str, ...]
    machines: dict[str, str]
    spec_hash: str | None = None
    source: dict[str, Any] | None = None
    images: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> JobPlace:
        """Where the job's resources can be."""
        return JobPlace(
            project=self.project,
            labels=self.labels,
            cluster=self.cluster,
            namespace=self.namespace,
            buckets=(self.bucket,),
            account=self.account,
        )

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        data = asdict(self)
        data["replicas"] = list(self.replicas)
        data["specHash"] = data.pop("spec_hash")
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Intent:
        """The intent that ``to_json`` wrote."""
        values = dict(data)
        values["spec_hash"] = values.pop("specHash", None)
        values["replicas"] = tuple(values["replicas"])
        return cls(**values)


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
) -> Intent:
    """The intent of a plan that is about to be brought up."""
    return Intent(
        job_id=plan.job_id,
        name=plan.name,
        environment=environment_stack,
        stack=stack,
        folder=folder,
        project=plan.project,
        cluster=environment.cluster_path,
        namespace=plan.namespace,
        bucket=plan.storage.bucket,
        prefix=plan.storage.prefix,
        account=plan.identity.service_account if plan.identity.account_id is not None else None,
        labels=dict(plan.labels),
        deadline=deadline,
        max_running_seconds=plan.limits.max_running_time_seconds,
        max_wait_seconds=plan.limits.max_wait_time_seconds,
        replicas=tuple(replica_name(group.role, index) for group in plan.groups for index in range(group.count)),
        machines={str(group.role): group.machine_type for group in plan.groups},
        spec_hash=spec_hash,
        source=source,
        images={str(group.role): group.image for group in plan.groups},
    )


def found_intent(
    outputs: StackOutputs,
    job_set: Mapping[str, Any],
    environment: EnvironmentOutputs,
    *,
    environment_stack: str,
    stack: str,
) -> Intent:
    """The intent of a job that plain ``pulumi up`` started: its stack's outputs and its JobSet say it."""
    groups = job_set.get("spec", {}).get("replicatedJobs") or []
    specs = {group["name"]: group["template"]["spec"] for group in groups}
    pods = {role: spec["template"]["spec"] for role, spec in specs.items()}
    return Intent(
        job_id=outputs.job_id,
        name=outputs.name,
        environment=environment_stack,
        stack=stack,
        folder="",
        project=environment.project,
        cluster=environment.cluster_path,
        namespace=outputs.namespace,
        bucket=outputs.artifacts_bucket,
        prefix=outputs.prefix,
        account=f"{outputs.name}@{environment.project}.iam.gserviceaccount.com",
        labels=outputs.labels,
        deadline=outputs.deadline,
        max_running_seconds=_UNLIMITED,
        max_wait_seconds=None,
        replicas=tuple(
            replica_name(role, index) for role, spec in specs.items() for index in range(spec.get("completions") or 1)
        ),
        machines={
            role: pod.get("nodeSelector", {}).get("node.kubernetes.io/instance-type", "unknown")
            for role, pod in pods.items()
        },
        images={role: pod["containers"][0]["image"] for role, pod in pods.items()},
    )
