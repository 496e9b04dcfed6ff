"""Jobs that were handed in: on record once, begun once, and nothing of them readable that should not be."""

from __future__ import annotations

import json
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from encamp.errors import UsageError
from encamp.run.store import encryption, holder
from encamp.run.store.encryption import Cipher, DecryptionError
from encamp.run.store.records import ChangedError, Records
from encamp.run.store.states import State
from encamp.run.store.submissions import Again, AlreadyUsedError, Submission, Submissions
from encamp.run.store.tables import SUBMISSIONS, open_database

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sqlalchemy import Engine
    from tests.run.clock import Clock

    from encamp.run.store.journal import RunRecord

pytestmark = pytest.mark.slow

CANARY = "canary-4f1c9a7e"
JOB = {
    "jobId": "rnn",
    "trainingInput": {
        "region": "us-central1",
        "args": ["--key", CANARY],
        "packageUris": [f"https://storage.googleapis.com/b/p.whl?X-Goog-Signature={CANARY}"],
    },
}


@pytest.fixture
def submissions(records: Records) -> Submissions:
    return Submissions(records, Cipher(Fernet.generate_key()))


def handed(job_id: str = "rnn", **other: Any) -> Submission:
    made = Submission(job_id, f"{job_id}-1234", "e", {**JOB, "jobId": job_id}, "ana@example.com")
    return replace(made, **other)


def known(records: Records, job_id: str = "rnn") -> RunRecord:
    record = records.record(job_id)
    assert record is not None
    return record


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What ``work`` gives in so many threads that begin at once."""
    gate = threading.Barrier(count)

    def run(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_a_job_that_was_handed_in_waits_and_is_begun_by_who_asks_for_it_as_such(
    records: Records, submissions: Submissions, clock: Clock
) -> None:
    record = submissions.submit(handed(priority=3))
    assert (record.waiting, record.state, record.environment, record.intent) == (True, State.QUEUED, "e", None)
    assert record.submitted is not None
    assert (record.submitted.by, record.submitted.priority) == ("ana@example.com", 3)
    with pytest.raises(UsageError, match="was submitted and waits"):
        records.begin("rnn", "rnn-1234", {"environment": "e"})
    clock.now += 9
    lease = records.begin("rnn", "rnn-1234", {"environment": "e"}, submitted=True)
    record = known(records)
    assert (record.waiting, record.intent) == (False, {"environment": "e"})
    assert (record.times[State.QUEUED] - record.created).total_seconds() == 0
    with pytest.raises(UsageError, match="is running"):
        records.begin("rnn", "rnn-1234", {}, submitted=True)
    assert not submissions.cancel("rnn", "bob")
    assert not submissions.fail("rnn", "why")
    assert [one.begun for one in submissions.open("e")] == [clock.now]
    records.append(lease, "gone", {})
    assert submissions.open("e") == []


def test_nobody_begins_what_was_not_handed_in(records: Records, submissions: Submissions) -> None:
    with pytest.raises(UsageError):
        records.begin("rnn", "rnn-1234", {}, submitted=True)
    records.release(records.begin("run", "run-1", {}))
    with pytest.raises(UsageError, match="its driver is gone"):
        records.begin("run", "run-1", {}, submitted=True)
    assert not submissions.cancel("run", "ana")
    with pytest.raises(AlreadyUsedError) as refused:
        submissions.submit(handed("run"))
    assert refused.value.again is Again.OTHER


def test_the_next_is_the_most_important_then_the_oldest(submissions: Submissions, clock: Clock) -> None:
    for name, priority in {"a": 0, "b": 5, "c": 0, "d": 5}.items():
        submissions.submit(handed(name, priority=priority))
        clock.now += 1
    submissions.submit(handed("far", environment="other", priority=1000))
    assert submissions.positions("e") == {"b": 1, "d": 2, "a": 3, "c": 4}
    taken = [submissions.claim("e", besides=("d",)), submissions.claim("e", besides=("d",))]
    assert [one.job_id for one in taken if one is not None] == ["b", "a"]
    assert [submissions.position(name) for name in "abcd"] == [0, 0, 2, 1]
    assert [one.job_id for one in submissions.waiting("other")] == ["far"]


def test_a_claim_that_came_to_nothing_is_taken_back_once_and_waits_a_while(
    records: Records, submissions: Submissions, clock: Clock
) -> None:
    submissions.submit(handed())
    first = submissions.claim("e")
    assert first is not None
    assert submissions.claim("e") is None
    assert submissions.check_in("rnn")
    submissions.note_trouble("rnn", f"no cloud at https://x/?sig={CANARY}")
    clock.now += 1
    assert submissions.take_back(first, pause=5)
    assert not submissions.take_back(first, pause=5)
    assert submissions.claim("e") is None
    clock.now += 5
    again = submissions.claim("e")
    assert again is not None
    assert (again.tries, again.trouble, again.driver) == (1, "no cloud at https://x/?sig=[secret]", None)
    assert not submissions.take_back(first)
    records.begin("rnn", "rnn-1234", {}, submitted=True)
    assert not submissions.take_back(again)
    assert not submissions.check_in("rnn")


def test_what_waits_too_long_is_cancelled_and_not_begun(
    records: Records, submissions: Submissions, clock: Clock
) -> None:
    submissions.submit(handed("late", wait_seconds=1800))
    submissions.submit(handed("patient"))
    submissions.submit(handed("runs", wait_seconds=1800))
    records.begin("runs", "runs-1234", {}, submitted=True)
    assert submissions.expire("e") == []
    clock.now += 1800
    assert [one.job_id for one in [submissions.claim("e")] if one is not None] == ["patient"]
    assert submissions.expire("e") == ["late"]
    record = known(records, "late")
    assert (record.state, record.torn_down, record.cancel) == (State.CANCELLED, True, None)
    assert record.outcome is not None
    assert record.outcome.message.startswith("maxWaitTime is over")
    assert [str(state) for state in record.times] == ["QUEUED", "CANCELLING", "CANCELLED"]
    assert known(records, "runs").state is State.QUEUED


def test_who_cancels_a_job_that_waits_is_on_record_and_it_is_never_begun(
    records: Records, submissions: Submissions
) -> None:
    submissions.submit(handed())
    assert submissions.cancel("rnn", "bob")
    assert not submissions.cancel("rnn", "eve")
    record = known(records)
    assert record.cancel is not None
    assert (record.cancel.by, record.state, record.waiting) == ("bob", State.CANCELLED, False)
    with pytest.raises(UsageError, match="has ended: CANCELLED"):
        records.begin("rnn", "rnn-1234", {}, submitted=True)
    assert not submissions.check_in("rnn")


@pytest.mark.parametrize("bodies", [1, 50])
def test_of_many_that_hand_in_one_id_at_once_one_has_it(
    records: Records, submissions: Submissions, bodies: int
) -> None:
    def submit(number: int) -> Again | None:
        try:
            submissions.submit(handed(job={**JOB, "labels": {"n": str(number % bodies)}}))
        except AlreadyUsedError as error:
            return error.again
        submissions.acknowledge("rnn")
        return None

    said = together(50, submit)
    assert sorted(said, key=str) == [Again.OTHER] * 49 + [None]
    assert [entry.kind for entry in known(records).entries] == ["submitted", "state"]
    assert len(submissions.open("e")) == 1


def test_one_that_was_written_twice_because_a_connection_broke_is_one(
    records: Records, submissions: Submissions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server had done the transaction, and could not say so: it is done again, and finds itself."""
    write = records.transactions.write

    def twice(work: Callable[[Any], Any]) -> Any:
        write(work)
        return write(work)

    monkeypatch.setattr(records.transactions, "write", twice)
    assert submissions.submit(handed()) == known(records)
    monkeypatch.setattr(records.transactions, "write", write)
    with pytest.raises(AlreadyUsedError):
        submissions.submit(handed())


@pytest.mark.parametrize("round_", range(3))
def test_of_beginning_cancelling_and_failing_at_once_one_happens(
    records: Records, submissions: Submissions, round_: int
) -> None:
    del round_
    submissions.submit(handed())

    def decide(number: int) -> str | None:
        if number % 3 == 0:
            return "cancel" if submissions.cancel("rnn", f"{number}") else None
        if number % 3 == 1:
            return "fail" if submissions.fail("rnn", "why") else None
        try:
            records.begin("rnn", "rnn-1234", {"environment": "e"}, submitted=True)
        except UsageError:
            return None
        return "begin"

    (done,) = [one for one in together(12, decide) if one is not None]
    kinds = [entry.kind for entry in known(records).entries]
    ends = {
        "begin": ["intent"],
        "cancel": ["cancel", "state", "outcome", "state", "gone"],
        "fail": ["outcome", "state", "gone"],
    }
    assert kinds == ["submitted", "state", *ends[done]]


def test_what_many_claim_at_once_is_each_ones_own(submissions: Submissions) -> None:
    for number in range(6):
        submissions.submit(handed(f"job_{number}"))
    claimed = [one.job_id for one in together(10, lambda _: submissions.claim("e")) if one is not None]
    # Who finds every free one locked by others goes without; nobody has one twice.
    assert len(claimed) == len(set(claimed))
    while (one := submissions.claim("e")) is not None:
        claimed.append(one.job_id)
    assert sorted(claimed) == [f"job_{number}" for number in range(6)]


GONE_SERVER = {"pid": 2**22 + 1, "started": 1.0}
FAR_SERVER = {"place": "elsewhere", "host": "far"}


@dataclass(frozen=True)
class Create:
    """A create that comes ``after`` seconds, of which it was here for some; whether the first was answered."""

    answered: bool | None
    after: float
    again: Again
    server: dict[str, Any] = field(default_factory=dict)
    here_for: float = 0.0
    other: dict[str, Any] = field(default_factory=dict)


CREATES = {
    "the answer is on its way": Create(None, 1.0, Again.OTHER),
    "the answer was just sent": Create(True, 0.2, Again.OTHER),
    "it was here before the answer": Create(True, 3.0, Again.OTHER, here_for=2.9),
    "the server died": Create(None, 1.0, Again.SAME, server=GONE_SERVER),
    "the server said 5xx": Create(False, 0.0, Again.SAME),
    "the answer was lost": Create(True, 20.0, Again.SAME, here_for=0.1),
    "another machine may be about to answer": Create(None, 1.0, Again.PENDING, server=FAR_SERVER),
    "another machine has not answered": Create(None, 5.0, Again.SAME, server=FAR_SERVER),
    "another caller": Create(True, 1.0, Again.OTHER, other={"by": "eve@example.com"}),
    "another caller, the server died": Create(
        None, 1.0, Again.OTHER, server=GONE_SERVER, other={"by": "eve@example.com"}
    ),
    "another body": Create(True, 1.0, Again.OTHER, other={"job": {**JOB, "labels": {"a": "b"}}}),
    "a minute later": Create(False, 61.0, Again.OTHER),
}


@pytest.mark.parametrize("create", CREATES.values(), ids=CREATES)
def test_a_create_that_comes_again_is_told_from_another_one(
    records: Records, submissions: Submissions, clock: Clock, monkeypatch: pytest.MonkeyPatch, create: Create
) -> None:
    with monkeypatch.context() as patch:
        who = json.dumps({**json.loads(holder.myself()), **create.server})
        patch.setattr(holder, "myself", lambda: who)
        submissions.submit(handed())
    if create.answered is not None:
        submissions.acknowledge("rnn", told=create.answered)
        # What was said first counts.
        submissions.acknowledge("rnn", told=not create.answered)
    clock.now += create.after
    with pytest.raises(AlreadyUsedError, match="unique for ever") as refused:
        submissions.submit(handed(**create.other), arrived=time.monotonic() - create.here_for)
    assert refused.value.again is create.again
    assert len(known(records).entries) == 2


def test_a_create_that_waits_for_the_record_came_before_the_answer_all_the_same(
    records: Records, submissions: Submissions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a race may wait for its turn to write for longer than the answer to the first one is old."""
    submissions.submit(handed())
    waited = 10.0
    now = time.monotonic
    record = records.record

    def slow(job_id: str) -> RunRecord | None:
        submissions.acknowledge(job_id)
        clock.now += waited
        monkeypatch.setattr(time, "monotonic", lambda: now() + waited)
        return record(job_id)

    monkeypatch.setattr(records, "record", slow)
    with pytest.raises(AlreadyUsedError) as refused:
        submissions.submit(handed(), arrived=now())
    assert refused.value.again is Again.OTHER


def test_secrets_of_a_job_lie_nowhere_in_plain_and_go_with_its_end(
    records: Records, submissions: Submissions, database: Engine, tmp_path: Path
) -> None:
    submitted = submissions.submit(handed(job={**JOB, "jobId": "rnn"})).submitted
    assert submitted is not None
    assert submitted.job["trainingInput"]["packageUris"][0].endswith("X-Goog-Signature=[secret]")
    assert submissions.opened("rnn") == JOB
    sealed = text("select sealed, digest from submissions")
    with database.connect() as connection:
        assert CANARY not in str(connection.execute(sealed).one())
    if database.dialect.name == "sqlite":
        signature = f"X-Goog-Signature={CANARY}".encode()
        assert [file.name for file in tmp_path.iterdir() if signature in file.read_bytes()] == []
    submissions.fail("rnn", f"https://b/p?X-Goog-Signature={CANARY}")
    outcome = known(records).outcome
    assert outcome is not None
    assert CANARY not in outcome.message
    with database.connect() as connection:
        assert connection.execute(sealed).one().sealed == ""
    with pytest.raises(UsageError, match="no such job waits"):
        submissions.opened("rnn")


def test_another_key_and_a_changed_text_open_nothing(
    records: Records, submissions: Submissions, database: Engine
) -> None:
    submissions.submit(handed())
    with pytest.raises(DecryptionError, match="encrypted by another key, or is damaged") as refused:
        Submissions(records, Cipher(Fernet.generate_key())).opened("rnn")
    assert CANARY not in str(refused.value)
    with database.begin() as connection:
        connection.execute(text("update submissions set sealed = upper(sealed)"))
    with pytest.raises(DecryptionError):
        submissions.opened("rnn")


def test_what_lost_its_row_has_failed_and_what_has_one_waits(
    records: Records, submissions: Submissions, database: Engine
) -> None:
    for name in ("lost", "there", "run"):
        submissions.submit(handed(name))
    submissions.submit(handed("far", environment="other"))
    records.begin("run", "run-1234", {"environment": "e"}, submitted=True)
    with database.begin() as connection:
        connection.execute(text("delete from submissions where job_id <> 'there'"))
    assert (submissions.fail_lost("e"), submissions.fail_lost("e")) == (["lost"], [])
    outcome = known(records, "lost").outcome
    assert outcome is not None
    assert (outcome.state, outcome.message.startswith("the job as it was sent is lost")) == (State.FAILED, True)
    assert [known(records, name).waiting for name in ("there", "far", "run")] == [True, True, False]


def test_a_record_of_before_takes_submissions(tmp_path: Path, database: Engine) -> None:
    SUBMISSIONS.drop(database)
    url = None if database.dialect.name == "sqlite" else database.url.render_as_string(hide_password=False)
    anew = open_database(url, tmp_path)
    Submissions(Records(anew), Cipher(Fernet.generate_key())).submit(handed())
    anew.dispose()


@pytest.mark.parametrize("kind", ["labels", "policy"])
def test_of_changes_of_what_was_read_the_first_counts(records: Records, submissions: Submissions, kind: str) -> None:
    submissions.submit(handed())
    change: Any = records.set_labels if kind == "labels" else records.set_policy
    count: Callable[[], int] = lambda: getattr(known(records), f"{kind.removesuffix('s')}_changes")  # noqa: E731

    def changed(number: int) -> int | None:
        try:
            return int(change("rnn", {"n": str(number)}, 0))
        except ChangedError:
            return None

    said = together(10, changed)
    assert sorted(said, key=str) == [1] + [None] * 9
    assert getattr(known(records), kind) == {"n": str(said.index(1))}
    assert (change("rnn", {}), count()) == (2, 2)
    assert getattr(known(records), kind) == {}
    with pytest.raises(UsageError, match="no such job"):
        change("never", {})


def test_a_mended_record_still_knows_who_waits(tmp_path: Path) -> None:
    """Its file was cut off behind the last page that matters."""
    cipher = Cipher(Fernet.generate_key())
    records = Records.open(None, tmp_path)
    for number in range(20):
        Submissions(records, cipher).submit(handed(f"job_{number}", job={**JOB, "filler": "x" * 4000}))
    records.close()
    file = tmp_path / "records.sqlite3"
    file.write_bytes(file.read_bytes()[: -3 * 4096])
    mended = Records.open(None, tmp_path)
    left = Submissions(mended, cipher).waiting("e")
    assert len(left) > 12
    assert {Submissions(mended, cipher).opened(one.job_id)["filler"] for one in left} == {"x" * 4000}
    assert len(mended.records()) >= len(left)
    mended.close()


def test_a_key_is_made_once_and_is_its_owners_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(encryption.KEY_VARIABLE, raising=False)
    made: Sequence[Cipher] = together(8, lambda _: Cipher.open(tmp_path / "new"))
    encrypted = made[0].encrypt(JOB)
    assert all(one.decrypt(encrypted, "x") == JOB for one in made)
    assert len({one.digest(JOB) for one in made}) == 1
    (file,) = (tmp_path / "new").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_teams_key_comes_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Fernet.generate_key().decode()
    monkeypatch.setenv(encryption.KEY_VARIABLE, key)
    assert Cipher(key.encode()).decrypt(Cipher.open(tmp_path).encrypt(JOB), "x") == JOB
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_key_that_is_none_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv(encryption.KEY_VARIABLE, CANARY)
    else:
        monkeypatch.delenv(encryption.KEY_VARIABLE, raising=False)
        (tmp_path / encryption.KEY_FILE).write_text(CANARY)
    with pytest.raises(UsageError, match="no key for submissions") as refused:
        Cipher.open(tmp_path)
    assert CANARY not in str(refused.value)
    assert (encryption.KEY_VARIABLE if by_variable else encryption.KEY_FILE) in str(refused.value)
