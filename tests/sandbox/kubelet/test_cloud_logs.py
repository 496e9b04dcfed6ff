"""Lines of containers as entries of Cloud Logging."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from encamp_sandbox.kubelet.cloud_logs import CloudLogs

if TYPE_CHECKING:
    from pathlib import Path

    from encamp_sandbox.kubelet.front import Front
    from encamp_sandbox.kubelet.pod import PodLife

POOL = "projects/p/locations/us-central1/clusters/c/nodePools/n"


def test_the_last_lines_name_their_cluster_when_their_node_is_gone(tmp_path: Path) -> None:
    written: list[dict[str, Any]] = []
    nodes: dict[str, dict[str, Any]] = {"node": {"metadata": {"annotations": {"sandbox.encamp.dev/node-pool": POOL}}}}

    async def write_logs(entries: list[dict[str, Any]]) -> None:
        written.extend(entries)

    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"nodeName": "node"}}
    life = SimpleNamespace(logs=tmp_path, pod=pod, namespace="jobs", name="pod", uid="u")
    shipper = CloudLogs(
        cast("Front", SimpleNamespace(project="p", write_logs=write_logs)), list, lambda node: nodes.get(node, {})
    )
    log = tmp_path / "main" / "0.log"
    log.parent.mkdir()
    for line in ("2026-01-01T00:00:00Z stdout F first\n", "2026-01-01T00:00:01Z stdout F last\n"):
        with log.open("a") as file:
            file.write(line)
        asyncio.run(shipper.send(cast("PodLife", life)))
        nodes.clear()
    assert [entry["textPayload"] for entry in written] == ["first", "last"]
    labels = [entry["resource"]["labels"] for entry in written]
    assert [(one["location"], one["cluster_name"]) for one in labels] == [("us-central1", "c")] * 2
