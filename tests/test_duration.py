"""Durations: read from the texts of job files and requests, written for them, and told to people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.duration import Duration, duration_hint, seconds_of


@pytest.mark.parametrize(
    ("text", "nanoseconds", "seconds"),
    [
        ("0s", 0, 0),
        ("3600s", 3600 * 10**9, 3600),
        ("0.5s", 5 * 10**8, 1),
        ("7200.5s", 7_200_500_000_000, 7201),
        ("1800.000000001s", 1_800_000_000_001, 1801),
        ("315576000000s", 315_576_000_000 * 10**9, 315_576_000_000),
    ],
)
def test_a_text_is_exact_and_comes_back_as_it_was(text: str, nanoseconds: int, seconds: int) -> None:
    found = Duration.parse(text)
    assert (found.nanoseconds, found.seconds, str(found)) == (nanoseconds, seconds, text)


@pytest.mark.parametrize(
    "text", ["", "s", "1", "1h", "-1s", "+1s", ".5s", "1.s", "1.0000000001s", "1e3s", "1s\n", "\u0661s"]
)
def test_another_form_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be seconds"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["315576000000.000000001s", "315576000001s", f"{'9' * 5000}s"])
def test_longer_than_the_protocol_has_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be at most 315576000000s"):
        Duration.parse(text)


@given(st.integers(min_value=0, max_value=Duration.LONGEST_SECONDS * 10**9))
def test_every_duration_is_read_back(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == Duration(nanoseconds)


def test_durations_are_ordered_by_length_not_by_text() -> None:
    assert Duration.parse("900s") < Duration.parse("1800s") < Duration.parse("1800.5s")
    assert Duration.of(0.25) == Duration.parse("0.250s")


def test_a_missing_duration_has_no_seconds() -> None:
    assert (seconds_of(None), seconds_of(Duration.of(60))) == (None, 60)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45, "45 s"), (90, "1 min 30 s"), (3600, "1 h"), (5400, "1 h 30 min"), (619_200, "7 d 4 h")],
)
def test_people_are_told_two_units(seconds: int, text: str) -> None:
    assert Duration.of(seconds).words == text


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3600, 'write "3600s": seconds with an s'),
        ("3600", 'write "3600s": seconds with an s'),
        ("1h", 'write seconds with an s, such as "3600s"'),
        (True, 'write seconds with an s, such as "3600s"'),
    ],
)
def test_what_to_write_instead(value: object, hint: str) -> None:
    assert duration_hint(value) == hint
