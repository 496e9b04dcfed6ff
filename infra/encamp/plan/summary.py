"""The summary of a job that its tear-down needs, as its plan says it.

One model is what the state of the job's stack holds before anything is made, what the stack's outputs show, what the
JobSet (or the study's object) carries and what the journal keeps, always by the same keys. So any one of these places
is enough to end the job properly, and a later ``up`` of the stack reads there what the job has already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from encamp.duration import seconds_of
from encamp.plan.access.identity import granted_buckets
from encamp.plan.cost.job import prices
from encamp.plan.names import log_name, service_account_email
from encamp.redaction import holds_secret
from encamp.spec.encamp import IdentityMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.plan.study import StudyPlan

#: Annotation of a JobSet, or of a study's object: the job's summary as JSON.
SUMMARY_ANNOTATION = "encamp/job"
#: Key that every written summary has, and nothing else that a stack puts out.
MARK = "jobSet"
#: Longest running time of a job whose summary names none: its deadline alone ends it. JSON has no infinity.
_UNLIMITED_SECONDS = 10**12

#: Left out where it is empty: a summary of a job without it has no such key.
_Sparse = Field(exclude_if=lambda value: not value)
Names = tuple[str, ...]
SparseNames = Annotated[Names, _Sparse]
Seconds = int | float


class JobSummary(BaseModel):
    """A job's plan as far as tear-down needs it; plain data without secrets of a known form.

    Every field but the first six has a default: stacks and journals of earlier versions lack some, and the engine keeps
    no output that is null.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    job_id: str
    name: str
    """The cloud name, which the JobSet has too."""
    namespace: str
    artifacts_bucket: str
    prefix: str
    """``jobs/<jobId>/`` of the artifacts bucket."""
    labels: dict[str, str]
    node_pools: Names = ()
    """Node pools of the job's own."""
    replicas: Names = ()
    """Names of every replica; of a study those of one trial. Empty if a version wrote it that named none."""
    machines: dict[str, str] = {}
    """Each role's machine in words."""
    hourly: dict[str, float] = {}
    """Price of an hour of each such machine in USD, where it is known."""
    prices_of: str | None = None
    """Date, region and source of the prices."""
    granted_buckets: Names = ()
    """Buckets beside the artifacts bucket that stay and in whose policies the job's identity has bindings."""
    identity_mode: IdentityMode = IdentityMode.SERVICE_ACCOUNT
    given_account: str | None = None
    """E-mail of the account that the job uses and does not make."""
    job_dir: str | None = None
    results_bucket: str | None = None
    """A bucket made for the job that stays with its results."""
    results_days: int | None = None
    """After how many days what the job leaves may be deleted, None if it is kept."""
    max_running_seconds: Seconds = _UNLIMITED_SECONDS
    max_wait_seconds: Seconds | None = None
    scratch_bucket: Annotated[str | None, _Sparse] = None
    """A bucket made for the job's packages that goes with the job."""
    packages: SparseNames = ()
    """``gs://`` names of the job's packages of this machine in buckets that stay."""
    shared_pools: SparseNames = ()
    """Node pools of the environment that the job uses."""
    notices: Annotated[tuple[Any, ...], _Sparse] = ()
    """Messages to send when the job ends, each as ``NoticePlan.to_json`` writes it. Another form of them must not keep
    a job from its end: a stack that is written by hand may hold anything."""
    study: Annotated[dict[str, Any] | None, _Sparse] = None
    """The search of the job's trials, as ``StudyPlan.to_json`` writes it."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self | None:
        """Return the summary in what a stack, a JobSet or a journal holds; None if there is none, or a damaged one."""
        if MARK not in data:
            return None
        try:
            return cls.model_validate(data)
        except ValidationError:
            return None

    def to_json(self) -> dict[str, Any]:
        """Return the data that ``read`` reads."""
        return {**self.model_dump(mode="json", by_alias=True), MARK: self.name}

    def account(self, project: str) -> str | None:
        """Return the e-mail of the account that was made for the job in this project, None if none was."""
        if self.given_account is not None or self.identity_mode is IdentityMode.DIRECT:
            return None
        return service_account_email(self.name, project)


def job_summary(plan: JobPlan, *, secret: bool = False) -> JobSummary:
    """Return the summary of a plan. It never changes with the time at which it is asked for.

    Args:
        plan: the job, decided.
        secret: its text is one: of what it searches for, only how many trials there may be is said.
    """
    machines, hourly = prices(plan)
    storage = plan.storage
    return JobSummary(
        job_id=plan.job_id,
        name=plan.name,
        namespace=plan.namespace,
        artifacts_bucket=storage.bucket,
        prefix=storage.prefix,
        labels=dict(plan.labels),
        node_pools=tuple(pool.name for pool in plan.own_pools),
        replicas=tuple(log_name(group.role, index) for group in plan.groups for index in range(group.count)),
        machines=dict(machines),
        hourly=dict(hourly),
        prices_of=str(plan.cost.basis) if plan.cost is not None else None,
        granted_buckets=granted_buckets(plan),
        identity_mode=plan.identity.mode,
        given_account=plan.identity.service_account if plan.identity.account_id is None else None,
        job_dir=storage.job_dir,
        results_bucket=storage.results_bucket,
        results_days=storage.results_days,
        max_running_seconds=plan.limits.max_running_time.seconds,
        max_wait_seconds=seconds_of(plan.limits.max_wait_time),
        scratch_bucket=storage.scratch_bucket,
        packages=storage.staged,
        shared_pools=tuple(pool.name for pool in plan.shared_pools),
        notices=tuple(one.to_json() for one in plan.notices),
        study=_study(plan.study, secret=secret) if plan.study is not None else None,
    )


def _study(study: StudyPlan, *, secret: bool) -> dict[str, Any]:
    """Return the study as ``StudyPlan.from_json`` reads it."""
    data = study.to_json()
    return {**data, "metric": "", "parameters": []} if secret or holds_secret(data) else data
