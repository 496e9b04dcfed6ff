"""What an environment's monitoring is decided to be."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from encamp.plan.environment.job_log import Event, log_filter
from encamp.plan.environment.monitoring import (
    AlertPlan,
    LogCondition,
    MonitoringPlan,
    QueryCondition,
    ThresholdCondition,
)
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

DATA: dict[str, Any] = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
REAPER = {"image": "gcr.io/lab/encamp:1", "backendUrl": "gs://lab-state", "recordSecret": "record"}


def planned(**changes: Any) -> MonitoringPlan:
    data: dict[str, Any] = {**DATA, "monitoring": {}, **changes}
    found = plan_environment(parse_environment(data, project="my-project", source="x")).monitoring
    assert found is not None
    return found


def alert(plan: MonitoringPlan, key: str) -> AlertPlan:
    (found,) = [one for one in plan.alerts if one.key == key]
    return found


def test_without_the_block_there_is_none() -> None:
    assert plan_environment(parse_environment(DATA, project="my-project", source="x")).monitoring is None


def test_a_job_is_pending_while_a_group_does_not_run() -> None:
    condition = alert(planned(monitoring={"pendingMinutes": 20}), "alert-pending").condition
    assert isinstance(condition, QueryCondition)
    assert condition.seconds == 1200
    of = '{cluster="encamp",location="us-central1",namespace="encamp-jobs"}'
    assert condition.query == (
        f"sum by (jobset_name) (kube_jobset_specified_replicas{of}) > "
        f"sum by (jobset_name) (kube_jobset_ready_replicas{of} + kube_jobset_succeeded_replicas{of})"
    )


def test_machines_of_jobs_alone_are_held_to_the_longest_job() -> None:
    found = alert(planned(monitoring={"longestJobHours": 26}), "alert-deadline")
    assert isinstance(found.condition, ThresholdCondition)
    assert (found.condition.above, found.severity) == (26 * 3600, "CRITICAL")
    assert 'user_labels."encamp-environment"="lab"' in found.condition.filter
    # Nodes of the environment's own carry its label too, and stay for months.
    assert 'user_labels."encamp-job"=monitoring.regex.full_match(".+")' in found.condition.filter


def test_shared_machines_are_held_to_their_age() -> None:
    queues = {"teams": {"team": {"quotas": [{"cpu": 8}]}}, "machineDays": 7}
    found = alert(planned(queues=queues), "alert-shared-machine")
    assert isinstance(found.condition, ThresholdCondition)
    assert (found.condition.above, found.severity) == ((7 * 24 + 1) * 3600, "CRITICAL")
    assert 'user_labels."encamp-flavor"' in found.condition.filter
    none: list[dict[str, Any]] = [{}, {"queues": queues | {"pools": list[Any]()}}]
    for changes in none:
        assert "alert-shared-machine" not in {one.key for one in planned(**changes).alerts}


def test_outcomes_are_read_in_the_log_of_this_environment() -> None:
    condition = alert(planned(), "alert-failed").condition
    assert isinstance(condition, LogCondition)
    assert condition.filter == (
        'logName="projects/my-project/logs/encamp-jobs" AND labels."encamp-environment"="lab"'
        ' AND jsonPayload.event="ended" AND jsonPayload.state="FAILED"'
    )
    assert condition.filter.startswith(log_filter("my-project", "lab", Event.ENDED))


def test_only_a_reaper_of_its_own_can_be_silent() -> None:
    assert "alert-reaper" not in {one.key for one in planned().alerts}
    condition = alert(planned(reaper=REAPER, monitoring={"silentMinutes": 30}), "alert-reaper").condition
    assert isinstance(condition, QueryCondition)
    assert condition.query == (
        'absent_over_time(logging_googleapis_com:user_encamp_lab_reaped{monitored_resource="k8s_cluster"}[30m])'
    )


def test_the_dashboard_shows_status_restarts_accelerators_and_cost_without_gaps() -> None:
    board = json.loads(planned().dashboard)
    tiles = board["mosaicLayout"]["tiles"]
    queries = [
        one["timeSeriesQuery"]["prometheusQuery"]
        for tile in tiles
        for one in tile["widget"].get("xyChart", {}).get("dataSets", ())
    ]
    for metric in (
        "kube_jobset_ready_replicas",
        "kube_jobset_restarts",
        "container_accelerator_duty_cycle",
        "container_accelerator_tensorcore_utilization",
        "user_encamp_lab_ends",
        "user_encamp_lab_cost_sum",
    ):
        assert any(metric in query for query in queries), metric
    cells = sum(tile["width"] * tile["height"] for tile in tiles)
    bottom = max(tile.get("yPos", 0) + tile["height"] for tile in tiles)
    assert cells == board["mosaicLayout"]["columns"] * bottom


@pytest.mark.parametrize("name", ["lab", "a-very-long-name-of-an-environment-of-40ch"[:40]])
def test_names_and_queries_are_of_the_forms_that_google_takes(name: str) -> None:
    plan = planned(name=name)
    for metric in plan.metrics:
        assert re.fullmatch(r"[A-Za-z0-9_\-.]{1,100}", metric.name)
    for query in _queries(plan):
        # Brackets and quotes that pair, and nothing left of a template.
        assert all(query.count(left) == query.count(right) for left, right in ("()", "{}", "[]"))
        assert query.count('"') % 2 == 0
        assert len(query) < 2048
    assert len({one.title for one in plan.alerts}) == len(plan.alerts)
    assert all(one.title.startswith(f"{name}: ") for one in plan.alerts)


def test_a_job_that_may_outlast_the_alert_is_warned_of() -> None:
    training = {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "masterConfig": {"imageUri": "gcr.io/p/i"},
        "scheduling": {"maxRunningTime": "864000s"},
    }
    job = parse_job({"trainingInput": training}, source="test").named("job").job
    warned = plan_job(job, parse_environment({**DATA, "monitoring": {}}, project="my-project", source="x")).warnings
    (said,) = [each for each in warned if "longestJobHours" in each]
    # Ten days of running, an hour of preparing, half an hour of tearing down.
    assert said.startswith("its machines may be up for 242 hours, and the environment reports")
    wider = parse_environment({**DATA, "monitoring": {"longestJobHours": 242}}, project="my-project", source="x")
    assert not any("longestJobHours" in each for each in plan_job(job, wider).warnings)
    without = parse_environment(DATA, project="my-project", source="x")
    assert not any("longestJobHours" in each for each in plan_job(job, without).warnings)


def _queries(plan: MonitoringPlan) -> list[str]:
    of_alerts = [one.condition.query for one in plan.alerts if isinstance(one.condition, QueryCondition)]
    tiles = json.loads(plan.dashboard)["mosaicLayout"]["tiles"]
    sets = [one for tile in tiles for one in tile["widget"].get("xyChart", {}).get("dataSets", ())]
    return [*of_alerts, *(one["timeSeriesQuery"]["prometheusQuery"] for one in sets)]
