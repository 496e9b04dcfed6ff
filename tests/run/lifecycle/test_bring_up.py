"""Bringing up is tried again where what failed may pass, and never where it stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.leftovers import Leftover
from encamp.errors import EncampError, EngineError
from encamp.retries import RetryPolicy
from encamp.run.engine.events import EventLog, Failure
from encamp.run.engine.run_errors import LockedError, RunError
from encamp.run.engine.unanswered import Unanswered, settle
from encamp.run.lifecycle.bring_up import BringUp

if TYPE_CHECKING:
    from collections.abc import Sequence

BUSY = "googleapi: Error 503: The service is currently unavailable., backendError"
LOST = "googleapi: Error 504: The request timed out; it may have been done., deadlineExceeded"
REFUSED = "googleapi: Error 403: The caller does not have permission., forbidden"
EXISTS = "googleapi: Error 409: Already exists: nodePools/p., alreadyExists"
POOL = Unanswered("gcp:container/nodePool:NodePool", "pool", "j-pool")
POLICY = RetryPolicy(attempts=5, first_pause=2.0, longest_pause=10.0, total=60.0)


def failed(*failures: tuple[str, str], unanswered: Sequence[Unanswered] = ()) -> RunError:
    events = EventLog(lambda _: None)
    events.failures += [Failure(name, message) for name, message in failures]
    events.unanswered += unanswered
    return RunError("; ".join(map(str, events.failures)), "s", events)


@dataclass
class FakePreparation:
    """Fails with these errors, in turn; its clock goes on by pauses and by ``takes`` for each attempt."""

    errors: list[EncampError]
    settling: list[EncampError] = field(default_factory=list)
    called: tuple[str, ...] = ()
    takes: float = 1.0
    ends_at: float | None = None
    locks: list[str] = field(default_factory=list)
    settled: list[tuple[Unanswered, ...]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    begun: int = 0
    now: float = 0.0

    def start(self) -> None:
        self.begun += 1
        self.now += self.takes
        if self.errors:
            raise self.errors.pop(0)

    def settle(self, creates: Sequence[Unanswered], lock: str) -> None:
        self.locks.append(lock)
        if self.settling:
            raise self.settling.pop(0)
        self.settled.append(tuple(creates))

    def made(self) -> tuple[str, ...]:
        return self.called

    def check(self) -> None:
        if self.ends_at is not None and self.now >= self.ends_at:
            raise EngineError("cancelled by the user")

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@dataclass
class Told:
    lines: list[str] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)

    def brings_up(self, preparation: FakePreparation) -> None:
        BringUp(preparation, self.lines.append, self.entries.append, POLICY, lambda: preparation.now).run()


def test_what_comes_up_is_not_tried_again() -> None:
    preparation, told = FakePreparation([]), Told()
    told.brings_up(preparation)
    assert (preparation.begun, preparation.settled, told.lines, told.entries) == (1, [], [], [])


def test_a_fault_that_passes_is_waited_for_and_told_and_put_on_record() -> None:
    preparation, told = FakePreparation([failed(("bucket", BUSY), ("", "update failed")) for _ in range(2)]), Told()
    told.brings_up(preparation)
    assert preparation.begun == 3
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(preparation.pauses, (2.0, 4.0), strict=True))
    assert [entry["attempt"] for entry in told.entries] == [1, 2]
    assert told.entries[0]["error"] == f"bucket: {BUSY}; update failed"
    assert "tried again in" in told.lines[0]
    assert "Error 503" in told.lines[0]


def test_an_engine_that_hung_and_stopped_when_asked_is_run_again() -> None:
    hung = failed(("", "timed out: the engine has said nothing for 60 s"), ("", "update canceled"))
    preparation = FakePreparation([hung])
    Told().brings_up(preparation)
    assert preparation.begun == 2


@pytest.mark.parametrize(
    "errors",
    [
        (failed(("bucket", REFUSED)),),
        (failed(("bucket", BUSY), ("pool", REFUSED)),),
        (failed(("pool", EXISTS)),),
        (failed(("", "update failed")),),
        (EngineError("the program is wrong"),),
    ],
)
def test_a_refusal_is_final_also_beside_what_may_pass(errors: tuple[EncampError, ...]) -> None:
    preparation, told = FakePreparation(list(errors)), Told()
    with pytest.raises(EncampError) as caught:
        told.brings_up(preparation)
    assert caught.value is errors[0]
    assert (preparation.begun, preparation.pauses) == (1, [])


def test_a_fault_that_stays_ends_with_the_last_error_and_names_the_first() -> None:
    errors = [failed(("bucket", LOST)), *(failed(("bucket", BUSY)) for _ in range(20))]
    preparation, told = FakePreparation([*errors]), Told()
    with pytest.raises(EngineError) as caught:
        told.brings_up(preparation)
    assert preparation.begun == POLICY.attempts
    assert "Error 503" in caught.value.what
    assert "attempt 5" in caught.value.what
    assert f"first: bucket: {LOST}" in caught.value.what


def test_no_attempt_begins_after_the_time_is_up_but_the_second_always_does() -> None:
    preparation, told = FakePreparation([failed(("bucket", BUSY)) for _ in range(9)], takes=100.0), Told()
    with pytest.raises(EngineError):
        told.brings_up(preparation)
    assert preparation.begun == 2


def test_what_had_no_answer_is_settled_before_the_next_attempt() -> None:
    preparation, told = FakePreparation([failed(("pool", LOST), unanswered=[POOL]), failed(("bucket", BUSY))]), Told()
    told.brings_up(preparation)
    assert preparation.settled == [(POOL,), (POOL,)]


def test_what_shows_up_late_is_settled_too_and_anybody_elses_is_not() -> None:
    lost = failed(("pool", LOST), unanswered=[POOL])
    preparation, told = FakePreparation([lost, failed(("pool", EXISTS), unanswered=[POOL])]), Told()
    told.brings_up(preparation)
    assert preparation.begun == 3
    preparation = FakePreparation([lost, failed(("other", EXISTS))])
    with pytest.raises(EngineError, match="Already exists"):
        told.brings_up(preparation)
    assert preparation.begun == 2


def test_what_was_just_made_may_not_be_seen_yet() -> None:
    message = "googleapi: Error 400: Service account j@p.iam.gserviceaccount.com does not exist., badRequest"
    preparation, told = FakePreparation([failed(("binding", message))], called=("j@p.iam.gserviceaccount.com",)), Told()
    told.brings_up(preparation)
    assert preparation.begun == 2
    with pytest.raises(EngineError, match="does not exist"):
        told.brings_up(FakePreparation([failed(("binding", message))]))


def test_a_lock_and_an_engine_that_was_killed_are_waited_for() -> None:
    preparation, told = (
        FakePreparation([EngineError("the engine was killed (SIGKILL)"), LockedError("s", "locked by pid 1")]),
        Told(),
    )
    told.brings_up(preparation)
    assert (preparation.begun, preparation.locks) == (3, ["", "locked by pid 1"])


def test_settling_may_fail_for_a_moment_too() -> None:
    preparation = FakePreparation(
        [failed(("pool", LOST), unanswered=[POOL])], [EngineError("the API server gives no answer: 503")]
    )
    told = Told()
    told.brings_up(preparation)
    assert (preparation.begun, preparation.settled) == (2, [(POOL,)])


@pytest.mark.parametrize("ends_at", [0.5, 2.0])
def test_a_cancel_ends_it_at_once(ends_at: float) -> None:
    preparation, told = FakePreparation([failed(("bucket", BUSY)) for _ in range(9)], ends_at=ends_at), Told()
    with pytest.raises(EngineError, match="cancelled by the user"):
        told.brings_up(preparation)
    assert preparation.begun == 1


@pytest.mark.parametrize(
    ("type_", "name", "kind", "listed"),
    [
        ("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", "j-1", "jobset", "encamp-jobs/j-1"),
        ("kubernetes:core/v1:ServiceAccount", "j-1", "serviceaccount", "encamp-jobs/j-1"),
        ("kubernetes:networking.k8s.io/v1:NetworkPolicy", "j-1", "networkpolicy", "encamp-jobs/j-1"),
        ("gcp:serviceaccount/account:Account", "j-1", "service account", "j-1@p.iam.gserviceaccount.com"),
        ("gcp:container/nodePool:NodePool", "j-1-n1", "node pool", "c/nodePools/j-1-n1"),
        ("gcp:storage/bucket:Bucket", "j-1-scratch", "bucket", "gs://j-1-scratch"),
    ],
)
def test_of_things_with_one_name_only_the_kind_that_had_no_answer_is_deleted(
    type_: str, name: str, kind: str, listed: str
) -> None:
    deleted: list[str] = []
    found = [
        *(Leftover(one, "encamp-jobs/j-1", lambda: None) for one in ("jobset", "serviceaccount", "networkpolicy")),
        Leftover("service account", "j-1@p.iam.gserviceaccount.com", lambda: None),
        Leftover("binding", "p roles/logging.logWriter ns/encamp-jobs/sa/j-1", lambda: None),
        Leftover("node pool", "c/nodePools/j-1-n1", lambda: None),
        Leftover("bucket", "gs://j-1-scratch", lambda: None),
    ]
    create = Unanswered(type_, "thing", name)
    unseen = settle([create], known=(), found=found, show=lambda _: None, delete=lambda one: deleted.append(str(one)))
    assert (unseen, deleted) == ([], [f"{kind} {listed}"])
