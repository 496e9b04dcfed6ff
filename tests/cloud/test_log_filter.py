from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.cloud.log_filter import DEEPEST, FIRST, LAST, LONGEST, FilterError, instant, matcher, parsed

ENTRY: dict[str, Any] = {
    "timestamp": "2026-01-01T00:00:00.5Z",
    "insertId": "master-replica-0-000000000000042",
    "severity": "ERROR",
    "resource": {"type": "ml_job", "labels": {"job_id": "J"}},
    "labels": {"compute.googleapis.com/name": "n"},
}
#: What gcloud 528 asks for at first, and once two entries had one time.
GCLOUD = (
    '(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="J" AND '
    '(resource.labels.task_name="T" OR labels.task_name="T") AND timestamp>="1970-01-01T01:00:00.000000000Z" AND '
    'timestamp<"2026-01-01T00:00:10.123456Z"'
)
GCLOUD_AGAIN = (
    '(resource.type="ml_job" OR resource.type="cloudml_job") AND resource.labels.job_id="J" AND '
    '((timestamp="2026-01-01T00:00:00.500000Z" AND insertId>"master-replica-0-000000000000041") OR '
    'timestamp>"2026-01-01T00:00:00.500000Z") AND timestamp<"2026-01-01T00:00:10.123456+00:00"'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ('resource.type="ml_job" AND resource.labels.job_id="J"', True),
        ('(resource.type="a" OR resource.type="ml_job") AND timestamp>="2026-01-01T00:00:00.400000000Z"', True),
        ('timestamp>"2026-01-01T00:00:00.500000000Z"', False),
        ('timestamp="2026-01-01T01:00:00.5+01:00"', True),
        ('timestamp>="2026-01-01"', True),
        ("severity>=WARNING", True),
        ("severity>=CRITICAL", False),
        ('labels."compute.googleapis.com/name"="n"', True),
        ('NOT resource.type="ml_job"', False),
        ('resource.labels.other!="x" resource.type:ml', True),
        # OR binds closer than AND.
        ('resource.type="ml_job" AND severity="INFO" OR severity="ERROR"', True),
        ('severity="ERROR" OR severity="INFO" AND resource.type="a"', False),
        ('severity="ERROR" OR severity="INFO" resource.type="a"', False),
        ('resource.type="a" OR NOT severity="INFO" AND NOT severity="INFO" OR resource.type="a"', True),
        ('-resource.type="ml_job"', False),
        ('- NOT resource.type="ml_job"', True),
        (GCLOUD, False),
        (GCLOUD_AGAIN, True),
        (GCLOUD_AGAIN.replace("000041", "000042"), False),
    ],
)
def test_what_matches(text: str, expected: bool) -> None:
    assert matcher(text)(ENTRY) is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "ends too early"),
        ("a", "ends too early"),
        ('a="b" OR', "ends too early"),
        ('(a="b"', "ends too early"),
        ('(a="b" c="d" e', "ends too early"),
        ('a="b")', "unexpected )"),
        ('a "b"', "needs a comparison"),
        ('textPayload=~"x+"', "regular expressions"),
        ('timestamp>"yesterday"', "no RFC 3339 time"),
        ('timestamp>"2026-13-01T00:00:00Z"', "no time"),
        ('timestamp>"9999-12-31T23:59:59-23:59"', "no time"),
        ("(" * (DEEPEST + 1) + 'a="b"' + ")" * (DEEPEST + 1), "nests deeper"),
        ("NOT " * (DEEPEST + 1) + 'a="b"', "nests deeper"),
        ("a" * (LONGEST + 1), "longer than"),
        ('a="unclosed', "unexpected text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(FilterError, match="Unparseable filter") as refused:
        parsed(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "jobs", "span"),
    [
        ("", None, (FIRST, LAST)),
        (GCLOUD, {"J"}, ("1970-01-01T01:00:00.000000000", "2026-01-01T00:00:10.123456000")),
        (GCLOUD_AGAIN, {"J"}, ("2026-01-01T00:00:00.500000000", "2026-01-01T00:00:10.123456000")),
        ('resource.labels.job_id="J" OR resource.labels.job_id="K"', {"J", "K"}, (FIRST, LAST)),
        ('resource.labels.job_id="J" OR severity="INFO"', None, (FIRST, LAST)),
        ('resource.labels.job_id="J" resource.labels.job_id="K"', set(), (FIRST, LAST)),
        ('NOT resource.labels.job_id="J" AND NOT timestamp<"2026-01-01T00:00:00Z"', None, (FIRST, LAST)),
        ('resource.labels.job_id:"J" timestamp!="2026-01-01T00:00:00Z"', None, (FIRST, LAST)),
        (
            'timestamp="2026-01-01T00:00:00Z"',
            None,
            ("2026-01-01T00:00:00.000000000", "2026-01-01T00:00:00.000000000"),
        ),
    ],
)
def test_what_an_entry_that_matches_must_have(text: str, jobs: set[str] | None, span: tuple[str, str]) -> None:
    found = parsed(text)
    assert found.texts("resource.labels.job_id") == (None if jobs is None else frozenset(jobs))
    assert found.span() == span


_WORDS = ["a", "labels", ".", "severity", "ERROR", "timestamp", '"x"', '"u', "=", "!=", ":", ">=", "=~", "(", ")"]
_WORDS += ["AND", "OR", "NOT", "-", " ", "\\", "\n", "é", "\ud800", 'a="x"', ' timestamp>"2026-01-01" ']


@settings(max_examples=40)
@given(st.lists(st.sampled_from(_WORDS), max_size=12).map("".join) | st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(FilterError):
        assert matcher(text)(ENTRY) in {True, False}


def test_the_longest_filter_is_read() -> None:
    text = " OR ".join(['a="b"'] * (LONGEST // 9))
    assert matcher(text)({"a": "b"})


def test_times_of_any_precision_and_zone_are_compared_as_texts() -> None:
    assert instant("2026-01-01T00:00:00Z") == "2026-01-01T00:00:00.000000000"
    assert instant("2026-01-01t02:00:00.123456789+02:00") == "2026-01-01T00:00:00.123456789"
