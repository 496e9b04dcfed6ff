"""Probes of Cloud Logging: the entries of a job's containers after its end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.probe import of_environment, of_job
from encamp.cloud.endpoints import Service
from encamp.cloud.logging import pod_label
from encamp.plan.model import JOB_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from encamp.acceptance.cases import EnvironmentCase, JobCase

_SEVERITIES: Final = {"stdout": "INFO", "stderr": "ERROR"}
_MINUTE: Final = 60.0
#: Log of the probes' own entries.
_LOG: Final = "encamp-acceptance"
_LOOKS, _PAUSE_SECONDS = 30, 2.0


def _entries(case: JobCase) -> tuple[Mapping[str, Any], ...]:
    """Return the job's entries.

    Raises:
        NotAskedError: Cloud Logging cannot be asked, or keeps no lines of workloads here.
    """
    if case.lines:
        return case.lines
    raise NotAskedError(case.refused.get("log entries") or "Cloud Logging has no line of the job")


@of_environment("logging-same-entry-once")
def same_entry_once(case: EnvironmentCase) -> str:
    """Write an entry twice under one insertId, and list it."""
    project, mark = case.spec.project, f"written twice by encamp {time.time_ns()}"
    entry = {
        "logName": f"projects/{project}/logs/{_LOG}",
        "resource": {"type": "global", "labels": {"project_id": project}},
        "timestamp": datetime.now(UTC).isoformat(),
        "insertId": mark.rpartition(" ")[2],
        "textPayload": mark,
    }
    for _ in range(2):
        case.client.json(Service.LOGGING, "POST", "/v2/entries:write", json={"entries": [entry]})
    asked = {
        "resourceNames": [f"projects/{project}"],
        "filter": f'logName="projects/{project}/logs/{_LOG}" AND textPayload="{mark}"',
    }
    found: list[Mapping[str, Any]] = []
    for _ in range(_LOOKS):
        found = case.client.json(Service.LOGGING, "POST", "/v2/entries:list", json=asked).get("entries") or []
        if found:
            break
        time.sleep(_PAUSE_SECONDS)
    if not found:
        raise NotAskedError(f"what was written is not listed within {_LOOKS * _PAUSE_SECONDS:.0f} s")
    expect(len(found) == 1, f"an entry that was written twice is listed {len(found)} times")
    return "an entry that was written twice is listed once"


@of_job("logging-entry-of-a-container")
def entry_of_a_container(case: JobCase) -> str:
    """Compare resource and labels of entries with the job's containers."""
    wanted = {
        "project_id": case.plan.project,
        "location": case.outputs.location,
        "cluster_name": case.outputs.cluster,
        "namespace_name": case.plan.namespace,
    }
    for entry in _entries(case):
        resource = entry["resource"]
        found = {key: resource["labels"].get(key) for key in wanted}
        expect(resource["type"] == "k8s_container" and found == wanted, f"{resource['type']} with {found}")
        expect({"pod_name", "container_name"} <= resource["labels"].keys(), f"labels {sorted(resource['labels'])}")
    return f"{len(case.lines)} entries of k8s_container with {', '.join(sorted(wanted))}, pod_name, container_name"


@of_job("logging-severity-by-stream")
def severity_by_stream(case: JobCase) -> str:
    """Compare each entry's severity with the log that it is in."""
    seen = set()
    for entry in _entries(case):
        log = entry["logName"].rpartition("/")[2]
        expect(_SEVERITIES.get(log) == entry.get("severity"), f"a line of {log} has severity {entry.get('severity')}")
        seen.add(f"{log} {entry['severity']}")
    return ", ".join(sorted(seen))


@of_job("logging-labels-of-the-pod")
def labels_of_the_pod(case: JobCase) -> str:
    """Look for the job's label and the node on each entry."""
    key = pod_label(JOB_LABEL)
    for entry in _entries(case):
        labels = entry.get("labels") or {}
        expect(labels.get(key) == case.plan.name, f"an entry has {key}={labels.get(key)}")
        expect(labels.get("compute.googleapis.com/resource_name"), f"an entry has the labels {sorted(labels)}")
    return f"{key}={case.plan.name}, and the node's name"


@of_job("logging-outlives-pods")
def outlives_pods(case: JobCase) -> str:
    """Compare the entries, asked for after tear-down, with the stored logs."""
    texts = {str(entry.get("textPayload", "")).rstrip("\n") for entry in _entries(case)}
    said = [line for log in case.logs.values() for line in log.splitlines() if line.startswith("encamp-acceptance")]
    if not said:
        raise NotAskedError("no replica's log says what it saw")
    # A line that is JSON behind a word stays a text.
    missing = [line[:40] for line in said if line not in texts]
    expect(not missing, f"{len(missing)} of {len(said)} lines are missing after tear-down, such as {missing[:1]}")
    return f"{len(said)} lines of {len(case.logs)} replicas are there after tear-down"


@of_job("time-log-delivery")
def delivered_within_a_minute(case: JobCase) -> str:
    """Compare when entries were written with when Cloud Logging received them."""
    waits = [
        (datetime.fromisoformat(entry["receiveTimestamp"]) - datetime.fromisoformat(entry["timestamp"])).total_seconds()
        for entry in _entries(case)
        if entry.get("receiveTimestamp")
    ]
    if not waits:
        raise NotAskedError("the entries do not say when they were received")
    expect(max(waits) <= _MINUTE, f"the slowest of {len(waits)} entries took {max(waits):.0f} s")
    return f"the slowest of {len(waits)} entries took {max(waits):.1f} s"
