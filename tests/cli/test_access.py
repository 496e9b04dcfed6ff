"""``encamp access`` as a user calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import requests
from click.testing import CliRunner

from encamp.cli import access
from encamp.cli.main import cli
from encamp.cloud import rest
from encamp.errors import UsageError
from encamp.jobs import target
from encamp.plan.access.table import access_table
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from encamp.spec.environment import EnvironmentSpec

BUCKET = "sandbox-encamp-artifacts"
TEAMS = [
    {"name": "vision", "members": ["user:ana@example.com"], "roles": ["ml.developer"]},
    {"name": "ops", "members": ["group:ops@example.com"], "roles": ["ml.admin"]},
]
LAB = {
    "name": "lab",
    "region": "us-central1",
    "artifactsBucket": "lab-artifacts",
    "access": {"teams": TEAMS, "securityGroup": "gke-security-groups@example.com"},
}


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_environment(LAB, project="lab-project", source="x")

    def named(_: str) -> EnvironmentSpec:
        return spec

    monkeypatch.setattr(access, "environment_named", named)


def ran(*words: str) -> Result:
    return CliRunner().invoke(cli, ["access", "check", *words, "--environment", "sandbox"])


def test_yes_says_through_which_team_and_what_it_means() -> None:
    answer = ran("ana@example.com", "ml.jobs.create")
    assert answer.exit_code == 0
    lines = answer.output.splitlines()
    assert lines[:2] == [
        "yes: ana@example.com may ml.jobs.create in sandbox",
        "  as     ml.developer of team vision",
    ]
    assert lines[2].startswith("  means  encamp run")
    assert max(map(len, lines)) <= 100


def test_no_says_who_may_and_which_group_would_do() -> None:
    answer = ran("omar@example.com", "ml.jobs.cancel")
    assert answer.exit_code == access.NO == 1
    assert answer.output.startswith("no: omar@example.com may not ml.jobs.cancel in sandbox\n")
    assert "unless in group:ops@example.com: ml.admin of team ops; say so by --group" in answer.output
    assert "roles  ml.admin, ml.editor, ml.jobOwner" in answer.output
    assert ran("omar@example.com", "ml.jobs.cancel", "--group", "ops@example.com").exit_code == 0


def test_programs_read_json() -> None:
    answer = json.loads(ran("ana@example.com", "ml.jobs.cancel", "--format", "json").output)
    assert (answer["allowed"], answer["because"]) == (False, [])
    assert answer["ifMemberOf"] == [{"role": "ml.admin", "team": "ops", "member": "group:ops@example.com"}]


def test_a_permission_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"write ml\.jobs\.cancel"):
        CliRunner().invoke(cli, ["access", "check", "ana@example.com", "ml.jobs.cancle"], catch_exceptions=False)


def test_who_started_a_job_may_cancel_it(google: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    google.add_bucket(BUCKET)
    for key, value in google.environ().items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("ENCAMP_RECORD_URL", raising=False)
    monkeypatch.setattr(target, "_enter_sandbox", lambda: None)
    session = requests.Session()
    monkeypatch.setattr(rest, "_default_session", lambda: session)
    started = {"did": "started", "by": "ana@example.com, ana@laptop", "account": "ana@example.com", "at": "t"}
    for job in ("anas", "nobodys"):
        receipt = {
            "version": 2,
            "jobId": job,
            "name": f"{job}-abc",
            "outcome": {"state": "SUCCEEDED", "message": ""},
            "times": {"QUEUED": "2026-05-02T10:00:00.000+00:00"},
            "environment": "sandbox",
            "by": [started] if job == "anas" else None,
        }
        google.objects[BUCKET, f"jobs/{job}/receipt.json"] = json.dumps(receipt).encode()
    own = ran("ana@example.com", "ml.jobs.cancel", "--job", "anas")
    unknown = ran("ana@example.com", "ml.jobs.cancel", "--job", "nobodys")
    session.close()
    assert own.exit_code == 0, own.output
    assert "as     ml.jobOwner: started the job" in own.output
    assert unknown.exit_code == access.NO
    assert "who started nobodys is not on record with an e-mail" in unknown.output


def test_the_tables_are_printed_as_the_page_has_them() -> None:
    printed = CliRunner().invoke(cli, ["access", "table"], catch_exceptions=False)
    assert printed.output == access_table()
