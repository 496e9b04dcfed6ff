"""What is paid by use: defaults that make no bill that nobody planned, and lines that tell the rest."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.cloud.log_filter import matcher
from encamp.errors import SpecError
from encamp.plan.cost.by_use import old_gigabytes_usd, use_costs
from encamp.plan.environment.model import LifecyclePlan
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job
from encamp.spec.prices import built_in_prices

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
IN_CLUSTER = {"image": "r/encamp:1", "backendUrl": "gs://state", "recordSecret": "record"}
TABLE = built_in_prices()
DAY_GB = 10 * 144


def lab(project: str = "my-project", **more: Any) -> EnvironmentSpec:
    return parse_environment(DATA | more, project=project, source="x")


def kept_days(rules: tuple[LifecyclePlan, ...], name: str) -> int:
    """For how many days an old version of an object is kept, whose name nothing is written to again."""
    return min(
        rule.old_days
        for rule in rules
        if rule.old_days is not None and (not rule.suffixes or name.endswith(rule.suffixes))
    )


@pytest.mark.parametrize(
    "name",
    [
        "model.ckpt-100.data-00000-of-00001", "model.ckpt-100.index", "ckpt-3.data-00007-of-00008", "epoch_3.pt",
        "model-00001-of-00002.safetensors", "__3_0.distcp", "weights.h5", "epoch-3.keras",
    ],
)  # fmt: skip
def test_ten_gigabytes_every_ten_minutes_are_no_bill_of_hundreds(name: str) -> None:
    """A trainer that keeps its last three checkpoints deletes one of 10 GB every 10 minutes."""
    artifacts = plan_environment(lab()).artifacts
    assert artifacts.versioning
    assert artifacts.soft_delete_days == 0
    monthly = DAY_GB * kept_days(artifacts.lifecycle, name) * 0.02
    assert monthly < 30


def test_one_object_that_is_written_again_and_again_has_few_old_versions() -> None:
    rules = plan_environment(lab()).artifacts.lifecycle
    assert [rule.newer for rule in rules if rule.newer is not None] == [3]
    assert kept_days(rules, "receipt.json") == 7


def test_storage_has_switches() -> None:
    written = {"keepOldVersionsDays": 90, "keepVersions": 10, "keepOldCheckpointsDays": 3, "softDeleteDays": 14}
    artifacts = plan_environment(lab(storage=written | {"checkpointSuffixes": [".orbax"]})).artifacts
    assert LifecyclePlan("Delete", old_days=90) in artifacts.lifecycle
    assert LifecyclePlan("Delete", newer=10) in artifacts.lifecycle
    assert LifecyclePlan("Delete", old_days=3, suffixes=(".orbax",)) in artifacts.lifecycle
    assert artifacts.soft_delete_days == 14
    without = plan_environment(lab(storage={"checkpointSuffixes": []})).artifacts.lifecycle
    assert not [rule for rule in without if rule.suffixes]


@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ({"softDeleteDays": 3}, "storage.softDeleteDays"),
        ({"softDeleteDays": 91}, "storage.softDeleteDays"),
        ({"keepVersions": 0}, "storage.keepVersions"),
        ({"keepOldCheckpointsDays": 0}, "storage.keepOldCheckpointsDays"),
        ({"checkpointSuffixes": [".a", ".a"]}, "storage.checkpointSuffixes[1]"),
        ({"checkpointSuffixes": [f".{each}" for each in range(51)]}, "storage.checkpointSuffixes"),
    ],
)
def test_what_cloud_storage_would_refuse_is_refused(storage: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as found:
        lab(storage=storage)
    assert [problem.path for problem in found.value.problems] == [path]


def test_logs_of_jobs_stay_out_of_cloud_logging_where_drivers_store_them() -> None:
    plan = plan_environment(lab(driver=IN_CLUSTER)).log_exclusion
    assert plan is not None
    excludes = matcher(plan.filter)

    def entry(**labels: str) -> dict[str, Any]:
        own = {"cluster_name": "encamp", "location": "us-central1", "namespace_name": "encamp-jobs"}
        return {"resource": {"type": "k8s_container", "labels": own | labels}, "textPayload": "epoch 1"}

    assert excludes(entry(pod_name="digits-master-0-0"))
    for other in ({"namespace_name": "encamp-driver-1"}, {"cluster_name": "other"}, {"location": "europe-west4"}):
        assert not excludes(entry(**other))
    assert not excludes({**entry(), "resource": {**entry()["resource"], "type": "k8s_cluster"}})


def test_logs_of_jobs_that_nobody_follows_are_in_cloud_logging_unless_somebody_says_otherwise() -> None:
    assert plan_environment(lab()).log_exclusion is None
    assert plan_environment(lab(gke={"jobLogs": False})).log_exclusion is not None
    assert plan_environment(lab(driver=IN_CLUSTER, gke={"jobLogs": True})).log_exclusion is None


def test_what_is_paid_by_use_is_told_with_the_setting_that_it_depends_on() -> None:
    said = [one.what for one in use_costs(lab(access={"audit": {}}), TABLE)]
    kept, old, logs, audit = said
    assert kept == "results in gs://lab-artifacts: 0.02 USD a GB and month"
    assert old == (
        "what is overwritten or deleted there stays 7 d, checkpoints 1 d (storage.keepOldVersionsDays,"
        " keepOldCheckpointsDays): 10 GB every 10 min cost 28.80 USD a month more as checkpoints, 201.60 USD as other"
        " files"
    )
    taken_in = "0.50 USD a GiB beyond the project's first 50 a month"
    assert logs == f"logs of jobs in Cloud Logging, beside the stored ones (gke.jobLogs): {taken_in}"
    assert audit == f"Data Access logs of settings, not of data (access.audit.dataReads): {taken_in}"
    # What it was: versions for a month, and a week more by soft delete.
    before = lab(storage={"keepOldVersionsDays": 30})
    assert old_gigabytes_usd(before, TABLE, 30) == pytest.approx(864)
    drivers = [one.what for one in use_costs(lab(driver=IN_CLUSTER), TABLE)]
    assert "kept out of Cloud Logging" in drivers[-1]
    assert "is gone" in use_costs(lab(storage={"versioning": False}), TABLE)[1].what
    assert "as that bucket is set up" in use_costs(lab(adopt=["artifactsBucket"]), TABLE)[1].what


def test_a_price_that_the_table_lacks_is_unknown() -> None:
    without = TABLE.model_copy(update={"volumes": {}})
    assert [one.usd for one in use_costs(lab(), without)] == [None, None, None]
    assert "an unknown price a GB" in use_costs(lab(), without)[0].what


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ({"kind": "ENVIRONMENT"}, "results in gs://lab-artifacts: 0.02 USD"),
        ({"kind": "OWN_BUCKET"}, "-results-"),
        ({"kind": "GIVEN_BUCKET", "bucket": "mine"}, "results in gs://mine: as that bucket is set up"),
        (None, "logs of jobs in Cloud Logging"),
    ],
)
def test_a_jobs_plan_tells_what_depends_on_what_it_writes(storage: dict[str, Any] | None, said: str) -> None:
    data: dict[str, Any] = {
        "jobId": "j",
        "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}},
    }
    if storage is not None:
        data["encamp"] = {"storage": storage}
    plan = plan_job(parse_job(data, source="x").job, lab())
    assert plan.cost is not None
    assert said in plan.cost.by_use[0].what
    assert plan.storage.soft_delete_days == 0
