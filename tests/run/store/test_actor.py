"""Who started a job, took it over and cancelled it stands in the journal and in the receipt."""

from __future__ import annotations

import getpass
import json
import socket
from typing import TYPE_CHECKING, Any

from encamp.run.history.catalogue import KnownJob
from encamp.run.results.receipt import receipt_text
from encamp.run.store.actor import ACTOR, Actor, deeds_of
from encamp.run.store.records import Records

if TYPE_CHECKING:
    from pathlib import Path

ANA = Actor("ana", "laptop", "ana@example.com")
BEN = Actor("ben", "desk", None, "lab/jobs/actions/runs/7 by ben")


def test_this_process_is_somebody(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account", "client_email": "ci@lab.iam.gserviceaccount.com"}))
    environ = {
        "GOOGLE_APPLICATION_CREDENTIALS": str(key),
        "GITHUB_RUN_ID": "7",
        "GITHUB_REPOSITORY": "lab/jobs",
        "GITHUB_ACTOR": "octocat",
    }
    me = Actor.myself(environ)
    here = f"{getpass.getuser()}@{socket.gethostname()}"
    assert me.words() == f"ci@lab.iam.gserviceaccount.com, {here}, lab/jobs/actions/runs/7 by octocat"
    assert Actor.from_json(json.loads(json.dumps(me.to_json()))) == me
    assert Actor.myself({"CLOUDSDK_CONFIG": str(tmp_path)}).words() == here


def test_a_job_knows_who_did_what_to_it(tmp_path: Path) -> None:
    records = Records.open(None, tmp_path)
    records.release(records.begin("digits", "digits-1", {"startedBy": ANA.to_json()}))
    records.append(records.adopt("digits", "digits-1", {}), ACTOR, {"did": "taken over", **BEN.to_json()})
    records.request_cancel("digits", "eve@example.com, eve@phone")
    record = records.record("digits")
    records.close()
    assert record is not None
    deeds = deeds_of(record)
    assert [(deed["did"], deed["by"]) for deed in deeds] == [
        ("started", "ana@example.com, ana@laptop"),
        ("taken over", "ben@desk, lab/jobs/actions/runs/7 by ben"),
        ("cancelled", "eve@example.com, eve@phone"),
    ]
    assert [deed.get("account") for deed in deeds] == ["ana@example.com", None, None]
    assert deeds[0]["at"] <= deeds[1]["at"] <= deeds[2]["at"]
    receipt: dict[str, Any] = {
        "jobId": "digits",
        "name": "digits-1",
        "outcome": {"state": "CANCELLED"},
        "times": {},
        "by": deeds,
    }
    lines = receipt_text(receipt).splitlines()
    assert f"started      by ana@example.com, ana@laptop at {deeds[0]['at']}" in lines
    assert f"cancelled    by eve@example.com, eve@phone at {deeds[2]['at']}" in lines
    # Where only the bucket knows a job, its receipt says who started it.
    known = KnownJob("digits", None, "CANCELLED", {}, "", None, None, receipt, "b", "jobs/", torn_down=True)
    assert known.started_by["account"] == "ana@example.com"


def test_a_job_that_plain_pulumi_started_names_nobody(tmp_path: Path) -> None:
    records = Records.open(None, tmp_path)
    records.release(records.adopt("digits", "digits-1", {"stack": "s"}))
    record = records.record("digits")
    records.close()
    assert record is not None
    assert deeds_of(record) == []
    known = KnownJob("digits", None, "RUNNING", {}, "", None, None, None, "b", "jobs/", torn_down=False)
    assert known.started_by == {}
