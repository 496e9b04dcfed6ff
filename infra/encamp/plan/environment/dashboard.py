"""The dashboard of an environment's jobs, as the Cloud Monitoring API takes it.

Source: cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards; GKE's metrics of containers with
accelerators: cloud.google.com/monitoring/api/metrics_kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: A dashboard is 48 columns wide; two charts stand side by side.
_COLUMNS = 48
_WIDE, _HIGH = 24, 16
_INTRO_HIGH = 6
_LINE, _BARS = "LINE", "STACKED_BAR"


@dataclass(frozen=True)
class Board:
    """The inputs of a dashboard.

    Attributes:
        ends: name of the log's metric of ended jobs.
        cost: name of the log's metric of their cost.
    """

    environment: str
    cluster: str
    region: str
    namespace: str
    ends: str
    cost: str


def dashboard(board: Board) -> dict[str, Any]:
    """Return the dashboard of an environment: status, restarts, accelerators, machines and cost of its jobs."""
    intro = (
        f"Jobs of the environment **{board.environment}**. A JobSet's name is its job's short name: `encamp describe "
        "NAME`, `encamp logs NAME` and `encamp cancel NAME` take it."
    )
    tiles = [_tile({"text": {"content": intro, "format": "MARKDOWN"}}, 0, 0, _COLUMNS, _INTRO_HIGH)]
    for number, widget in enumerate(_charts(board)):
        row, column = divmod(number, 2)
        tiles.append(_tile(widget, column * _WIDE, _INTRO_HIGH + row * _HIGH, _WIDE, _HIGH))
    return {
        "displayName": f"encamp {board.environment}",
        "labels": {"encamp": ""},
        "mosaicLayout": {"columns": _COLUMNS, "tiles": tiles},
    }


def _charts(board: Board) -> list[dict[str, Any]]:
    jobs = f'{{cluster="{board.cluster}",namespace="{board.namespace}"}}'
    pods = f'{{monitored_resource="k8s_container",cluster_name="{board.cluster}",namespace_name="{board.namespace}"}}'
    nodes = f'{{monitored_resource="k8s_node",cluster_name="{board.cluster}"}}'
    running = f"kube_jobset_ready_replicas{jobs} + kube_jobset_succeeded_replicas{jobs}"
    used, whole = (f"kubernetes_io:container_accelerator_memory_{one}{pods}" for one in ("used", "total"))
    ends = f'{logged(board.ends)}{{monitored_resource="k8s_cluster"}}'
    cost = f'{logged(board.cost)}_sum{{monitored_resource="k8s_cluster"}}'
    return [
        _chart(
            "Replica groups by state",
            *((f"sum(kube_jobset_{state}_replicas{jobs})", state) for state in _STATES),
        ),
        _chart(
            "Replica groups that do not run, by job",
            (
                f"sum by (jobset_name) (kube_jobset_specified_replicas{jobs}) - sum by (jobset_name) ({running})",
                "${metric.labels.jobset_name}",
            ),
        ),
        _chart(
            "Jobs that ended, by outcome",
            (f"sum by (state) (increase({ends}[${{__interval}}]))", "${metric.labels.state}"),
            form=_BARS,
        ),
        _chart(
            "Restarts of whole jobs",
            (f"max by (jobset_name) (kube_jobset_restarts{jobs})", "${metric.labels.jobset_name}"),
        ),
        _chart(
            "Accelerators at work, by pod (% of time, GPU and TPU)",
            (f"avg by (pod_name) (kubernetes_io:container_accelerator_duty_cycle{pods})", ""),
        ),
        _chart(
            "TPU tensor cores at work, by pod (%)",
            (f"avg by (pod_name) (kubernetes_io:container_accelerator_tensorcore_utilization{pods})", ""),
        ),
        _chart(
            "Accelerator memory in use, by pod",
            (f"sum by (pod_name) ({used}) / sum by (pod_name) ({whole})", ""),
        ),
        _chart(
            "Restarts of containers, by pod",
            (f"sum by (pod_name) (increase(kubernetes_io:container_restart_count{pods}[${{__interval}}]))", ""),
        ),
        _chart("Nodes of the cluster", (f"count(kubernetes_io:node_cpu_total_cores{nodes})", "nodes")),
        _chart(
            "Cost of jobs that ended, US dollars a day by list prices",
            (f"sum by (state) (increase({cost}[1d]))", "${metric.labels.state}"),
            form=_BARS,
        ),
    ]


#: JobSet's counts of its child jobs (github.com/kubernetes-sigs/jobset, ReplicatedJobStatus); one of ours is a role.
_STATES = ("ready", "active", "suspended", "succeeded", "failed")


def logged(metric: str) -> str:
    """Return PromQL's name of a log-based metric (cloud.google.com/monitoring/promql/promql-mapping)."""
    return f"logging_googleapis_com:user_{metric.replace('-', '_')}"


def _chart(title: str, *queries: tuple[str, str], form: str = _LINE) -> dict[str, Any]:
    sets = [
        {"plotType": form, "targetAxis": "Y1", "timeSeriesQuery": {"prometheusQuery": query}}
        | ({"legendTemplate": legend} if legend else {})
        for query, legend in queries
    ]
    return {"title": title, "xyChart": {"dataSets": sets, "yAxis": {"scale": "LINEAR"}}}


def _tile(widget: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    """Return a tile of the mosaic; the API leaves out a position of 0, and a preview would show it as a change."""
    place = {"xPos": x, "yPos": y, "width": width, "height": height}
    return {**{key: value for key, value in place.items() if value}, "widget": widget}
