"""Cloud Logging: output of containers, long after their pods and nodes are gone, and encamp's own entries.

GKE's agent sends every container's lines there within seconds, with the pod's labels (cloud.google.com, "GKE logs":
resource ``k8s_container``; dots in label keys become underscores).

Beliefs: logging-outlives-pods, time-log-delivery.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.cloud.endpoints import Service

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.cloud.rest import GoogleClient

_PAGE_SIZE = 1000
#: An entry twice is worse than one that is missing, and nobody waits for it.
_WRITE_ATTEMPTS = 2


@dataclass(frozen=True)
class LoggedLine:
    """One line of a container.

    Attributes:
        time: RFC 3339.
        labels: the pod's, see ``pod_label``.
    """

    pod: str
    time: str
    text: str
    labels: Mapping[str, str]

    def label(self, key: str) -> str:
        """Return the pod's label of a name, empty if it has none."""
        return self.labels.get(pod_label(key), "")


def container_lines(
    client: GoogleClient, project: str, *, cluster: str, namespace: str, container: str, labels: Mapping[str, str]
) -> Iterator[LoggedLine]:
    """Yield the lines of all containers of a name whose pods carry the labels, oldest first, a page in memory.

    Raises:
        RestError: the entries cannot be listed.
    """
    resource = {"cluster_name": cluster, "namespace_name": namespace, "container_name": container}
    wanted = [
        'resource.type="k8s_container"',
        *(f"resource.labels.{key}={json.dumps(value)}" for key, value in resource.items()),
        *(f'labels."{pod_label(key)}"={json.dumps(value)}' for key, value in labels.items()),
    ]
    body: dict[str, Any] = {
        "resourceNames": [f"projects/{project}"],
        "filter": " AND ".join(wanted),
        "orderBy": "timestamp asc",
        "pageSize": _PAGE_SIZE,
    }
    while True:
        page = client.json(Service.LOGGING, "POST", "/v2/entries:list", json=body)
        for entry in page.get("entries", []):
            pod = entry.get("resource", {}).get("labels", {}).get("pod_name", "")
            yield LoggedLine(pod, entry.get("timestamp", ""), _text(entry), entry.get("labels", {}))
        if not page.get("nextPageToken"):
            return
        body["pageToken"] = page["nextPageToken"]


def write_entry(
    client: GoogleClient,
    project: str,
    log: str,
    payload: Mapping[str, Any],
    *,
    severity: str,
    labels: Mapping[str, str],
    resource: Mapping[str, Any],
) -> None:
    """Add one entry with a JSON payload to a log of the project.

    ``log`` is its id, without ``projects/P/logs/``; ``severity`` one of LogSeverity, such as NOTICE; ``resource`` the
    monitored resource, with ``type`` and ``labels``.

    Raises:
        RestError: it cannot be written.
    """
    entry = {"severity": severity, "jsonPayload": dict(payload)}
    body = {
        "logName": f"projects/{project}/logs/{log}",
        "resource": dict(resource),
        "labels": dict(labels),
        "entries": [entry],
    }
    client.request(Service.LOGGING, "POST", "/v2/entries:write", json=body, attempts=_WRITE_ATTEMPTS)


def pod_label(key: str) -> str:
    """Return the label on log lines for a label of their pod."""
    return f"k8s-pod/{key.replace('.', '_')}"


def _text(entry: Mapping[str, Any]) -> str:
    """Return the line as written; one that was a JSON object comes as data and is written as JSON again."""
    if "textPayload" in entry:
        return str(entry["textPayload"]).removesuffix("\n")
    return json.dumps(entry.get("jsonPayload", {}))
