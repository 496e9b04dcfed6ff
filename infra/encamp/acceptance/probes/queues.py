"""Probes of Kueue: its objects for a job in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.acceptance.answers import expect
from encamp.acceptance.cases import condition
from encamp.acceptance.probe import of_job
from encamp.acceptance.watcher import JOB_SETS, WORKLOADS

if TYPE_CHECKING:
    from encamp.acceptance.cases import JobCase


@of_job("kueue-workload-of-a-job-set", "queue")
def workload_of_a_job_set(case: JobCase) -> str:
    """Compare the Workload's pod sets with the JobSet's replicated jobs."""
    workloads = case.seen(WORKLOADS)
    expect(len(workloads) == 1, f"the JobSet has {len(workloads)} Workloads")
    sets = {one["name"]: one["count"] for one in workloads[0]["spec"]["podSets"]}
    wanted = {str(group.role.value): group.count for group in case.plan.groups}
    expect(sets == wanted, f"pod sets {sets}, believed {wanted}")
    return f"{workloads[0]['metadata']['name']}: {sets}"


@of_job("kueue-suspends-until-admitted", "queue")
def suspends_until_admitted(case: JobCase) -> str:
    """Compare when the JobSet was resumed with when its Workload was admitted."""
    workloads, job_sets = case.seen(WORKLOADS), case.seen(JOB_SETS)
    admitted, suspended = condition(workloads[0], "Admitted"), condition(job_sets[0], "Suspended")
    expect(admitted.get("status") == "True", "the job has run, and its Workload was never admitted")
    expect(suspended, "the JobSet was never suspended")
    expect(suspended["status"] == "False", "the job has run, and its JobSet is still suspended")
    saw = f"admitted at {admitted['lastTransitionTime']}, resumed at {suspended['lastTransitionTime']}"
    expect(admitted["lastTransitionTime"] <= suspended["lastTransitionTime"], saw)
    return saw
