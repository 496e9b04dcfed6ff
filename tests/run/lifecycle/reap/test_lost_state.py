"""Record, engine state or listing that is lost or wrong, and an up by hand that died."""

from __future__ import annotations

import contextlib
import json
import os
import time

import pytest
from tests.run.lifecycle.reap.ground import LATER, LOOK_ALIKES, Ground

from encamp.cloud.storage import Storage
from encamp.plan.summary import SUMMARY_ANNOTATION, job_summary
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.job_resource import job_resource
from encamp.run.lifecycle.reap import Verdict, reap
from encamp.run.store.states import State

pytestmark = pytest.mark.slow


FAR = "created by root@far (pid 1) at 2026-01-01T00:00:00Z"


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
