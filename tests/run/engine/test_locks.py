from __future__ import annotations

import pytest

from encamp.run.engine.locks import BY_HAND_SECONDS, GRACE_SECONDS, Fence, Held, Lock, Verdict, may_clear, read_lock

NOW = 1_000_000.0
#: The lease of a driver on ``far`` ran out so that its grace is over by a second.
OVER = Held("far", "boot-2", NOW - GRACE_SECONDS - 1)
YOUNG = Held("far", "boot-2", NOW - GRACE_SECONDS + 1)
BACK = Held("far", "boot-2", 0.0)
HERE = Fence("here", "boot-1")


def fence(*before: Held) -> Fence:
    return Fence("here", "boot-1", before)


def test_the_engines_words_are_read() -> None:
    said = "error: locked by 1 lock(s).\n  file:///x: created by ada@far (pid 12) at 2026-01-01T00:00:00Z\n"
    assert read_lock(said) == Lock("far", 12, 1767225600.0)
    assert read_lock("created by root@far (pid 1)") == Lock("far", 1, None)
    assert read_lock("created by root@far (pid 1) at 2026-99-99") == Lock("far", 1, None)
    assert read_lock("the stack is busy") is None


@pytest.mark.parametrize(
    ("lock", "shown", "verdict"),
    [
        (Lock("here", 1, NOW), HERE, Verdict.BY_PROCESS),
        (Lock("here", 1, None), HERE, Verdict.BY_PROCESS),
        # A pod beside ours may have the same host name, and processes of its own.
        (Lock("here", 1, NOW), fence(Held("here", "boot-1/other", NOW - 60)), Verdict.KEEP),
        (Lock("here", 1, NOW - 9000), fence(Held("here", "boot-1/other", NOW - 8000)), Verdict.CLEAR),
        (Lock("far", 1, OVER.expired - 60), fence(OVER), Verdict.CLEAR),
        (Lock("far", 1, YOUNG.expired - 60), fence(YOUNG), Verdict.KEEP),
        (Lock("far", 1, OVER.expired - 60), fence(OVER, YOUNG), Verdict.KEEP),
        # Younger than the lease's end: not that driver's.
        (Lock("far", 1, OVER.expired + 60), fence(OVER), Verdict.KEEP),
        (Lock("far", 1, None), fence(OVER), Verdict.KEEP),
        # A lease that was given back was given back after its engine had ended.
        (Lock("far", 1, NOW - 60), fence(BACK), Verdict.CLEAR),
        # Somebody by hand.
        (Lock("far", 1, NOW - BY_HAND_SECONDS + 1), HERE, Verdict.KEEP),
        (Lock("far", 1, NOW - BY_HAND_SECONDS - 1), HERE, Verdict.CLEAR),
        (Lock("other", 1, NOW - 60), fence(OVER), Verdict.KEEP),
    ],
)
def test_a_lock_goes_only_when_its_engine_must_have_ended(lock: Lock, shown: Fence, verdict: Verdict) -> None:
    assert may_clear(lock, shown, NOW) is verdict
