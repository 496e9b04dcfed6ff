"""Probes of the autoscaler: its reasons for waiting pods, and the machines that it adds for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.cases import condition
from encamp.acceptance.probe import of_job
from encamp.acceptance.watcher import EVENTS, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from encamp.acceptance.cases import JobCase

_TRIGGERED: Final = "TriggeredScaleUp"
_NOT_TRIGGERED: Final = "NotTriggerScaleUp"
_WHY: Final = re.compile(r"pod didn't trigger scale-up: \d+ .+")
_MESSAGE: Final = re.compile(r"pod triggered scale-up: \[\{.+ \d+->\d+ \(max: \d+\)\}.*\]")


def _waited(case: JobCase) -> list[Mapping[str, Any]]:
    """Return the job's pods that were seen without a machine."""
    return [
        versions[0].item
        for _, versions in case.sightings.versions(PODS)
        if not versions[0].item["metadata"]["name"].endswith("-misfit")
        and any(condition(one.item, "PodScheduled").get("reason") == "Unschedulable" for one in versions)
    ]


def _triggered(case: JobCase) -> list[Mapping[str, Any]]:
    return [event for event in case.sightings.latest(EVENTS) if event.get("reason") == _TRIGGERED]


@of_job("autoscaler-grows-from-zero", "cpu")
def grows_from_zero(case: JobCase) -> str:
    """Compare pods that waited with the machines that came."""
    waited = _waited(case)
    if not waited:
        raise NotAskedError("no pod was seen waiting for a machine")
    names = ", ".join(pod["metadata"]["name"] for pod in waited)
    machines = case.sightings.latest(NODES)
    expect(machines, f"{names} waited, and no machine came")
    first = min(pod["metadata"]["creationTimestamp"] for pod in waited)
    for node in machines:
        name, made = node["metadata"]["name"], node["metadata"]["creationTimestamp"]
        expect(made >= first, f"{name} was there since {made}, and the pods that waited since {first}")
    return f"{names} waited; {', '.join(node['metadata']['name'] for node in machines)} came"


@of_job("autoscaler-says-triggered", "cpu")
def says_triggered(case: JobCase) -> str:
    """Look for the event on pods that waited, and at its words."""
    if not _waited(case):
        raise NotAskedError("no pod was seen waiting for a machine")
    events = _triggered(case)
    expect(events, f"no pod that waited has the event {_TRIGGERED}")
    for event in events:
        expect(_MESSAGE.fullmatch(event["message"]), f"{_TRIGGERED} says {event['message']!r}")
    return f"{_TRIGGERED}: {events[0]['message']}"


@of_job("autoscaler-says-not-triggered", "cpu")
def says_not_triggered(case: JobCase) -> str:
    """Look for the event on a pod that no machine can take, and at its words."""
    about = f"{case.plan.name}-misfit"
    events = [event for event in case.sightings.latest(EVENTS) if event["involvedObject"]["name"] == about]
    reasons = sorted({str(event.get("reason")) for event in events})
    if not reasons:
        raise NotAskedError(case.refused.get(EVENTS) or "no event of the pod was seen")
    found = [event["message"] for event in events if event.get("reason") == _NOT_TRIGGERED]
    expect(found, f"a pod that no machine can take has the events {', '.join(reasons)}")
    expect(_WHY.fullmatch(found[0]), f"{_NOT_TRIGGERED} says {found[0]!r}")
    return f"{_NOT_TRIGGERED}: {found[0]}"


@of_job("autoscaler-adds-one-node-per-pod", "cpu")
def adds_one_node_per_pod(case: JobCase) -> str:
    """Compare the number of machines with the number of replicas: each replica has one of its own."""
    replicas = sum(group.count for group in case.plan.groups)
    machines = [node["metadata"]["name"] for node in case.seen(NODES)]
    expect(len(machines) == replicas, f"{len(machines)} machines came for {replicas} replicas")
    return f"{len(machines)} machines for {replicas} replicas"
