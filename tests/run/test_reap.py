"""Jobs whose record, state or listing is lost, stale or wrong; on the loopback fakes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.leftovers import JOB_LABEL
from encamp.cloud.storage import Storage
from encamp.errors import ExitCode
from encamp.plan.summary import SUMMARY_ANNOTATION, job_summary
from encamp.retries import SHORT
from encamp.run.catalogue import Catalogue
from encamp.run.intent import planned_intent
from encamp.run.job_resource import job_resource
from encamp.run.reap import Finding, ReapOptions, Verdict, reap, worst
from encamp.run.receipt import spec_hash
from encamp.run.records import Records
from encamp.run.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

FAR = "created by root@far (pid 1) at 2026-01-01T00:00:00Z"
LATER = 4_000_000_000.0


class Ground:
    """A world in which job_1 was begun and its driver has died."""

    def __init__(self, driver: Any, world: Any) -> None:
        self.driver = driver
        self.world = world
        self.google = world.google
        self.labels: dict[str, str] = driver.LABELS
        self.plan = driver._plan()

    def record(self, environment: str = "sandbox", deadline: float = LATER, **changes: Any) -> None:
        """Write the record of a driver that died."""
        intent = planned_intent(
            self.plan,
            self.world.context.environment("sandbox"),
            environment_stack=environment,
            stack="job-j",
            folder=str(self.world.context.job_folder("j")),
            deadline=deadline,
            spec_hash="x",
            source=None,
        )
        records = self.world.context.records()
        records.release(records.begin("job_1", "j", {**intent.to_json(), **changes}))
        records.close()

    def stack(self, name: str, **state: Any) -> None:
        empty: dict[str, Any] = {"resources": [], "pending": [], "outputs": {}}
        stacks = {**self.world.stacks, name: {**empty, **state}}
        (self.world.folder / "engine" / "stacks.json").write_text(json.dumps(stacks))

    def furnish(self) -> None:
        """What the cloud lists of the job, and of somebody else's that looks like it."""
        google, labels = self.google, self.labels
        google.add_bucket("scratch", **labels)
        google.pools["j-pool"] = {
            "name": "j-pool",
            "config": {"resourceLabels": labels},
            "placementPolicy": {"policyName": "j-pool"},
        }
        marks = " ".join(f"{key}={value}" for key, value in labels.items())
        google.placements["j-pool"] = {"name": "j-pool", "description": marks}
        google.accounts[self.driver.EMAIL] = {"email": self.driver.EMAIL, "description": marks}
        google.add_bucket("scratch-2", **{**labels, "encamp-owner": "another"})
        google.pools["j-pool-2"] = {"name": "j-pool-2", "config": {"resourceLabels": {JOB_LABEL: "j"}}}
        google.placements["j-pool-2"] = {"name": "j-pool-2", "description": "encamp-job=j encamp-owner=another"}

    def listed(self) -> list[str]:
        google = self.google
        return sorted([*google.buckets, *google.pools, *google.placements, *google.accounts])

    def reap(self, **options: Any) -> Finding:
        (finding,) = reap(self.world.context, "sandbox", ReapOptions(**options))
        return finding

    def found(self) -> Any:
        return self.driver._record(self.world)


LOOK_ALIKES = ["artifacts", "j-pool-2", "j-pool-2", "scratch-2"]


@pytest.fixture
def driver(load_module: Callable[[str, str], Any]) -> Any:
    return load_module("encamp_test_driver", "run/test_driver.py")


@pytest.fixture
def ground(driver: Any, google: Any, client: GoogleClient, kubernetes: Any, request: pytest.FixtureRequest) -> Ground:
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    tmp_path: Path = request.getfixturevalue("tmp_path")
    monkeypatch.setattr("encamp.run.teardown._SETTLE_SECONDS", 0.01)
    return Ground(driver, driver.make_world(google, client, kubernetes, tmp_path, monkeypatch))


def test_a_state_that_is_lost_leaves_the_record_and_the_listing(ground: Ground) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(0)
    would = ground.reap(dry_run=True)
    assert (would.verdict, "bucket gs://scratch" in would.resources) == (Verdict.WOULD_END, True)
    assert "scratch" in ground.google.buckets
    finding = ground.reap()
    assert (finding.verdict, ground.found().state, ground.found().torn_down) == (Verdict.ENDED, State.SUCCEEDED, True)
    assert ground.listed() == LOOK_ALIKES
    assert ground.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"
    assert reap(ground.world.context, "sandbox") == []


def test_a_record_that_says_gone_is_contradicted_by_the_listing(ground: Ground) -> None:
    ground.record()
    ground.world.trains(0)
    ground.reap()
    before = ground.google.objects["artifacts", "jobs/job_1/receipt.json"]
    ground.furnish()
    finding = ground.reap()
    assert (finding.verdict, "the cloud lists it" in finding.why) == (Verdict.ENDED, True)
    assert (ground.listed(), ground.found().state) == (LOOK_ALIKES, State.SUCCEEDED)
    assert ground.google.objects["artifacts", "jobs/job_1/receipt.json"] == before
    assert ground.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"


def test_record_and_state_that_are_lost_leave_the_job_set(ground: Ground) -> None:
    ground.furnish()
    ground.world.trains(None)
    job_set = ground.world.kubernetes.objects["jobsets", "j"]
    job_set["metadata"]["labels"] = {**ground.labels, "encamp-deadline": str(int(LATER))}
    job_set["metadata"]["annotations"] = {SUMMARY_ANNOTATION: json.dumps(job_summary(ground.plan).to_json())}
    left = ground.reap()
    assert (left.job, left.verdict, ground.found().state) == ("job_1", Verdict.HELD, State.RUNNING)
    job_set["status"]["terminalState"] = "Completed"
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}
    ground.world.kubernetes.objects["pods", "j-pod"]["status"]["containerStatuses"][0]["state"] = ended
    assert ground.reap().verdict is Verdict.ENDED
    assert (ground.found().state, ground.listed()) == (State.SUCCEEDED, LOOK_ALIKES)
    assert ground.google.objects["artifacts", "jobs/job_1/logs/master-replica-0.log"] == b"hello\n"


def test_a_job_that_was_started_by_hand_has_its_own_times_and_says_what_it_was(ground: Ground) -> None:
    """Nothing of it is on record until somebody reaps it."""
    ground.world.trains(0)
    objects = ground.world.kubernetes.objects
    job_set = objects["jobsets", "j"]
    job_set["metadata"]["labels"] = {**ground.labels, "encamp-deadline": str(int(LATER))}
    job_set["metadata"]["annotations"] = {SUMMARY_ANNOTATION: json.dumps(job_summary(ground.plan).to_json())}
    job_set["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "Completed", "status": "True", "lastTransitionTime": "2026-01-01T00:02:00Z"}
    job_set["status"]["conditions"] = [condition]
    told = {"scale_tier": "BASIC", "region": "us-central1", "args": ["--price=$5"], "job_dir": "gs://team/out"}
    environment = [{"name": "CLOUD_ML_JOB", "value": json.dumps(told).replace("$", "$$")}]
    (group,) = job_set["spec"]["replicatedJobs"]
    group["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = environment
    ended = objects["pods", "j-pod"]["status"]["containerStatuses"][0]["state"]["terminated"]
    ended["startedAt"] = "2026-01-01T00:00:30Z"
    assert ground.reap().verdict is Verdict.ENDED
    found = ground.found()
    times = {str(state): f"{at:%H:%M:%S}" for state, at in found.times.items()}
    assert times == {"QUEUED": "00:00:00", "PREPARING": "00:00:00", "RUNNING": "00:00:30", "SUCCEEDED": "00:02:00"}
    assert f"{found.created:%H:%M:%S}" == "00:00:00"
    storage = Storage(ground.world.context.client)
    with contextlib.closing(ground.world.context.records()) as records:
        job = Catalogue(records, storage, environment="sandbox", bucket="artifacts").job("job_1")
    described = job_resource(job, storage, ground.world.folder)
    assert described["trainingInput"]["args"] == ["--price=$5"]
    assert described["trainingInput"]["scaleTier"] == "BASIC"
    assert described["startTime"] == "2026-01-01T00:00:30.000Z"
    assert described["endTime"] == "2026-01-01T00:02:00.000Z"


def test_an_up_by_hand_that_died_midway_is_fenced_before_it_is_judged(ground: Ground) -> None:
    """Neither outputs nor a record: the job's component says what was to be; a create never answered, and happened."""
    intent = json.dumps(job_summary(ground.plan).to_json())
    ground.stack("by-hand", resources=["bucket"], pending=["scratch"], intent=intent, written="2026-01-01T00:00:00Z")
    ground.furnish()
    lock = ground.world.folder / "engine" / "lock"
    lock.write_text(FAR.replace("2026-01-01T00:00:00Z", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
    held = ground.reap()
    assert (held.verdict, held.why, ground.found()) == (Verdict.HELD, "another engine run works on its stack", None)
    lock.write_text(f"created by root@{os.uname().nodename} (pid 999999) at 2026-01-01T00:00:00Z")
    finding = ground.reap()
    assert (finding.verdict, ground.found().state) == (Verdict.ENDED, State.FAILED)
    assert (ground.listed(), list(ground.world.stacks)) == (LOOK_ALIKES, ["sandbox"])
    assert any("had no answer when it was created, and exists" in line for line in ground.world.lines)
    assert not lock.exists()


def _without_cluster(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.cloud.kubernetes._POLICY", SHORT.at_most(1))
    kubeconfig = ground.world.kubernetes.kubeconfig().replace(ground.world.kubernetes.url, "http://127.0.0.1:9")
    stacks = ground.world.stacks
    stacks["sandbox"]["outputs"]["kubeconfig"] = kubeconfig
    (ground.world.folder / "engine" / "stacks.json").write_text(json.dumps(stacks))
    ground.world.context._environments.clear()


def test_a_cluster_that_gives_no_answer_hides_nothing_that_costs_money(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.record(deadline=time.time() - 7200)
    ground.furnish()
    ground.stack("job-j", resources=["bucket", "in-cluster"])
    ground.world.script("destroy", unreachable=True)
    _without_cluster(ground, monkeypatch)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    finding = ground.reap(job="job_1")
    assert (finding.verdict, "no answer" in finding.why or "no answer" in str(finding.error)) == (Verdict.FAILED, True)
    assert (ground.listed(), ground.found().torn_down) == (LOOK_ALIKES, False)
    # Once Google lists the cluster no more, what was in it is gone too.
    ground.google.clusters.clear()
    assert ground.reap(job="j").verdict is Verdict.ENDED
    assert (ground.found().state, list(ground.world.stacks)) == (State.CANCELLED, ["sandbox"])


def test_a_job_that_cannot_be_judged_is_left_and_said(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.record()
    ground.furnish()
    _without_cluster(ground, monkeypatch)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    finding = ground.reap(job="job_1", tell=True)
    assert (finding.verdict, ground.found().outcome) == (Verdict.FAILED, None)
    told = [one["jsonPayload"] for one in ground.google.told]
    assert [(one["event"], one.get("why"), one.get("troubles")) for one in told] == [
        ("not-ended", finding.why, None),
        ("reaped", None, 1),
    ]
    error = worst([finding])
    assert error is not None
    assert error.exit_code == ExitCode.INFRASTRUCTURE_FAILED
    assert "scratch" in ground.google.buckets


def test_an_environment_that_is_gone_still_has_its_jobs_ended(ground: Ground) -> None:
    ground.record()
    ground.furnish()
    del ground.google.buckets["artifacts"]
    (ground.world.folder / "engine" / "stacks.json").write_text("{}")
    ground.world.context._environments.clear()
    (finding,) = reap(ground.world.context, "sandbox", ReapOptions(job="job_1"))
    assert (finding.verdict, ground.found().outcome.message) == (Verdict.ENDED, "its cluster is gone")
    assert ground.listed() == LOOK_ALIKES[1:]
    assert ground.found().receipt["outcome"]["state"] == "FAILED"


def test_what_another_driver_or_environment_holds_is_not_touched(ground: Ground) -> None:
    ground.record(environment="other")
    ground.furnish()
    ground.world.trains(0)
    assert [one.verdict for one in reap(ground.world.context, "sandbox")] == [Verdict.HELD]
    assert "scratch" in ground.google.buckets
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    (finding,) = reap(ground.world.context, "sandbox", ReapOptions(job="job_1"))
    assert (finding.verdict, "scratch" in ground.google.buckets) == (Verdict.HELD, True)
    records.release(lease)
    records.close()


def test_a_lease_that_is_lost_on_the_way_stops_the_tear_down(ground: Ground) -> None:
    ground.record()
    ground.furnish()
    ground.stack("job-j", resources=["bucket"])
    ground.world.trains(0)

    def taken(_: Any) -> None:
        with contextlib.closing(sqlite3.connect(ground.world.folder / "own" / "records.sqlite3")) as database:
            database.execute("UPDATE leases SET fence = fence + 1")
            database.commit()

    ground.google.troubles.append(("POST /upload.*manifest", taken))
    finding = ground.reap()
    assert (finding.verdict, "adopted this job" in finding.why) == (Verdict.FAILED, True)
    assert ("scratch" in ground.google.buckets, "job-j" in ground.world.stacks) == (True, True)
    assert not any(" destroy " in call for call in ground.world.calls)


def test_what_trains_is_supervised_until_somebody_cancels_it(ground: Ground, until: Any) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(None)
    look = ground.reap()
    assert (look.verdict, ground.found().state) == (Verdict.HELD, State.RUNNING)

    records = ground.world.context.records()

    def left() -> None:
        until(lambda: records.holder_of("job_1"), 30)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=left)
    thread.start()
    finding = ground.reap(wait=True)
    thread.join()
    assert (finding.verdict, finding.why, ground.found().outcome) == (
        Verdict.HELD, "it still trains and is left to itself", None,
    )  # fmt: skip
    assert records.holder_of("job_1") is None
    timer = threading.Timer(1.5, records.request_cancel, ("job_1", "ada"))
    timer.start()
    finding = ground.reap(watch=None, wait=True, job="job_1")
    timer.join()
    records.close()
    assert (finding.verdict, ground.found().state, ground.listed()) == (Verdict.ENDED, State.CANCELLED, LOOK_ALIKES)
    assert ground.found().outcome.message == "ada cancelled it"


def test_limits_count_from_when_the_record_says(ground: Ground) -> None:
    ground.record(maxWaitSeconds=0.001, replicas=["master-replica-0", "worker-replica-0"])
    ground.world.trains(None)
    finding = ground.reap()
    assert (finding.verdict, "maxWaitTime" in ground.found().outcome.message) == (Verdict.ENDED, True)


def test_strangers_go_with_their_deadline_and_never_before(ground: Ground) -> None:
    late = {**ground.labels, "encamp-deadline": "1000000000"}
    ground.google.add_bucket("late", **late)
    ground.google.add_bucket("young", **{**ground.labels, JOB_LABEL: "k", "encamp-deadline": str(int(LATER))})
    ground.google.add_bucket("others", **{**late, "encamp-environment": "other"})
    verdicts = {one.job: one.verdict for one in reap(ground.world.context, "sandbox")}
    assert verdicts == {"j": Verdict.ENDED, "k": Verdict.HELD}
    assert sorted(ground.google.buckets) == ["artifacts", "others", "young"]


def test_a_machine_whose_clock_is_ahead_takes_no_stranger_before_its_deadline(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline = 1_000_000_000
    ground.google.add_bucket("late", **{**ground.labels, "encamp-deadline": str(deadline)})

    def behind(_: Records) -> float:
        return deadline - 60.0

    monkeypatch.setattr(Records, "now", behind)
    assert {one.verdict for one in reap(ground.world.context, "sandbox")} == {Verdict.HELD}
    assert "late" in ground.google.buckets


def _left(ground: Ground, **changes: Any) -> None:
    """A job whose driver was told to end while it prepared it, on a machine whose files are not here."""
    job: dict[str, Any] = {"jobId": "job_1", "trainingInput": {}}
    ground.record(job=job, specHash=spec_hash(job), **changes)
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    records.append(lease, "left", {})
    records.release(lease)
    records.close()


@contextlib.contextmanager
def _appearing(ground: Ground, code: int | None) -> Iterator[None]:
    """The job's objects come to be while the next ``up`` runs, which waits for them."""
    hold = ground.world.folder / "engine" / "up-held"
    hold.touch()
    calls = len(ground.world.calls)

    def appear() -> None:
        end = time.monotonic() + 60
        while not any(" up " in call for call in ground.world.calls[calls:]) and time.monotonic() < end:
            time.sleep(0.01)
        ground.world.trains(code)
        hold.unlink()

    thread = threading.Thread(target=appear)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_job_that_its_driver_let_go_of_is_brought_up_further(ground: Ground) -> None:
    _left(ground)
    would = ground.reap(dry_run=True)
    assert (would.verdict, "goes on" in would.why) == (Verdict.HELD, True)
    ground.world.script("up", resources=["bucket"])
    with _appearing(ground, None):
        assert ground.reap().verdict is Verdict.HELD
    assert (ground.found().state, ground.found().left) == (State.RUNNING, False)
    assert any(" up " in call for call in ground.world.calls)
    ground.world.trains(0)
    assert ground.reap().verdict is Verdict.ENDED
    assert (ground.found().state, list(ground.world.stacks)) == (State.SUCCEEDED, ["sandbox"])


def test_what_is_refused_while_a_job_is_brought_up_further_ends_it_as_its_driver_would(ground: Ground) -> None:
    _left(ground)
    ground.world.script("up", resources=["bucket"], error="googleapi: Error 403: Permission denied, forbidden")
    finding = ground.reap(wait=True)
    assert (finding.verdict, ground.found().state) == (Verdict.ENDED, State.FAILED)
    assert "the infrastructure failed" in finding.why
    assert [one.data["exitCode"] for one in ground.found().entries if one.kind == "failure"] == [3]


def test_a_job_that_was_let_go_of_without_its_secrets_says_so(ground: Ground) -> None:
    _left(ground, name="j")
    records = ground.world.context.records()
    lease = records.adopt("job_1", "j", {})
    intent = {**ground.found().intent, "specHash": "of a job with a secret"}
    records.append(lease, "intent", intent)
    records.append(lease, "left", {})
    records.release(lease)
    records.close()
    finding = ground.reap()
    assert (finding.verdict, ground.found().state) == (Verdict.ENDED, State.FAILED)
    assert "without its secrets" in finding.why


def test_a_job_that_was_let_go_of_twice_is_gone_on_with_by_the_third(ground: Ground) -> None:
    _left(ground)
    ground.world.script("up", hang=True)
    hanging = ground.world.folder / "engine" / "hanging"

    def leave() -> None:
        end = time.monotonic() + 60
        while not hanging.exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=leave).start()
    assert ground.reap(wait=True).verdict is Verdict.HELD
    assert ground.found().left
    ground.world.script("up", resources=["bucket"])
    with _appearing(ground, 0):
        assert ground.reap(wait=True).verdict is Verdict.ENDED
    assert ground.found().state is State.SUCCEEDED


@pytest.fixture
def states(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a backend of files keeps states."""
    backend: Path = ground.world.folder / "engine" / "backend"
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{backend}")
    folder = backend / ".pulumi" / "stacks" / "encamp"
    folder.mkdir(parents=True)
    return folder


def test_a_state_that_nobody_can_read_is_set_aside_and_its_job_comes_to_its_end(ground: Ground, states: Path) -> None:
    ground.record()
    ground.furnish()
    ground.stack("job-j", resources=["bucket"])
    ground.stack("job-stray")
    ground.world.trains(0)
    for name in ("job-j", "job-stray"):
        (states / f"{name}.json").write_text("garbage")
    would = {one.job: one for one in reap(ground.world.context, "sandbox", ReapOptions(dry_run=True))}
    assert (would["job_1"].verdict, would["stack job-stray"].verdict) == (Verdict.WOULD_END, Verdict.WOULD_SET_ASIDE)
    assert str(states / "job-j.json") in would["job_1"].resources[0]
    assert len(list(states.iterdir())) == 2
    findings = {one.job: one for one in reap(ground.world.context, "sandbox")}
    assert (findings["job_1"].verdict, findings["stack job-stray"].verdict) == (Verdict.ENDED, Verdict.SET_ASIDE)
    assert worst(findings.values()) is None
    assert (ground.found().state, ground.found().torn_down, ground.listed()) == (State.SUCCEEDED, True, LOOK_ALIKES)
    aside = states.parents[1] / "unreadable" / "encamp"
    assert sorted(one.name.partition(".")[0] for one in aside.iterdir()) == ["job-j", "job-stray"]
    assert {one.read_text() for one in aside.iterdir()} == {"garbage"}
    said = [line for line in ground.world.lines if "cannot be read" in line]
    assert len(said) == 1
    assert str(states / "job-j.json") in said[0]
    assert f"it is kept as {aside}" in said[0]
    assert f"it is kept as {aside}" in findings["stack job-stray"].why


def test_an_unreadable_state_of_a_job_that_only_the_cloud_tells_of(ground: Ground, states: Path) -> None:
    ground.furnish()
    ground.stack("job-j")
    (states / "job-j.json").write_text("garbage")
    ground.world.trains(0)
    job_set = ground.world.kubernetes.objects["jobsets", "j"]
    job_set["metadata"]["labels"] = {**ground.labels, "encamp-deadline": str(int(LATER))}
    job_set["metadata"]["annotations"] = {SUMMARY_ANNOTATION: json.dumps(job_summary(ground.plan).to_json())}
    assert ground.reap().verdict is Verdict.ENDED
    assert (ground.found().state, ground.listed(), list(states.iterdir())) == (State.SUCCEEDED, LOOK_ALIKES, [])


def test_an_unreadable_state_of_the_environment_is_named_and_stays(ground: Ground, states: Path) -> None:
    ground.record()
    ground.furnish()
    ground.world.trains(0)
    ground.google.clusters["projects/p/locations/r/clusters/c"] = {}
    (states / "sandbox.json").write_text("garbage")
    ground.world.context._environments.clear()
    reap(ground.world.context, "sandbox")
    assert [one.name for one in states.iterdir()] == ["sandbox.json"]
    assert any(str(states / "sandbox.json") in line for line in ground.world.lines)
