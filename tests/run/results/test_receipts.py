from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from encamp.run.engine.events import ResourceStep
from encamp.run.engine.made import resources_of, swept_step
from encamp.run.history.accounts import add_up
from encamp.run.history.catalogue import KnownJob
from encamp.run.logs.replicas import read_replica
from encamp.run.results.receipt import KeptResults, build_receipt, cost_of, receipt_text
from encamp.run.store.journal import Entry, RunRecord
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State
from encamp.run.store.tables import open_database
from encamp.run.watch.restarts import restarts_of
from encamp.run.watch.usage import PodUse, Usage, image_digests, node_seconds, noted, sealed_at, used
from encamp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.run.logs.replicas import Replica

DIGEST = f"sha256:{'0a' * 32}"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _pod(
    uid: str, start: str, end: str = "", *, index: int = 0, image: str = "", code: int = 0, node: str = ""
) -> Replica:
    state: dict[str, Any] = {"terminated": {"exitCode": code, "finishedAt": end}} if end else {"running": {}}
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    found = read_replica(
        {
            "metadata": {"name": f"pod-{uid}", "uid": uid, "labels": labels},
            "spec": {"nodeName": node or f"node-{uid}"},
            "status": {
                "startTime": start,
                "containerStatuses": [{"name": "replica", "state": state, "imageID": image}],
            },
        }
    )
    assert found is not None
    return found


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records(open_database(None, tmp_path), NOON.timestamp)
    yield opened
    opened.close()


def _entries(records: Records) -> tuple[Entry, ...]:
    record = records.record("a")
    assert record is not None
    return record.entries


def test_machine_time_counts_restarted_pods_and_those_that_a_driver_before_saw(records: Records) -> None:
    """10 s of a pod that was preempted, 20 s of its successor, and one that nobody saw end."""
    lease = records.begin("a", "a", {})
    first = Usage(records, lease, ())
    preempted = _pod("1", "2026-05-01T11:00:00Z", "2026-05-01T11:00:10Z")
    lost = _pod("2", "2026-05-01T11:00:00Z", index=1)
    first.note([preempted, lost])
    first.note([preempted, lost])
    assert [entry.kind for entry in _entries(records)].count("pods") == 1
    records.release(lease)
    second = Usage(records, records.adopt("a", "a", {}), _entries(records))
    again = _pod("3", "2026-05-01T11:00:30Z", "2026-05-01T11:00:50Z")
    second.note([again])
    second.note([again, _pod("4", "2026-05-01T11:00:55Z", index=1)])
    uses = used(_entries(records), [_pod("4", "2026-05-01T11:00:55Z", "2026-05-01T11:01:00Z", index=1)])
    assert [use.uid for use in uses] == ["1", "2", "3", "4"]
    assert datetime.fromisoformat(uses[1].finished) > NOON
    known = [replace(uses[1], finished="2026-05-01T11:00:20Z"), uses[0], *uses[2:]]
    assert node_seconds(known, {"worker": "n1"}, NOON) == {"n1": 10.0 + 20.0 + 20.0 + 5.0}
    assert node_seconds([replace(uses[0], finished="")], {"worker": "n1"}, NOON) == {"n1": 3600.0}
    assert node_seconds([PodUse("x", "x", "worker", "nonsense", "", "")], {"worker": "n1"}, NOON) == {}


def test_a_machine_that_waits_for_a_restart_is_counted(records: Records) -> None:
    lease = records.begin("a", "a", {})
    pods = [
        _pod("1", "2026-05-01T11:00:00Z", "2026-05-01T11:00:05Z", code=137, node="x"),
        _pod("2", "2026-05-01T11:00:15Z", "2026-05-01T11:00:20Z", code=137, node="x"),
        _pod("3", "2026-05-01T11:05:00Z", "2026-05-01T11:05:05Z", code=137, node="y"),
    ]
    Usage(records, lease, ()).note(pods)
    uses = noted(_entries(records))
    soon = NOON - timedelta(minutes=54)
    assert node_seconds(uses, {"worker": "n1"}, soon) == {"n1": 360.0}, "from the first pod to the end"
    assert node_seconds(uses, {"worker": "n1"}, NOON) == {"n1": 305.0 + 600.0}, "nothing waits for longer"
    taken = [replace(uses[0], failed=False), uses[2]]
    assert node_seconds(taken, {"worker": "n1"}, soon) == {"n1": 5.0 + 60.0}, "its machine was taken away"
    stayed = [replace(uses[0], failed=False), uses[1]]
    assert node_seconds(stayed, {"worker": "n1"}, soon) == {"n1": 360.0}, "the whole job went on there"
    found = restarts_of(uses)
    assert str(found) == "restart 3 of 5, last: worker-replica-0 exited with 137"
    assert restarts_of(uses[:0]) is None
    assert restarts_of([PodUse("1", "w", "worker", "", "", "")]) is None
    again = [*uses, replace(uses[0], uid="4", attempt=2, failed=False)]
    assert str(restarts_of(again)) == "restart 2 of 3 of the whole job, last: worker-replica-0 exited with 137"


def test_an_ending_that_is_gone_on_with_later_counts_no_machine_time_after_the_first(records: Records) -> None:
    lease = records.begin("a", "a", {})
    assert sealed_at(_entries(records), NOON) == NOON
    records.append(lease, "sealed", {})
    assert sealed_at(_entries(records), NOON + timedelta(hours=5)) == NOON


def test_digests_come_from_nodes_or_from_the_images_own_name_and_are_not_made_up() -> None:
    pods = [
        PodUse("1", "w", "worker", "", "", f"docker.io/library/t@{DIGEST}"),
        PodUse("2", "w", "worker", "", "", "process://t"),
        PodUse("3", "p", "ps", "", "", "process://t"),
    ]
    images = {"master": f"t@{DIGEST}", "ps": "t:1", "worker": "t:1"}
    assert image_digests(pods, images) == {"master": [DIGEST], "ps": [], "worker": [DIGEST]}


def _step(done: str, kind: str, name: str, identity: str = "", minute: int = 0) -> ResourceStep:
    at = datetime(2026, 5, 1, 12, minute, tzinfo=UTC)
    return ResourceStep(at, done, kind, name, f"urn::{kind}::{name}", identity)


BINDING = "gcp:storage/bucketIAMMember:BucketIAMMember"
POOL = "gcp:container/nodePool:NodePool"


def test_every_resource_says_when_it_was_there_whoever_deleted_it() -> None:
    member = "serviceAccount:j@p.iam.gserviceaccount.com"
    pool = "projects/p/locations/r/clusters/c/nodePools/j-n1"
    steps = [
        _step("created", "gcp:storage/bucket:Bucket", "scratch", "j-scratch"),
        _step("created", POOL, "n1", pool, 1),
        _step("created", BINDING, "a", f"b/artifacts/roles/storage.objectAdmin/{member}/below-the-job", 1),
        _step("created", BINDING, "b", f"b/others/roles/storage.objectAdmin/{member}", 1),
        _step("created", "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", "job-set", "jobs/j", 2),
        _step("failed", POOL, "n2", "", 2),
        _step("created", "gcp:storage/bucket:Bucket", "results", "j-results", 2),
        _step("deleted", "gcp:storage/bucket:Bucket", "scratch", "j-scratch", 5),
        _step("kept", "gcp:storage/bucket:Bucket", "results", "j-results", 5),
        swept_step("node pool", pool),
        swept_step("node pool", "projects/p/locations/r/clusters/c/nodePools/j-n2"),
        swept_step("binding", "gs://artifacts roles/storage.objectAdmin j@p.iam.gserviceaccount.com"),
        swept_step("jobset", "jobs/j"),
    ]
    gone = datetime(2026, 5, 1, 13, tzinfo=UTC)
    found = {one["name"]: one for one in resources_of(steps, gone)}
    assert (found["scratch"]["created"], found["scratch"]["deleted"]) == (
        "2026-05-01T12:00:00.000+00:00",
        "2026-05-01T12:05:00.000+00:00",
    )
    assert all(found[name]["created"] and found[name]["deleted"] for name in ("n1", "a", "job-set"))
    assert (found["b"]["deleted"], found["b"]["goneBy"]) == (None, "2026-05-01T13:00:00.000+00:00")
    assert (found["results"]["kept"], found["results"].get("goneBy")) == (True, None)
    unanswered = found["projects/p/locations/r/clusters/c/nodePools/j-n2"]
    assert (unanswered["created"], bool(unanswered["deleted"])) == (None, True)
    assert len(found) == 7
    assert "goneBy" not in {one["name"]: one for one in resources_of(steps)}["b"]


def _receipt(seconds: dict[str, float], hourly: dict[str, float], **more: Any) -> dict[str, Any]:
    intent = {
        **more,
        "specHash": "5a",
        "source": {"commit": "c" * 40, "dirty": True},
        "images": {"master": "t:1", "worker": "t:1"},
        "job": {"jobId": "a", "trainingInput": {"scaleTier": "BASIC"}},
    }
    record = RunRecord("a", "a", NOON, State.FAILED, {State.QUEUED: NOON}, intent, Outcome(State.FAILED, "why"))
    return build_receipt(
        record,
        steps=[_step("created", POOL, "n1"), _step("deleted", POOL, "n1", minute=9)],
        seconds=seconds,
        digests={"master": [DIGEST], "worker": []},
        hourly=hourly,
        prices_of="prices of us-central1, 2026-07-30",
        logs={"replicas": [{"complete": True}]},
        left=(),
        kept=KeptResults(None, "gs://b/jobs/a/"),
        gone=NOON,
    )


def test_a_receipt_names_the_machines_that_were_the_environments() -> None:
    receipt = _receipt({"n1": 90.0}, {"n1": 0.19}, sharedPools=["lab-n1-standard-4"])
    assert receipt["sharedPools"] == ["lab-n1-standard-4"]
    (line,) = [line for line in receipt_text(receipt).splitlines() if line.startswith("shared")]
    assert line == (
        "shared       lab-n1-standard-4: machines of the environment, counted for the time of the job's replicas"
    )
    assert receipt["cost"]["amount"] == 0.0048
    assert "shared" not in receipt_text(_receipt({"n1": 90.0}, {"n1": 0.19}))


def test_a_receipt_is_the_same_in_json_and_in_words() -> None:
    receipt = _receipt({"n1": 90.125, "tpu": 5.0}, {"n1": 0.19})
    assert json.loads(json.dumps(receipt)) == receipt
    assert (receipt["version"], receipt["job"]["trainingInput"]) == (2, {"scaleTier": "BASIC"})
    assert receipt_text(receipt).splitlines() == [
        "job          a (a)",
        "outcome      FAILED",
        "             why",
        "queued       2026-05-01T12:00:00.000+00:00",
        "spec         sha256:5a",
        f"source       {'c' * 40}, with changes",
        f"encamp       {__version__}",
        f"image        master: t:1 ({DIGEST})",
        "image        worker: t:1 (digest not known)",
        "resources    1 created, 1 deleted",
        "             2026-05-01T12:00:00.000+00:00  2026-05-01T12:09:00.000+00:00  NodePool n1",
        "machine time 90.125 s of n1, 0.0048 USD",
        "machine time 5.000 s of tpu",
        "cost         about 0.0048 USD (prices of us-central1, 2026-07-30)",
        "no price of  tpu",
        "logs         1 replicas",
        "left         nothing, since 2026-05-01T12:00:00.000+00:00",
    ]


def test_a_receipt_of_the_first_version_and_a_mark_are_still_read() -> None:
    first: dict[str, Any] = {
        "version": 1, "jobId": "a", "name": "a-1", "outcome": {"state": "SUCCEEDED", "message": "", "failure": None},
        "times": {"QUEUED": "t"}, "source": None, "images": {"master": "t:1"},
        "resources": [{"type": POOL, "name": "n1", "id": "", "created": "t1", "deleted": None}],
        "nodeSeconds": {"n1": 60.0}, "cost": {"currency": "USD", "amount": 0.1, "unpriced": [], "basis": "b"},
        "logs": {"complete": False, "replicas": 2}, "results": {"jobDir": "gs://b/x", "until": None}, "left": ["pool"],
    }  # fmt: skip
    lines = receipt_text(first).splitlines()
    assert "             t1  still there  NodePool n1" in lines
    assert "logs         2 replicas, not all complete" in lines
    assert lines[-1] == "left         pool"
    kept = ("version", "jobId", "name", "outcome", "times", "nodeSeconds", "cost")
    mark = {**{key: first[key] for key in kept}, "results": {"until": "t", "deleted": "t"}}
    assert "cost         about 0.1000 USD (list prices of us-central1)" in receipt_text(mark)


def _known(number: int, receipt: dict[str, Any]) -> KnownJob:
    return KnownJob(f"job_{number}", None, "SUCCEEDED", {}, "", None, None, receipt, "b", "jobs/", torn_down=True)


def test_a_month_adds_up_to_the_last_digit_that_is_shown() -> None:
    hourly = {"n1": 0.1899, "g2": 0.706832, "a3": 11.06125}
    jobs: list[KnownJob] = []
    for number in range(1, 1500):
        seconds = {machine: round(number * 7.777 * (place + 1), 3) for place, machine in enumerate(hourly)}
        jobs.append(_known(number, {"nodeSeconds": seconds, "cost": cost_of(seconds, hourly)}))
    total = add_up(jobs)
    shown = sum((Decimal(f"{job.cost:.4f}") for job in jobs), Decimal())
    assert f"{total['cost']['amount']:.4f}" == str(shown)
    for job in jobs:
        machines = (job.receipt or {})["cost"]["machines"].values()
        assert sum((Decimal(f"{amount:.4f}") for amount in machines), Decimal()) == Decimal(f"{job.cost:.4f}")
    for machine, spent in total["nodeSeconds"].items():
        parts = (Decimal(f"{(job.receipt or {})['nodeSeconds'][machine]:.3f}") for job in jobs)
        assert f"{spent:.3f}" == str(sum(parts, Decimal()))
