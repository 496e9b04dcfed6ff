"""Jobs that the environment's own cluster drives: handed over, begun, and gone on with by a later pod."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import EngineError, UsageError
from encamp.plan.access.model import SubjectPlan
from encamp.plan.environment.driver import DriverPlan, require_driver
from encamp.plan.model import LocalPackagePlan
from encamp.run.lifecycle.in_cluster import go_on, hand_over
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

DRIVER = DriverPlan(
    "encamp-driver-1",
    "encamp-driver-1@p.iam.gserviceaccount.com",
    "gcr.io/p/encamp:1",
    "gs://state",
    "record",
    {"encamp-owner": "lab"},
    "projects/p/locations/us-central1/clusters/encamp",
    (SubjectPlan("User", "ana@example.com"),),
)
JOB = {"jobId": "job_1", "trainingInput": {"region": "us-central1"}}
ANA = {"user": "ana", "host": "laptop", "account": "ana@example.com"}


@pytest.fixture
def driver(load_module: Callable[[str, str], Any]) -> Any:
    return load_module("encamp_test_run_driver", "run/lifecycle/driver/world.py")


@pytest.fixture
def world(ground: Any) -> Any:
    return ground.world


@pytest.fixture
def ground(driver: Any, google: Any, client: GoogleClient, kubernetes: Any, request: pytest.FixtureRequest) -> Any:
    """A job that was begun and whose driver has died, once it is recorded."""
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setattr("encamp.run.lifecycle.teardown._SETTLE_SECONDS", 0.01)
    made = driver.make_world(google, client, kubernetes, request.getfixturevalue("tmp_path"), monkeypatch)
    ground = request.getfixturevalue("load_module")("encamp_test_run_reap", "run/lifecycle/reap/ground.py")
    return ground.Ground(driver, made)


@pytest.fixture
def cluster(world: Any) -> Iterator[Cluster]:
    made = world.context.cluster(world.context.environment("sandbox"))
    yield made
    made.close()


def submit(cluster: Cluster, plan: Any) -> None:
    hand_over(cluster, DRIVER, plan, JOB, environment="prod", started_by=ANA)


def test_a_job_that_is_handed_over_is_driven_by_its_file(world: Any, driver: Any, cluster: Cluster) -> None:
    submit(cluster, driver.job_plan())
    job, secret = world.kubernetes.objects["jobs", "j"], world.kubernetes.objects["secrets", "j"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [
        "encamp", "drive", "/job/job.json", "--job-id", "job_1", "--environment", "prod",
    ]  # fmt: skip
    assert json.loads(secret["stringData"]["job.json"]) == JOB
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "uid-j"
    told = {one["name"]: one["value"] for one in container["env"]}
    account = {key: value for key, value in ANA.items() if key == "account"}
    assert json.loads(told["ENCAMP_STARTED_BY"]) | account == ANA
    assert told.get("ENCAMP_STARTED_BY_ACCOUNT") == ANA.get("account")
    # Another try changes nothing about a job that failed, was wrong or was cancelled; a lost node does.
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert [(rule["action"], rule.get("onExitCodes", {}).get("values")) for rule in rules] == [
        ("Ignore", None),
        ("FailJob", [1, 2, 5]),
    ]


def test_a_job_is_handed_over_once(driver: Any, cluster: Cluster) -> None:
    submit(cluster, driver.job_plan())
    with pytest.raises(UsageError, match="handed over before"):
        submit(cluster, driver.job_plan())


def test_half_a_hand_over_is_completed(world: Any, driver: Any, cluster: Cluster) -> None:
    world.kubernetes.put("jobs", "j")
    submit(cluster, driver.job_plan())
    assert ("secrets", "j") in world.kubernetes.objects


def test_a_hand_over_that_is_refused_leaves_nothing(world: Any, driver: Any, cluster: Cluster) -> None:
    world.kubernetes.fail("POST .*/secrets", 403)
    with pytest.raises(EngineError, match="403"):
        submit(cluster, driver.job_plan())
    assert not [key for key in world.kubernetes.objects if key[0] in {"jobs", "secrets"}]


def test_packages_of_this_machine_are_not_in_the_cluster(world: Any, driver: Any, cluster: Cluster) -> None:
    package = LocalPackagePlan("gs://scratch/t.tar.gz", "scratch", "t.tar.gz", "00", "t.tar.gz", Path("t.tar.gz"))
    plan = driver.job_plan()
    with pytest.raises(UsageError, match="no packages of this machine"):
        submit(cluster, replace(plan, storage=replace(plan.storage, packages=(package,))))
    assert ("jobs", "j") not in world.kubernetes.objects


def test_an_environment_without_drivers_says_what_to_write() -> None:
    with pytest.raises(UsageError, match="`driver` block"):
        require_driver(None, "prod")


@pytest.mark.slow
def test_a_later_pod_brings_the_job_to_its_end(ground: Any, world: Any) -> None:
    ground.record()
    ground.stack("job-j")
    world.trains(0)
    records = world.context.records()
    go_on(world.context, records, "sandbox", "job_1", sleep=lambda _: pytest.fail("there was nothing to wait for"))
    record = records.record("job_1")
    assert (record.state, record.torn_down) == (State.SUCCEEDED, True)
    records.close()


@pytest.mark.slow
def test_a_pod_waits_for_the_lease_of_one_that_died(ground: Any, world: Any) -> None:
    ground.record()
    ground.stack("job-j")
    world.trains(0)
    records = world.context.records()
    lease = records.adopt("job_1", "j", records.record("job_1").intent)
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        records.release(lease)

    go_on(world.context, records, "sandbox", "job_1", sleep=sleep)
    assert len(waited) == 1
    assert records.record("job_1").torn_down
    records.close()
