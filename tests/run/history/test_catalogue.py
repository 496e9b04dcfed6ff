from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.cloud.storage import Storage, StoredObject
from encamp.errors import EngineError, UsageError
from encamp.jobs import JobSummary
from encamp.run.history.accounts import add_up, ended_since
from encamp.run.history.catalogue import UNSPECIFIED, Catalogue
from encamp.run.history.job_resource import job_resource
from encamp.run.history.sealed import chosen, find_logs, read_log
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.results.receipt import spec_hash
from encamp.run.store.intent import Intent
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State
from encamp.run.store.tables import open_database
from encamp.run.watch.usage import PodUse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.run.store.records import Lease

REPLICAS = ("master-replica-0", "worker-replica-0")
JOB = {"jobId": "lives", "labels": {"team": "a"}, "trainingInput": {"region": "us-central1", "scaleTier": "BASIC"}}


class World:
    """A record on this machine, an artifacts bucket, and a clock."""

    def __init__(self, google: Any, client: GoogleClient, folder: Path) -> None:
        google.add_bucket("artifacts")
        self.google = google
        self.folder = folder
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)
        self.storage = Storage(client)
        self.records = Records(open_database(None, folder), self.clock)
        self.catalogue = Catalogue(self.records, self.storage, environment="e", bucket="artifacts")

    def clock(self) -> float:
        return self.now.timestamp()

    def begin(self, job_id: str, *states: State, environment: str = "e") -> Lease:
        intent = Intent(
            job_id=job_id,
            name=f"{job_id}-abc",
            environment=environment,
            stack=f"job-{job_id}-abc",
            folder=str(self.folder / "jobs" / f"{job_id}-abc"),
            project="p",
            cluster="c",
            namespace="n",
            artifacts_bucket="artifacts",
            prefix=f"jobs/{job_id}/",
            labels={},
            deadline=0.0,
            max_running_seconds=60,
            max_wait_seconds=None,
            replicas=REPLICAS,
            machines={"master": "n1-standard-4"},
            hourly={"n1-standard-4": 0.36},
            spec_hash=spec_hash(JOB),
        )
        lease = self.records.begin(job_id, f"{job_id}-abc", intent.to_json())
        for state in states:
            self.now += timedelta(seconds=10)
            self.records.move(lease, state)
        return lease

    def put_receipt(self, job_id: str, state: str = "SUCCEEDED", day: int = 2, **more: Any) -> dict[str, Any]:
        receipt: dict[str, Any] = {
            "version": 1,
            "jobId": job_id,
            "name": f"{job_id}-abc",
            "environment": "e",
            "outcome": {"state": state, "message": "", "failure": None},
            "times": {
                "QUEUED": f"2026-05-{day:02}T10:00:00.000+00:00",
                "RUNNING": f"2026-05-{day:02}T10:01:00.000+00:00",
                state: f"2026-05-{day:02}T10:02:30.000+00:00",
            },
            "nodeSeconds": {"n1-standard-4": 90.1},
            "cost": {"currency": "USD", "amount": 0.1, "unpriced": []},
            "results": {"jobDir": None, "kept": f"gs://artifacts/jobs/{job_id}/", "bucket": None, "until": None},
            "left": [],
            **more,
        }
        self.google.objects["artifacts", f"jobs/{job_id}/receipt.json"] = json.dumps(receipt).encode()
        return receipt

    def spool(self, job_id: str) -> Path:
        return self.folder / "jobs" / f"{job_id}-abc" / "logs"

    def write_log(self, job_id: str, replica: str, text: bytes, *, complete: bool = True) -> ReplicaLog:
        log = ReplicaLog(self.spool(job_id), replica, lambda *_: None)
        log.feed(b"".join(b"2026-05-01T12:00:00Z " + line for line in text.splitlines(keepends=True)))
        log.end(None, complete=complete, reason="" if complete else "the pod is gone")
        log.close()
        return log

    def text(self, job_id: str, replica: str) -> bytes:
        logs = find_logs(self.catalogue.job(job_id), self.storage, self.spool(job_id))
        return b"".join(read_log(chosen(logs, replica), self.storage))


@pytest.fixture
def world(google: Any, client: GoogleClient, tmp_path: Path) -> Iterator[World]:
    made = World(google, client, tmp_path)
    yield made
    made.records.close()


def test_a_job_that_goes_on_tells_its_restarts_and_its_cost_so_far(world: World) -> None:
    lease = world.begin("lives", State.PREPARING, State.RUNNING)
    begun = world.now
    for at in range(2):
        times = (begun + timedelta(seconds=60 * at)).isoformat(), (begun + timedelta(seconds=60 * at + 2)).isoformat()
        use = PodUse(str(at), "master-replica-0", "master", *times, "", node="x", failed=True, end="exited with 137")
        world.records.append(lease, "pods", {"pods": [use.to_json()]})
    job = world.catalogue.job("lives")
    found = JobSummary.of(job, begun + timedelta(seconds=100)).to_json()
    assert found["restarts"]["text"] == "restart 2 of 5, last: master-replica-0 exited with 137"
    assert (found["costUsd"], found["costSoFarUsd"]) == (None, 0.01), "100 s, not 4: the machine waits too"
    own = job_resource(job, world.storage, world.spool("lives"))["encamp"]
    assert own["restarts"] == {
        "replica": "master-replica-0",
        "restart": 2,
        "most": 5,
        "wholeJob": 0,
        "mostOfWholeJob": 3,
        "last": "master-replica-0 exited with 137",
    }
    world.records.append(lease, "outcome", Outcome(State.FAILED, "why").to_json())
    world.records.move(lease, State.FAILED)
    assert world.catalogue.job("lives").restarts is None


def test_living_jobs_come_from_the_record_and_ended_ones_from_the_bucket_newest_first(world: World) -> None:
    world.put_receipt("older", day=1)
    world.put_receipt("newer", "FAILED", day=3)
    world.begin("lives", State.PREPARING, State.RUNNING)
    world.begin("another_environments", environment="f")
    assert [(job.job_id, job.state) for job in world.catalogue.jobs()] == [
        ("newer", "FAILED"),
        ("lives", "RUNNING"),
        ("older", "SUCCEEDED"),
    ]


def test_a_living_job_says_who_drives_it_and_how_long_it_trains(world: World) -> None:
    lease = world.begin("lives", State.PREPARING, State.RUNNING)
    line = JobSummary.of(world.catalogue.job("lives"), world.now + timedelta(seconds=7)).to_json()
    assert line["driver"].startswith("process ")
    assert (line["runningSeconds"], line["costUsd"], line["createTime"]) == (7.0, None, "2026-05-01T12:00:00.000Z")
    world.records.release(lease)
    assert world.catalogue.job("lives").driver is None


def test_a_job_that_another_machine_ended_has_ended_where_no_record_knows_it(world: World) -> None:
    world.put_receipt("elsewhere", "FAILED", outcome={"state": "FAILED", "message": "why", "failure": None})
    job = world.catalogue.job("elsewhere")
    assert (job.state, job.message, job.running_seconds(world.now), job.torn_down) == ("FAILED", "why", 90.0, True)
    world.records.release(world.begin("taken_over", State.PREPARING, State.RUNNING))
    world.put_receipt("taken_over", "FAILED")
    assert world.catalogue.job("taken_over").state == "RUNNING"


def test_an_ended_job_of_this_machine_is_known_though_the_bucket_has_lost_it(world: World) -> None:
    lease = world.begin("ended", State.PREPARING, State.RUNNING, State.SUCCEEDED)
    receipt = world.put_receipt("ended")
    world.records.append(lease, "outcome", Outcome(State.SUCCEEDED).to_json())
    world.records.append(lease, "receipt", receipt)
    world.records.append(lease, "gone", {})
    world.google.objects.clear()
    (job,) = world.catalogue.jobs()
    assert (job.state, job.cost, world.catalogue.job("ended").cost) == ("SUCCEEDED", 0.1, 0.1)


def test_what_lies_in_the_bucket_without_a_receipt_is_told_and_not_guessed_at(world: World) -> None:
    world.google.objects["artifacts", "jobs/elsewhere/packages/trainer.zip"] = b"x"
    world.google.objects["artifacts", "jobs/torn/receipt.json"] = b'{"jobId": "to'
    world.google.objects["artifacts", "jobs/no job's name/x"] = b"x"
    world.google.objects["artifacts", "jobs/stray"] = b"x"
    assert {(job.job_id, job.state) for job in world.catalogue.jobs()} == {
        ("elsewhere", UNSPECIFIED),
        ("torn", UNSPECIFIED),
    }


def test_a_job_that_only_its_objects_tell_of_is_as_old_as_the_oldest_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one by plain ``pulumi up`` that nobody has reaped."""
    world.begin("older", State.PREPARING)
    for name in ("output/a", "output/b"):
        world.google.objects["artifacts", f"jobs/by_hand/{name}"] = b"x"
    hours = iter(("2026-05-01T15:00:00Z", "2026-05-01T14:00:00Z"))
    listed = world.storage.objects

    def dated(bucket: str, prefix: str = "") -> Iterator[StoredObject]:
        return (replace(one, updated=next(hours)) for one in listed(bucket, prefix))

    monkeypatch.setattr(world.storage, "objects", dated)
    jobs = world.catalogue.jobs()
    assert [job.job_id for job in jobs] == ["by_hand", "older"], "the newest first"
    assert (jobs[0].state, jobs[0].created) == (UNSPECIFIED, datetime(2026, 5, 1, 14, tzinfo=UTC))


def test_a_receipt_of_another_job_is_not_taken(world: World) -> None:
    world.put_receipt("a")
    world.google.objects["artifacts", "jobs/b/receipt.json"] = world.google.objects["artifacts", "jobs/a/receipt.json"]
    assert world.catalogue.job("b").state == UNSPECIFIED


def test_a_cancelled_job_that_could_not_be_taken_down_is_still_cancelling(world: World) -> None:
    times = {"QUEUED": "2026-05-02T10:00:00+00:00", "CANCELLING": "2026-05-02T10:05:00+00:00"}
    world.put_receipt("stuck", "CANCELLED", times=times, left=["node pool x"])
    job = world.catalogue.job("stuck")
    assert (job.state, job.ended, job.torn_down) == ("CANCELLING", None, False)


def test_an_unknown_job_is_refused_with_the_nearest_id(world: World) -> None:
    world.put_receipt("digits_20260501")
    world.begin("over_there", environment="f")
    with pytest.raises(UsageError, match="did you mean digits_20260501"):
        world.catalogue.job("digits_20260510")
    with pytest.raises(UsageError, match="-s f"):
        world.catalogue.job("over_there")
    for name in ("", "zz", "../x", "digits_20260501/logs"):
        with pytest.raises(UsageError, match="no such job"):
            world.catalogue.job(name)


def test_the_resource_of_a_living_job_says_what_was_sent(world: World) -> None:
    world.begin("lives", State.PREPARING, State.RUNNING)
    world.write_log("lives", "master-replica-0", b"one\n", complete=False)
    config = world.spool("lives").parent / "Pulumi.job-lives-abc.yaml"
    config.write_text(yaml.safe_dump({"config": {"encamp:job": JOB}}))
    resource = job_resource(world.catalogue.job("lives"), world.storage, world.spool("lives"))
    assert (resource["trainingInput"], resource["labels"]) == (JOB["trainingInput"], JOB["labels"])
    assert (resource["state"], resource["startTime"]) == ("RUNNING", "2026-05-01T12:00:20.000Z")
    assert {"endTime", "errorMessage", "trainingOutput"}.isdisjoint(resource)
    assert resource["encamp"]["stack"] == "job-lives-abc"
    assert [one["name"] for one in resource["encamp"]["replicas"]] == list(REPLICAS)
    config.write_text(yaml.safe_dump({"config": {"encamp:job": {**JOB, "labels": {}}}}))
    assert "trainingInput" not in job_resource(world.catalogue.job("lives"), world.storage, world.spool("lives"))


def test_the_resource_of_an_ended_job_has_its_error_and_exit_codes(world: World) -> None:
    outcome = {"state": "FAILED", "message": "The replica master 0 exited with 3.", "failure": None}
    world.put_receipt("ended", "FAILED", outcome=outcome)
    log = world.write_log("ended", "master-replica-0", b"one\n")
    log.state.update(exitCode=3, termination={"reason": "it said so"})
    seal_logs(world.storage, "artifacts", "jobs/ended/", REPLICAS[:1], lambda _: log)
    resource = job_resource(world.catalogue.job("ended"), world.storage, world.folder)
    assert (resource["errorMessage"], resource["endTime"]) == (outcome["message"], "2026-05-02T10:02:30.000Z")
    assert resource["encamp"]["receipt"] == "gs://artifacts/jobs/ended/receipt.json"
    (replica,) = resource["encamp"]["replicas"]
    assert (replica["exitCode"], replica["reason"], replica["logComplete"]) == (3, "it said so", True)


def test_what_was_asked_for_is_shown_after_the_end_too_and_who_wanted_it_cancelled(world: World) -> None:
    lease = world.begin("lives", State.PREPARING, State.RUNNING)
    record = world.records.record("lives")
    assert record is not None
    world.records.append(lease, "intent", {**(record.intent or {}), "job": JOB, "later": 1})
    at = world.records.request_cancel("lives", "ann on desk")
    found = job_resource(world.catalogue.job("lives"), world.storage, world.spool("lives"))
    assert (found["trainingInput"], found["labels"]) == (JOB["trainingInput"], {"team": "a"})
    assert found["encamp"]["cancelRequested"]["by"] == "ann on desk"
    assert found["encamp"]["cancelRequested"]["at"].startswith(f"{at:%Y-%m-%dT%H:%M:%S}")
    world.put_receipt("elsewhere", job=JOB, version=2, imageDigests={"master": []})
    found = job_resource(world.catalogue.job("elsewhere"), world.storage, world.spool("elsewhere"))
    assert (found["state"], found["trainingInput"]) == ("SUCCEEDED", JOB["trainingInput"])
    world.put_receipt("long_ago")
    assert "trainingInput" not in job_resource(world.catalogue.job("long_ago"), world.storage, world.spool("long_ago"))


def test_an_intent_that_cannot_be_read_hides_no_other_job(world: World) -> None:
    lease = world.begin("lives", State.PREPARING)
    world.records.append(lease, "intent", {"environment": "e"})
    world.put_receipt("other")
    assert {job.job_id: job.state for job in world.catalogue.jobs()} == {"lives": "PREPARING", "other": "SUCCEEDED"}


def test_a_log_is_the_same_text_before_and_after_it_is_sealed(world: World) -> None:
    text = "first\r\nzwölf \x1b[31m\n\nlast\n".encode()
    lease = world.begin("lives", State.PREPARING, State.RUNNING)
    log = world.write_log("lives", "master-replica-0", text)
    before = world.text("lives", "master-replica-0")
    seal_logs(world.storage, "artifacts", "jobs/lives/", REPLICAS[:1], lambda _: log)
    during = world.text("lives", "master-replica-0")
    world.records.append(lease, "sealed", {"stored": True})
    log.path.unlink()
    assert before == during == world.text("lives", "master-replica-0") == text


def test_a_log_that_is_not_whole_says_why(world: World) -> None:
    world.begin("lives", State.PREPARING, State.RUNNING)
    world.write_log("lives", "master-replica-0", b"one\n", complete=False)
    logs = find_logs(world.catalogue.job("lives"), world.storage, world.spool("lives"))
    assert [log.reason for log in logs] == ["the pod is gone", "no log was seen"]
    assert list(read_log(logs[1], world.storage)) == []
    with pytest.raises(UsageError, match="did you mean worker-replica-0"):
        chosen(logs, "worker-replica-1")


def test_a_sealed_log_that_was_changed_since_is_not_taken_for_it(world: World) -> None:
    world.put_receipt("ended")
    log = world.write_log("ended", "master-replica-0", b"one\n")
    seal_logs(world.storage, "artifacts", "jobs/ended/", REPLICAS[:1], lambda _: log)
    world.google.objects["artifacts", "jobs/ended/logs/master-replica-0.log"] = b"two\n"
    with pytest.raises(EngineError, match="SHA-256"):
        world.text("ended", "master-replica-0")


def test_logs_that_are_elsewhere_or_gone_say_so(world: World) -> None:
    lease = world.begin("lives", State.PREPARING, State.RUNNING)
    nowhere = world.folder / "nothing"
    with pytest.raises(UsageError, match="with its driver, not on this machine"):
        find_logs(world.catalogue.job("lives"), world.storage, nowhere)
    world.records.release(lease)
    with pytest.raises(UsageError, match="encamp reap"):
        find_logs(world.catalogue.job("lives"), world.storage, nowhere)
    world.put_receipt("forgotten", results={"until": "2026-06-01T00:00:00Z", "deleted": "2026-06-02T00:00:00Z"})
    with pytest.raises(UsageError, match="deleted on 2026-06-02"):
        find_logs(world.catalogue.job("forgotten"), world.storage, nowhere)


def test_receipts_add_up_and_what_is_not_in_the_sum_is_named(world: World) -> None:
    world.put_receipt("early", day=1)
    world.put_receipt("a", day=2)
    world.put_receipt("b", "FAILED", day=3)
    tpu = {"currency": "USD", "amount": None, "unpriced": ["ct9"]}
    world.put_receipt("c", day=4, nodeSeconds={"ct9": 5.0}, cost=tpu)
    mark = world.put_receipt("marked", day=5)
    kept = {key: mark[key] for key in ("version", "jobId", "name", "outcome", "times", "environment")}
    world.google.objects["artifacts", "jobs/marked/receipt.json"] = json.dumps(kept).encode()
    world.begin("lives", State.PREPARING, State.RUNNING)
    found = ended_since(world.catalogue.jobs(), datetime(2026, 5, 2, tzinfo=UTC))
    assert [job.job_id for job in found] == ["a", "b", "c", "marked"]
    assert add_up(found) == {
        "jobs": {"FAILED": 1, "SUCCEEDED": 3},
        "nodeSeconds": {"ct9": 5.0, "n1-standard-4": 180.2},
        "cost": {
            "currency": "USD",
            "amount": 0.2,
            "prices": ["list prices of us-central1"],
            "unpriced": {"ct9": 5.0},
            "forgotten": ["marked"],
        },
    }
    assert len(ended_since(world.catalogue.jobs(), None)) == 5


def test_parts_of_a_span_add_up_to_the_whole(world: World) -> None:
    for day in range(1, 11):
        world.put_receipt(f"job_{day}", day=day, cost={"currency": "USD", "amount": 0.0001 * day, "unpriced": []})
    jobs = ended_since(world.catalogue.jobs(), None)
    parts, whole = [add_up(jobs[:4]), add_up(jobs[4:])], add_up(jobs)
    assert round(sum(part["cost"]["amount"] for part in parts), 4) == whole["cost"]["amount"] == 0.0055
    assert sum(part["jobs"]["SUCCEEDED"] for part in parts) == whole["jobs"]["SUCCEEDED"] == 10


def test_folders_are_listed_page_by_page(world: World) -> None:
    for name in ("a", "b", "c"):
        world.put_receipt(name)
        world.google.objects["artifacts", f"jobs/{name}/output/model"] = b"x"
    world.google.page_size = 1
    assert list(world.storage.folders("artifacts", "jobs/")) == ["jobs/a/", "jobs/b/", "jobs/c/"]
    assert [job.job_id for job in world.catalogue.jobs()] == ["c", "b", "a"]
