"""Which jobs a filter lets through, and what is said of one that cannot be read."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.api.errors import ApiError
from encamp.api.filters import parse_filter

JOB: dict[str, Any] = {
    "jobId": "rnn_7",
    "state": "FAILED",
    "labels": {"team": "vision", "cost.center": "a-1"},
    "createTime": "2022-03-04T05:06:07.890Z",
    "endTime": "2022-03-04T06:00:00.000Z",
    "errorMessage": "The replica master 0 exited with a non-zero status of 1.",
    "trainingInput": {
        "region": "us-central1",
        "workerCount": "3",
        "args": ["--epochs", "3"],
        "scheduling": {"priority": 5},
        "enableWebAccess": False,
    },
    "trainingOutput": {"completedTrialCount": "12"},
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "jobId:rnn* AND state:FAILED",
        "jobId:rnn* state:FAILED",
        "jobId=rnn_7",
        'jobId="rnn_7"',
        "jobId:'nn_'",
        "jobId:NN",
        "job_id:*_7",
        "jobId:r*_*7",
        "jobId!=other",
        "state=failed",
        "state!=RUNNING",
        "state:RUNNING OR state:FAILED",
        "state=SUCCEEDED OR state=FAILED jobId:rnn*",
        "(state=SUCCEEDED AND jobId:x) OR jobId:rnn*",
        "NOT state:RUNNING",
        "-state:RUNNING",
        "NOT NOT state:FAILED",
        "NOT (state:RUNNING OR labels.team:sound)",
        "labels.team=vision",
        "labels.team:vis",
        "labels.team:*",
        "labels:team",
        "labels:te*",
        "labels.cost.center=a-1",
        "NOT labels.owner:*",
        "createTime>2022-03-04T05:06:07Z",
        "createTime >= 2022-03-04",
        'createTime<"2022-03-04T07:06:07.9+02:00"',
        "createTime<2022-03-04T06:06:07+01:00 OR endTime>2022-03-04",
        "endTime:*",
        "NOT startTime:*",
        "trainingInput.region:us-*",
        "trainingInput.workerCount>2",
        "training_input.worker_count>=3",
        "trainingInput.args:--epochs",
        "trainingInput.scheduling.priority=5",
        "trainingInput.enableWebAccess=false",
        "trainingOutput.completedTrialCount<100",
        "NOT jobPosition>0",
        "errorMessage:master",
        "errorMessage:'status of 1.'",
    ],
)
def test_lets_through(text: str) -> None:
    assert parse_filter(text)(JOB)


@pytest.mark.parametrize(
    "text",
    [
        "jobId:cnn* AND state:FAILED",
        "jobId=rnn",
        "jobId:*7*x",
        "jobId:rnn_7*7",
        "state:RUNNING",
        "NOT state:FAILED",
        "state=SUCCEEDED OR state=RUNNING jobId:rnn*",
        "labels.owner=ana",
        "labels.owner!=ana",
        "labels:owner",
        "startTime>2000-01-01",
        "createTime>2022-03-05",
        "createTime!=2022-03-04T05:06:07.890Z",
        "trainingInput.workerCount>10",
        "trainingInput.workerCount>abc",
        "trainingInput.nothing.here:*",
        "jobPosition>=0",
        "trainingInput:us-central1",
    ],
)
def test_keeps_back(text: str) -> None:
    assert not parse_filter(text)(JOB)


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("jobId", 6, "after 'jobId' one of"),
        ("jobId:", 7, "a value is expected after :"),
        ("jobId:a AND", 12, "a field is expected"),
        ("AND jobId:a", 1, "a field is expected"),
        ("jobId:a OR", 11, "a field is expected"),
        ("(jobId:a", 9, "a parenthesis is not closed"),
        ("jobId:a)", 8, "')' is not expected here"),
        ('state:FAILED jobId:"a b', 20, "a quote is not closed"),
        ("state:RUNNNG", 1, "'RUNNNG' is no state; known: QUEUED,"),
        ("jobId:a state>FAILED", 9, "states have no order"),
        ("jobid=a", 1, "'jobid' is no field of a job; write jobId"),
        ("colour=red", 1, "'colour' is no field of a job; known: createTime,"),
        ("trainingInput..x=1", 1, "'trainingInput..x' is no field"),
        ("createTime>yesterday", 1, "'yesterday' is no time"),
        ("createTime>2022-03-04T05:06:07", 1, "is no time"),
        ("labels=team", 1, "write labels.KEY=VALUE"),
        ("jobId ! a", 7, "'!' cannot stand here"),
        ("(" * 21 + "jobId:a" + ")" * 21, 21, "more than 20 parentheses"),
        ("NOT " * 21 + "jobId:a", 81, "more than 20 parentheses or negations"),
        ("jobId:" + "a" * 2000, 2000, "it has 2006 characters, more than 2000"),
    ],
)
def test_says_where_it_cannot_be_read(text: str, at: int, said: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_filter(text)

    assert (caught.value.status, caught.value.code) == ("INVALID_ARGUMENT", 400)
    assert caught.value.message.startswith(f"Field: filter Error: the filter cannot be read at character {at}: ")
    assert said in caught.value.message
    (violation,) = caught.value.details[0]["fieldViolations"]
    assert violation["field"] == "filter"


_WORDS = ["jobId", "labels.a", "state", "createTime", "AND", "OR", "NOT", "-", "(", ")", ":", "=", "!=", "<", ">="]
_WORDS += ["FAILED", "a*b", '"q', '"q w"', "2022-01-01", "5", "trainingInput.x.y", " ", ".", "\\", "\n", "é", "\ud800"]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(_WORDS), max_size=12).map("".join) | st.text(max_size=60))
def test_is_read_or_refused_whatever_it_is(text: str) -> None:
    with contextlib.suppress(ApiError):
        matches = parse_filter(text)
        assert {matches(JOB), matches({})} <= {True, False}


def test_many_stars_cost_no_more_than_their_number() -> None:
    matches = parse_filter(f"jobId:{'a*' * 900}b")
    job = {"jobId": "a" * 100_000}

    # One that tries every way would not end.
    assert not matches(job)
