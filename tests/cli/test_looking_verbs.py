"""``encamp list``, ``describe``, ``logs`` and ``receipts`` as a user calls them, over a cloud of loopback fakes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.ended_job import BUCKET, store_ended_job

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

LOG = b"step 1\n\x1b[31mred\nlast without an end"


@pytest.fixture
def ended(google: Any) -> str:
    """A job that another machine ran to its end."""
    receipt = {
        "nodeSeconds": {"n1-standard-4": 90.0, "ct9": 3.0},
        "cost": {"currency": "USD", "amount": 0.25, "unpriced": ["ct9"]},
    }
    return store_ended_job(google, LOG, "it said: \x1b[2J", receipt)


def test_an_environment_without_jobs_says_so(encamp: Callable[..., Result]) -> None:
    assert encamp("list").output == "no job\n"
    assert json.loads(encamp("list", "--format", "json").output) == []
    assert "jobs         none" in encamp("receipts").output


def test_a_list_is_a_table_and_can_be_asked_for_a_state(encamp: Callable[..., Result], ended: str) -> None:
    heading, line = encamp("list", "--state", "failed").output.splitlines()
    assert heading.split() == ["JOB", "STATE", "CREATED", "RUNNING", "TIME", "COST", "DRIVER"]
    assert line.split() == [ended, "FAILED", "2026-05-02", "10:00:00", "90", "s", "0.2500", "USD", "-"]
    assert encamp("list", "--state", "RUNNING").output == "no job\n"
    (found,) = json.loads(encamp("list", "--format", "json").output)
    assert (found["jobId"], found["runningSeconds"], found["costUsd"]) == (ended, 90.0, 0.25)


def test_a_description_is_the_same_in_yaml_and_json(encamp: Callable[..., Result], ended: str) -> None:
    text = encamp("describe", ended).output
    found = json.loads(encamp("describe", ended, "--format", "json").output)
    assert yaml.safe_load(text) == found
    assert "\x1b" not in text
    assert (found["state"], found["endTime"]) == ("FAILED", "2026-05-02T10:02:30.000Z")
    assert found["encamp"]["replicas"][0]["exitCode"] == 3


def test_logs_have_their_replicas_names_and_what_is_missing_is_said_apart(
    encamp: Callable[..., Result], ended: str
) -> None:
    run = encamp("logs", ended)
    assert run.stdout.splitlines() == [
        "master-replica-0 | step 1",
        "master-replica-0 | \\x1b[31mred",
        "master-replica-0 | last without an end",
    ]
    assert "not whole: the pod is gone" in run.stderr
    assert encamp("logs", ended, "--replica", "master-replica-0").stdout_bytes == LOG


def test_receipts_of_a_span_are_added_up(encamp: Callable[..., Result], ended: str) -> None:
    text = encamp("receipts", "--since", "2026-05-01").output
    for words in (ended, "1 FAILED", " s of n1-standard-4", "about 0.2500 USD", "no price of  ct9: its 3.000 s"):
        assert words in text
    found = json.loads(encamp("receipts", "--format", "json").output)
    assert (found["receipts"][0]["jobId"], found["sum"]["jobs"]) == (ended, {"FAILED": 1})
    for span in (("--since", "2026-05-03"), ("--until", "2026-05-02"), ("--until", "2026-05-02T10:02:30Z")):
        assert json.loads(encamp("receipts", *span, "--format", "json").output)["receipts"] == []


@pytest.mark.parametrize("verb", ["describe", "logs"])
def test_an_unknown_job_is_refused_with_the_nearest_id(encamp: Callable[..., Result], ended: str, verb: str) -> None:
    error = encamp(verb, f"{ended}0").exception
    assert isinstance(error, UsageError)
    assert error.hint == f"did you mean {ended}?"


def test_a_part_of_a_log_has_times_and_steers_no_terminal(
    encamp: Callable[..., Result], ended: str, google: Any
) -> None:
    times = '{"at": "2026-05-02T10:01:00.500000Z", "ends": {"master-replica-0": 7}}\n'
    google.objects[BUCKET, f"jobs/{ended}/logs/times.jsonl"] = times.encode()
    tail = encamp("logs", ended, "--tail", "2")
    assert tail.stdout == "master-replica-0 | \\x1b[31mred\nmaster-replica-0 | last without an end\n"
    assert "its log is not whole: the pod is gone" in tail.stderr
    assert encamp("logs", ended, "--timestamps", "--replica", "master-replica-0").stdout.splitlines() == [
        "2026-05-02T10:01:00.500Z step 1",
        "2026-05-02T10:02:30.000Z \\x1b[31mred",
        "2026-05-02T10:02:30.000Z last without an end",
    ]
    assert "step 1" in encamp("logs", ended, "--since", "2026-05-02T10:01:00Z").stdout
    assert "step 1" not in encamp("logs", ended, "--since", "2026-05-02T10:02:00Z").stdout
    assert encamp("logs", ended, "--since", "1h").stdout == ""
    assert encamp("logs", ended, "--tail", "0", "--follow").stdout == ""


def test_a_wrong_part_is_refused(encamp: Callable[..., Result], ended: str) -> None:
    error = encamp("logs", ended, "--since", "yesterday").exception
    assert isinstance(error, UsageError)
    assert "such as 30s, 10m" in str(error)
    error = encamp("logs", ended, "--tail", "1", "--replica", "worker").exception
    assert isinstance(error, UsageError)
    assert error.where == "worker"
