"""Probes of Kueue: what it makes of a job in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.cases import condition
from encamp.acceptance.probe import of_job
from encamp.acceptance.watcher import JOB_SETS, WORKLOADS

if TYPE_CHECKING:
    from encamp.acceptance.cases import JobCase
    from encamp.acceptance.sightings import Sighting


def _admitted(versions: list[Sighting]) -> float | None:
    """When a Workload was first seen admitted."""
    return next((one.at for one in versions if condition(one.item, "Admitted").get("status") == "True"), None)


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
    """Compare when the JobSet ran with when its Workload was admitted."""
    workloads = [versions for _, versions in case.sightings.versions(WORKLOADS)]
    if not workloads:
        raise NotAskedError(case.refused.get(WORKLOADS) or "no Workload was seen")
    admitted = _admitted(workloads[0])
    expect(admitted is not None, "the Workload was never seen admitted, and the job has run")
    for _, versions in case.sightings.versions(JOB_SETS):
        early = [one for one in versions if one.at < (admitted or 0.0) and not one.item["spec"].get("suspend")]
        expect(not early, "the JobSet ran before its Workload was admitted")
    reason = condition(workloads[0][-1].item, "Admitted").get("message", "")
    return f"suspended until admitted: {reason}"
