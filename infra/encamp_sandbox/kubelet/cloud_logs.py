"""GKE's logging agent: output of containers also goes to Cloud Logging, where it outlives pods and nodes.

Entries have the form that GKE gives them (resource ``k8s_container``, logs ``stdout`` and ``stderr``). Reading
begins anew after a restart of the kubelet; insert ids tell Cloud Logging which entries it has already.

Beliefs: logging-entry-of-a-container, logging-severity-by-stream, logging-labels-of-the-pod, logging-outlives-pods.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from encamp_sandbox.kubelet.front import Front
    from encamp_sandbox.kubelet.pod import PodLife

_LOG = logging.getLogger(__name__)
_STEP_SECONDS = 1.0
#: At most so many entries of one file in one call.
_BATCH = 500
_PARTIAL = b"P"


@dataclass
class _Position:
    offset: int = 0
    dropped: int = 0


class CloudLogs:
    """Sends new lines in the logs of all pods, in steps."""

    def __init__(
        self, front: Front, lives: Callable[[], list[PodLife]], node: Callable[[str], Mapping[str, Any]]
    ) -> None:
        self._front = front
        self._lives = lives
        self._node = node
        self._positions: dict[Path, _Position] = {}
        #: Location and cluster by node: the last lines of a pod may be sent when its node is gone.
        self._places: dict[str, tuple[str, str]] = {}

    async def run(self) -> None:
        """Send for ever; what Cloud Logging does not take is sent again."""
        while True:
            try:
                for life in self._lives():
                    await self.send(life)
            except (httpx.HTTPError, OSError) as error:  # OSError: a pod and its logs have just gone
                _LOG.info("logs are sent again soon: %s", error or type(error).__name__)
            await asyncio.sleep(_STEP_SECONDS)

    async def send(self, life: PodLife) -> None:
        """Send what is new of one pod. Raises httpx.HTTPError."""
        self._note(life.pod["spec"]["nodeName"])
        for file in sorted(life.logs.glob("*/*.log")):
            position = self._positions.setdefault(file, _Position())
            while entries := self._read(life, file, position):
                await self._front.write_logs(entries[0])
                position.offset = entries[1]
        for gone in [file for file in self._positions if not file.exists()]:
            del self._positions[gone]

    def _note(self, node: str) -> None:
        pool = (self._node(node).get("metadata", {}).get("annotations") or {}).get("sandbox.encamp.dev/node-pool", "")
        if pool:
            _, _, _, location, _, cluster, *_ = pool.split("/")
            self._places[node] = (location, cluster)

    def _read(self, life: PodLife, file: Path, position: _Position) -> tuple[list[dict[str, Any]], int] | None:
        entries: list[dict[str, Any]] = []
        with file.open("rb") as stream:
            end = stream.seek(position.offset)
            held = b""
            while len(entries) < _BATCH and (raw := stream.readline()).endswith(b"\n"):
                moment, channel, tag, text = raw[:-1].split(b" ", 3)
                held += text
                if tag != _PARTIAL:
                    entries.append(self._entry(life, file, end, (moment, channel, held)))
                    end, held = stream.tell(), b""
        return (entries, end) if entries else None

    def _entry(self, life: PodLife, file: Path, offset: int, line: tuple[bytes, bytes, bytes]) -> dict[str, Any]:
        moment, channel, text = (part.decode("utf-8", "replace") for part in line)
        metadata = life.pod["metadata"]
        labels = {f"k8s-pod/{key.replace('.', '_')}": value for key, value in (metadata.get("labels") or {}).items()}
        node = life.pod["spec"]["nodeName"]
        location, cluster = self._places.get(node, ("", ""))
        return {
            "logName": f"projects/{self._front.project}/logs/{channel}",
            "resource": {
                "type": "k8s_container",
                "labels": {
                    "project_id": self._front.project,
                    "location": location,
                    "cluster_name": cluster,
                    "namespace_name": life.namespace,
                    "pod_name": life.name,
                    "container_name": file.parent.name,
                },
            },
            "labels": {**labels, "compute.googleapis.com/resource_name": node},
            "timestamp": moment,
            "severity": "INFO" if channel == "stdout" else "ERROR",
            "textPayload": text,
            "insertId": hashlib.sha256(f"{life.uid}{file.parent.name}{file.name}{offset}".encode()).hexdigest()[:24],
        }
