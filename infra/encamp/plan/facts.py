"""What a job is, as far as its plan alone says it: what whoever brings it to its end has to know.

It stands in three places: among the outputs of the job's stack, in the engine's state on the job's component from the
moment before anything is made, and on the JobSet. So any one of them is enough to end the job properly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.plan.access.identity import granted_buckets
from encamp.plan.cost.job import prices
from encamp.plan.names import log_name

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

#: Annotation of a JobSet: the job's facts as JSON.
FACTS_ANNOTATION = "encamp/job"


def job_facts(plan: JobPlan) -> dict[str, object]:
    """The facts as plain data without secrets; they never change with the time at which they are asked for."""
    machines, hourly = prices(plan)
    return {
        "jobId": plan.job_id,
        "name": plan.name,
        "namespace": plan.namespace,
        "jobSet": plan.name,
        "artifactsBucket": plan.storage.bucket,
        "prefix": plan.storage.prefix,
        "nodePools": [pool.name for pool in plan.node_pools],
        "replicas": [log_name(group.role, index) for group in plan.groups for index in range(group.count)],
        "machines": dict(machines),
        "hourly": dict(hourly),
        "pricesOf": str(plan.cost.basis) if plan.cost is not None else None,
        "grantedBuckets": list(granted_buckets(plan)),
        "givenAccount": None if plan.identity.account_id is not None else plan.identity.service_account,
        "jobDir": plan.storage.job_dir,
        "resultsBucket": plan.storage.results_bucket,
        "resultsDays": plan.storage.results_days,
        "maxRunningSeconds": plan.limits.max_running_time_seconds,
        "maxWaitSeconds": plan.limits.max_wait_time_seconds,
        "labels": dict(plan.labels),
    }
