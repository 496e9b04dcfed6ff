from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from encamp.retries import PATIENT, SHORT, RetryPolicy, TransientError, retry_after, with_retries

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY = RetryPolicy(attempts=4, first_pause=1.0, longest_pause=3.0)


def failing(times: int, wanted: float | None = None) -> Callable[[], str]:
    left = iter(range(times))

    def work() -> str:
        for number in left:
            raise TransientError(OSError(f"error {number + 1}"), wanted)
        return "done"

    return work


def test_pauses_grow_to_a_bound_and_each_is_told_with_its_error() -> None:
    pauses: list[float] = []
    told: list[tuple[int, float, str]] = []

    def note(attempt: int, pause: float, error: Exception) -> None:
        told.append((attempt, pause, str(error)))

    answer = with_retries(failing(3), POLICY, sleep=pauses.append, told=note)
    assert answer == "done"
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, (1.0, 2.0, 3.0), strict=True))
    assert told == [(number, pause, f"error {number}") for number, pause in enumerate(pauses, 1)]


def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    with pytest.raises(OSError, match="error 4"):
        with_retries(failing(9), POLICY, sleep=lambda _: None)


def test_no_attempt_begins_after_the_total() -> None:
    pauses: list[float] = []
    policy = RetryPolicy(attempts=50, first_pause=0.02, longest_pause=0.05, total=0.2)
    with pytest.raises(OSError, match="error"):
        with_retries(failing(99), policy, sleep=lambda pause: (pauses.append(pause), time.sleep(pause)))  # type: ignore[func-returns-value]
    assert 3 <= len(pauses) < 20
    assert sum(pauses) <= 0.2


def test_any_other_error_ends_the_retries_at_once() -> None:
    def work() -> None:
        raise ValueError("final")

    with pytest.raises(ValueError, match="final"):
        with_retries(work, POLICY, sleep=lambda _: pytest.fail("it was tried again"))


def test_what_ends_a_pause_ends_the_retries() -> None:
    def cancelled(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_retries(failing(2), POLICY, sleep=cancelled)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0.5", 0.5), ("-1", 0.0), (None, None), ("Wed, 1", None)])
def test_what_a_server_asks_to_wait(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


def test_a_server_is_followed_up_to_the_longest_pause() -> None:
    assert POLICY.pause(1, 2.5) == 2.5
    assert POLICY.pause(1, 600) == 3.0


def test_fewer_attempts_are_never_more() -> None:
    assert (SHORT.at_most(2).attempts, PATIENT.at_most(None), SHORT.at_most(99)) == (2, PATIENT, SHORT)
