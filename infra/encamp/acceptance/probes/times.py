"""Probes of Google's durations, which the ladder and the limits of waits count on."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.cases import condition
from encamp.acceptance.probe import of_end, of_environment, of_job
from encamp.acceptance.watcher import NODES, PODS
from encamp.plan.machines.allocatable import GPU_RESOURCE
from encamp.run.logs.replicas import CONTAINER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from encamp.acceptance.cases import EndCase, EnvironmentCase, JobCase

_MINUTE: Final = 60.0
POOL_CREATION, POOL_DELETION = 5 * _MINUTE, 10 * _MINUTE
CLUSTER: Final = 15 * _MINUTE
MACHINE, IMAGE, GPU_DRIVER = 5 * _MINUTE, _MINUTE, 15 * _MINUTE


def _within(what: str, took: list[float], most: float) -> str:
    """Return the duration of the slowest in words.

    Raises:
        NotAskedError: none was seen.
        BrokenBeliefError: it took longer than believed.
    """
    if not took:
        raise NotAskedError(f"no {what} was seen")
    saw = f"{what}: {len(took)} seen, the slowest took {max(took):.1f} s"
    expect(max(took) <= most, f"{saw}, believed at most {most:.0f} s")
    return saw


def _operations(operations: Iterable[Mapping[str, Any]], kind: str) -> list[float]:
    """Return seconds that each operation of a kind took."""
    return [
        (_time(one["endTime"]) - _time(one["startTime"])).total_seconds()
        for one in operations
        if one.get("operationType") == kind and one.get("endTime")
    ]


@of_environment("time-cluster-creation")
def cluster_creation(case: EnvironmentCase) -> str:
    """Look at the operation that made the cluster."""
    if not case.made_here:
        raise NotAskedError("the environment was there before")
    return _within("creation of the cluster", _operations(case.operations, "CREATE_CLUSTER"), CLUSTER)


@of_end("time-cluster-deletion")
def cluster_deletion(case: EndCase) -> str:
    """Look at the operation that deleted the cluster."""
    if not case.environment_gone:
        raise NotAskedError("the environment was not taken down by this run")
    return _within("deletion of the cluster", _operations(case.operations, "DELETE_CLUSTER"), CLUSTER)


@of_job("time-pool-creation")
def pool_creation(case: JobCase) -> str:
    """Look at the operations that made the job's pools."""
    return _within("creation of a pool", _operations(case.operations, "CREATE_NODE_POOL"), POOL_CREATION)


@of_job("time-pool-deletion")
def pool_deletion(case: JobCase) -> str:
    """Look at the operations that deleted the job's pools."""
    return _within("deletion of a pool", _operations(case.operations, "DELETE_NODE_POOL"), POOL_DELETION)


@of_job("time-machine-from-zero")
def machine_from_zero(case: JobCase) -> str:
    """Compare when pods were made with when they had a machine; of those that had to wait for one."""
    took = []
    for _, versions in case.sightings.versions(PODS):
        if any(condition(one.item, "PodScheduled").get("reason") == "Unschedulable" for one in versions):
            last = versions[-1].item
            scheduled = condition(last, "PodScheduled")
            if scheduled.get("status") == "True":
                made = _time(last["metadata"]["creationTimestamp"])
                took.append((_time(scheduled["lastTransitionTime"]) - made).total_seconds())
    return _within("wait for a machine", took, MACHINE)


@of_job("time-image-pull")
def image_pull(case: JobCase) -> str:
    """Compare when pods had a machine with when their container ran."""
    took = []
    for pod in case.replica_pods():
        scheduled, started = condition(pod, "PodScheduled").get("lastTransitionTime"), _started(pod)
        if scheduled and started:
            took.append((_time(started) - _time(scheduled)).total_seconds())
    return _within("start of a container", took, IMAGE)


@of_job("time-gpu-driver", "l4")
def gpu_driver(case: JobCase) -> str:
    """Compare when machines came with when they were seen to offer a GPU."""
    took = []
    for _, versions in case.sightings.versions(NODES):
        offered = [one.at for one in versions if int(one.item["status"].get("allocatable", {}).get(GPU_RESOURCE, 0))]
        if offered:
            made = _time(versions[0].item["metadata"]["creationTimestamp"]).timestamp()
            took.append(max(0.0, offered[0] - made))
    return _within("machine with a GPU", took, GPU_DRIVER)


def _started(pod: Mapping[str, Any]) -> str | None:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == CONTAINER:
            state = status.get("state") or {}
            return (state.get("running") or state.get("terminated") or {}).get("startedAt")
    return None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
