"""The intent of a job, on record before anything exists: plain data without secrets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from encamp.cloud.leftovers import JobPlace
from encamp.kinds.google import RESOURCE_POLICY
from encamp.plan.access.identity import granted_buckets
from encamp.plan.cost.job import prices
from encamp.plan.declared import declared_resources
from encamp.plan.names import log_name
from encamp.redaction import redacted_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.run.outputs import EnvironmentOutputs, StackOutputs


#: Used if only the deadline label limits a job; JSON has no infinity.
_UNLIMITED = 1e12


@dataclass(frozen=True)
class Intent:
    """Everything that tear-down needs to know of a job.

    Attributes:
        environment: name of the environment's stack.
        stack: name of the job's stack.
        folder: the stack's workspace folder; empty for one whose config is committed in the repository.
        cluster: ``projects/P/locations/L/clusters/C``.
        prefix: ``jobs/<jobId>/`` of ``bucket``.
        account: e-mail of the account that was made for the job, None if a given one is used.
        given_account: e-mail of that, None if the job has one of its own or none.
        deadline: seconds since the epoch.
        replicas: names of every replica.
        machines: each role's machine in words.
        hourly: price of an hour of each such machine in USD, where it is known.
        prices_of: date, region and source of the prices.
        buckets: buckets beside ``bucket`` that stay and in whose policies the job's identity has bindings.
        job_dir: the job dir, None if the job has none.
        results_bucket: a bucket made for the job that stays with its results.
        results_days: after how many days what the job leaves may be deleted, None if it is kept.
        job: the Job resource as data, without secrets of a known form, None if the job was started without a record.
        resources: what will be created, each as ``type`` (the engine's token), ``name`` (the logical one) and
            ``cloud`` (what the cloud calls it); none if the job was started without a record.
        shared_pools: names of the environment's node pools that it uses; their machines are not its own.
        packages: ``gs://`` names of its packages of this machine that lie in a bucket that stays.
        study: what its trials search for, as ``StudyPlan.to_json`` says it, without secrets of a known form; None where
            it tunes nothing. ``replicas`` are then those of one trial.
        notices: who is told when it ends, each as ``NoticePlan.to_json`` says it.
        started_by: who started it, see ``actor``; None where plain ``pulumi up`` did, which the engine's history and
            Google's audit logs know.
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
    hourly: dict[str, float] = field(default_factory=dict)
    prices_of: str | None = None
    buckets: tuple[str, ...] = ()
    job_dir: str | None = None
    results_bucket: str | None = None
    results_days: int | None = None
    job: dict[str, Any] | None = None
    resources: tuple[dict[str, str], ...] = ()
    given_account: str | None = None
    started_by: dict[str, str] | None = None
    shared_pools: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    study: dict[str, Any] | None = None
    notices: tuple[dict[str, Any], ...] = ()

    @property
    def place(self) -> JobPlace:
        """The places of the job's resources."""
        return JobPlace(
            project=self.project,
            labels=self.labels,
            cluster=self.cluster,
            namespace=self.namespace,
            buckets=(self.bucket, *self.buckets),
            account=self.account,
            policies=tuple(one["cloud"] for one in self.resources if one["type"] == RESOURCE_POLICY.token),
            given_accounts=(self.given_account,) if self.given_account is not None else (),
            packages=self.packages,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the journal's form."""
        data = asdict(self)
        data["replicas"] = list(self.replicas)
        data["buckets"] = list(self.buckets)
        data["resources"] = list(self.resources)
        data["shared_pools"] = list(self.shared_pools)
        data["packages"] = list(self.packages)
        data["notices"] = list(self.notices)
        data["specHash"] = data.pop("spec_hash")
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Intent:
        """Return the intent that ``to_json`` wrote; what a later version added to it is left out."""
        known = {one.name for one in fields(cls)} | {"specHash"}
        values = {key: value for key, value in data.items() if key in known}
        values["spec_hash"] = values.pop("specHash", None)
        values["replicas"] = tuple(values["replicas"])
        values["buckets"] = tuple(values.get("buckets", ()))
        values["resources"] = tuple(values.get("resources", ()))
        values["shared_pools"] = tuple(values.get("shared_pools", ()))
        values["packages"] = tuple(values.get("packages", ()))
        values["notices"] = tuple(values.get("notices", ()))
        return cls(**values)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Intent | None:
        """Return the same, or None if a required field is missing or of the wrong type."""
        try:
            return cls.from_json(data)
        except (KeyError, TypeError, ValueError):
            return None


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
    machines, hourly = prices(plan)
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
        replicas=tuple(log_name(group.role, index) for group in plan.groups for index in range(group.count)),
        machines=dict(machines),
        spec_hash=spec_hash,
        source=source,
        images={str(group.role): group.image for group in plan.groups},
        hourly=dict(hourly),
        prices_of=str(plan.cost.basis) if plan.cost is not None else None,
        buckets=granted_buckets(plan),
        job_dir=plan.storage.job_dir,
        results_bucket=plan.storage.results_bucket,
        results_days=plan.storage.results_days,
        job=redacted_data(dict(job)) if job is not None else None,
        resources=tuple(asdict(one) for one in declared_resources(plan)),
        given_account=plan.identity.service_account if plan.identity.account_id is None else None,
        started_by=started_by,
        shared_pools=tuple(pool.name for pool in plan.shared_pools),
        packages=plan.storage.staged,
        study=redacted_data(plan.study.to_json()) if plan.study is not None else None,
        notices=tuple(one.to_json() for one in plan.notices),
    )


def found_intent(
    outputs: StackOutputs,
    job_set: Mapping[str, Any],
    environment: EnvironmentOutputs,
    *,
    environment_stack: str,
    stack: str,
    folder: str = "",
) -> Intent:
    """Return the intent of a job that plain ``pulumi up`` started: its stack's outputs and its JobSet say it."""
    groups = job_set.get("spec", {}).get("replicatedJobs") or []
    specs = {group["name"]: group["template"]["spec"] for group in groups}
    pods = {role: spec["template"]["spec"] for role, spec in specs.items()}
    return Intent(
        job_id=outputs.job_id,
        name=outputs.name,
        environment=environment_stack,
        stack=stack,
        folder=folder,
        project=environment.project,
        cluster=environment.cluster_path,
        namespace=outputs.namespace,
        bucket=outputs.artifacts_bucket,
        prefix=outputs.prefix,
        account=None if outputs.given_account else f"{outputs.name}@{environment.project}.iam.gserviceaccount.com",
        labels=outputs.labels,
        deadline=outputs.deadline,
        max_running_seconds=outputs.max_running_seconds or _UNLIMITED,
        max_wait_seconds=outputs.max_wait_seconds,
        replicas=outputs.replicas
        or tuple(
            log_name(role, index) for role, spec in specs.items() for index in range(spec.get("completions") or 1)
        ),
        machines=outputs.machines,
        images={role: pod["containers"][0]["image"] for role, pod in pods.items()},
        hourly=outputs.hourly,
        prices_of=outputs.prices_of,
        buckets=outputs.buckets,
        job_dir=outputs.job_dir,
        results_bucket=outputs.results_bucket,
        results_days=outputs.results_days,
        given_account=outputs.given_account,
        shared_pools=outputs.shared_pools,
        packages=outputs.packages,
        study=outputs.study,
        notices=outputs.notices,
    )
