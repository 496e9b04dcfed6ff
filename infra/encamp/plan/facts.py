"""The summary of a job's plan that tear-down needs.

It stands in three places: among the outputs of the job's stack, in the engine's state on the job's component from the
moment before anything is made, and on the JobSet, or on the study's object where there are trials. So any one of them
is enough to end the job properly. Replicas of a study are those of one of its trials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.duration import seconds_of
from encamp.plan.access.identity import granted_buckets
from encamp.plan.cost.job import prices
from encamp.plan.names import log_name
from encamp.redaction import holds_secret

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.plan.study import StudyPlan

#: Annotation of a JobSet, or of a study's object: the job's facts as JSON.
FACTS_ANNOTATION = "encamp/job"


def job_facts(plan: JobPlan, *, secret: bool = False) -> dict[str, object]:
    """Return the facts as plain data without secrets; they never change with the time at which they are asked for.

    Args:
        plan: the job, decided.
        secret: its text is one: of what it searches for, only how many trials there may be is said.
    """
    machines, hourly = prices(plan)
    return {
        "jobId": plan.job_id,
        "name": plan.name,
        "namespace": plan.namespace,
        "jobSet": plan.name,
        "artifactsBucket": plan.storage.bucket,
        "prefix": plan.storage.prefix,
        "nodePools": [pool.name for pool in plan.own_pools],
        "replicas": [log_name(group.role, index) for group in plan.groups for index in range(group.count)],
        "machines": dict(machines),
        "hourly": dict(hourly),
        "pricesOf": str(plan.cost.basis) if plan.cost is not None else None,
        "grantedBuckets": list(granted_buckets(plan)),
        "identityMode": str(plan.identity.mode),
        "givenAccount": None if plan.identity.account_id is not None else plan.identity.service_account,
        "jobDir": plan.storage.job_dir,
        "resultsBucket": plan.storage.results_bucket,
        "resultsDays": plan.storage.results_days,
        "maxRunningSeconds": plan.limits.max_running_time.seconds,
        "maxWaitSeconds": seconds_of(plan.limits.max_wait_time),
        "labels": dict(plan.labels),
        **({"packages": list(plan.storage.staged)} if plan.storage.staged else {}),
        **({"sharedPools": [pool.name for pool in plan.shared_pools]} if plan.shared_pools else {}),
        **({"notices": [one.to_json() for one in plan.notices]} if plan.notices else {}),
        **({"study": _study(plan.study, secret=secret)} if plan.study is not None else {}),
    }


def _study(study: StudyPlan, *, secret: bool) -> dict[str, object]:
    """Return the study as ``StudyPlan.from_json`` reads it."""
    data = study.to_json()
    return {**data, "metric": "", "parameters": []} if secret or holds_secret(data) else data
