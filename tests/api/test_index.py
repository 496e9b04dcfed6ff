"""What the service has in memory of the jobs is what the record says, at every moment and whoever wrote it."""

from __future__ import annotations

import contextlib
import gc
import json
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import text

from encamp.api.index import LONGEST_KEPT, Index, NotInMemoryError, grants
from encamp.api.resource import job_resource
from encamp.run.store.changes import LONGEST_READ
from encamp.run.store.encryption import Cipher
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State
from encamp.run.store.submissions import Submission, Submissions
from encamp.run.store.tables import WRITES
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.run.store.records import Lease

HERE, ELSEWHERE = "sandbox", "another"


@dataclass
class Both:
    """A record with somebody who writes to it and somebody who keeps it in memory."""

    writer: Records
    submissions: Submissions
    reader: Records
    index: Index

    @classmethod
    def open(cls, folder: Path) -> Both:
        writer, reader = Records.open(None, folder), Records.open(None, folder)
        asking = Submissions(reader)
        return cls(
            writer,
            Submissions(writer, Cipher.open(folder)),
            reader,
            Index(reader, HERE, lambda: asking.positions(HERE)),
        )

    def submit(self, job_id: str, environment: str = HERE, priority: int = 0, args: int = 0) -> None:
        job = {"jobId": job_id, "labels": {"n": "0"}, "trainingInput": {"workerCount": 2, "args": ["x" * args]}}
        self.submissions.submit(Submission(job_id, f"n-{job_id}", environment, job, "ana@example.com", priority))

    def shown(self) -> dict[str, Any]:
        self.index.refresh()
        return {known.job_id: json.loads(text) for known, text in self.index.shown(self.index.newest_first())}

    def expected(self) -> dict[str, Any]:
        """The same by reading everything anew."""
        positions = self.submissions.positions(HERE)
        records = [one for one in self.writer.records() if one.environment in {HERE, None}]
        found = {}
        for record in sorted(records, key=lambda one: (one.created, one.job_id), reverse=True):
            place = positions.get(record.job_id) if record.waiting else None
            more = {"jobPosition": str(place)} if place is not None else {}
            found[record.job_id] = {**job_resource(record), **more}
        return found

    def close(self) -> None:
        self.index.close()
        self.writer.close()
        self.reader.close()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    found = Both.open(tmp_path)
    yield found
    found.close()


def trial(number: int, state: str) -> dict[str, Any]:
    return {"number": number, "values": {"lr": 0.1}, "state": state, "job_id": "study"}


class Life(RuleBasedStateMachine):
    """Any jobs, in any order of what can become of them."""

    folder: Path

    @initialize()
    def begin(self) -> None:
        type(self).count += 1
        self.both = Both.open(self.folder / str(type(self).count))
        self.leases: dict[str, Lease] = {}

    count = 0
    ids = st.sampled_from(["a", "b", "c"])

    def known(self, job_id: str) -> bool:
        return self.both.writer.record(job_id) is not None

    #: Texts that are kept in memory, that are read when they are shown, and whose entries are not even looked at.
    sizes = st.sampled_from([0, LONGEST_KEPT, 2 * LONGEST_READ])

    @rule(job_id=ids, environment=st.sampled_from([HERE, HERE, ELSEWHERE]), priority=st.integers(0, 2), args=sizes)
    def submit(self, job_id: str, environment: str, priority: int, args: int) -> None:
        if not self.known(job_id):
            self.both.submit(job_id, environment, priority, args)

    @rule(job_id=ids, environment=st.sampled_from([HERE, ELSEWHERE]), much=sizes)
    def start_here(self, job_id: str, environment: str, much: int) -> None:
        if not self.known(job_id):
            intent = {"environment": environment, "job": {"trainingInput": {"region": "x"}}, "much": "x" * much}
            self.leases[job_id] = self.both.writer.begin(job_id, f"n-{job_id}", intent)

    @rule()
    def claim(self) -> None:
        self.both.submissions.claim(HERE)

    @rule(job_id=ids)
    def start_submitted(self, job_id: str) -> None:
        record = self.both.writer.record(job_id)
        if record is not None and record.waiting:
            intent = {"environment": record.environment, "job": {"trainingInput": {"region": "x"}}}
            self.leases[job_id] = self.both.writer.begin(job_id, f"n-{job_id}", intent, submitted=True)

    @rule(job_id=ids, state=st.sampled_from(list(State)))
    def move(self, job_id: str, state: State) -> None:
        if job_id in self.leases:
            if state.ended:
                self.both.writer.append(self.leases[job_id], "outcome", Outcome(state, "because").to_json())
            self.both.writer.move(self.leases[job_id], state)

    @rule(job_id=ids, number=st.integers(1, 2), state=st.sampled_from(["RUNNING", "SUCCEEDED"]))
    def try_out(self, job_id: str, number: int, state: str) -> None:
        if job_id in self.leases:
            self.both.writer.append(self.leases[job_id], "trial", trial(number, state))

    @rule(job_id=ids)
    def take_down(self, job_id: str) -> None:
        if job_id in self.leases:
            self.both.writer.append(self.leases[job_id], "gone", {})

    @rule(job_id=ids)
    def cancel(self, job_id: str) -> None:
        if not self.both.submissions.cancel(job_id, "bob@example.com") and self.known(job_id):
            self.both.writer.request_cancel(job_id, "bob@example.com")

    @rule(job_id=ids, value=st.sampled_from(["1", "2"]))
    def label(self, job_id: str, value: str) -> None:
        if self.known(job_id):
            self.both.writer.set_labels(job_id, {"n": value})

    @rule(job_id=ids, members=st.sampled_from([1, 200]))
    def protect(self, job_id: str, members: int) -> None:
        if self.known(job_id):
            many = [f"user:{number}@example.com" for number in range(members)]
            self.both.writer.set_policy(job_id, {"bindings": [{"role": "roles/ml.viewer", "members": many}]})

    @invariant()
    def memory_is_the_record(self) -> None:
        if hasattr(self, "both"):
            assert self.both.shown() == self.both.expected()
            assert list(self.both.shown()) == list(self.both.expected())
            records = {job_id: self.both.writer.record(job_id) for job_id in ("a", "b", "c")}
            for job_id, record in records.items():
                assert self.both.index.used(job_id) == (record is not None)
                known = self.both.index.job(job_id)
                if known is not None and record is not None:
                    assert (known.state, known.waiting) == (record.state, record.waiting)
                    assert self.both.index.grants(known) == grants(record)
            waiting = [one for one in records.values() if one is not None and one.waiting and one.environment == HERE]
            assert self.both.index.waiting() == self.both.index.waiting("ana@example.com") == len(waiting)

    def teardown(self) -> None:
        if hasattr(self, "both"):
            self.both.close()


@pytest.mark.slow
def test_memory_is_the_record_whatever_becomes_of_jobs(tmp_path: Path) -> None:
    class Here(Life):
        folder = tmp_path

    few = settings(max_examples=6, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Here, settings=few)


def test_who_begins_anew_knows_the_same(both: Both, tmp_path: Path) -> None:
    for number in range(3):
        both.submit(f"j{number}")
    both.submit("other", ELSEWHERE)
    both.submissions.cancel("j1", "bob@example.com")

    again = Both.open(tmp_path)
    assert again.shown() == both.shown() == both.expected()
    assert again.index.job("other") is None
    assert again.index.used("other")
    again.close()


@pytest.mark.slow
def test_nobody_reads_what_the_record_said_before(both: Both) -> None:
    """Readers of many threads beside a writer: none is behind what was committed before it asked."""
    both.submit("a")
    ended = threading.Event()

    def write() -> None:
        for number in range(30):
            both.writer.set_labels("a", {"n": str(number)})
        ended.set()

    def read() -> int:
        looks = 0
        while not ended.is_set():
            record = both.reader.record("a")
            both.index.refresh()
            known = both.index.job("a")
            assert record is not None
            assert known is not None
            labels = json.loads(both.index.text(known))["labels"]
            assert int(labels["n"]) >= int((record.labels or {"n": "0"})["n"])
            looks += 1
        return looks

    with ThreadPoolExecutor(5) as threads:
        readers = [threads.submit(read) for _ in range(4)]
        threads.submit(write).result()
        assert all(reader.result() for reader in readers)
    assert both.shown()["a"]["labels"] == {"n": "29"}


def test_a_record_that_is_away_is_no_old_one(both: Both) -> None:
    both.submit("a")
    both.shown()
    both.writer.set_labels("a", {"n": "1"})
    database = both.writer.transactions.database
    with database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("alter table journal rename to away"))
    with pytest.raises(RecordError):
        both.index.refresh()
    with pytest.raises(RecordError):
        both.index.refresh()
    with database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("alter table away rename to journal"))

    assert both.shown()["a"]["labels"] == {"n": "1"}


def test_pages_do_not_move_when_jobs_are_added(both: Both) -> None:
    for number in range(4):
        both.submit(f"j{number}")
    both.index.refresh()
    pages = both.index.newest_first()
    first = [next(pages).job_id for _ in range(2)]

    both.submit("j4")
    both.index.refresh()

    assert first == ["j3", "j2"]
    assert [known.job_id for known in pages] == ["j1", "j0"]
    after = both.index.job("j2")
    assert after is not None
    assert [known.job_id for known in both.index.newest_first(after.place)] == ["j1", "j0"]


def bytes_of_each(folder: Path, count: int, args: int) -> float:
    """What the index takes in memory for each of some jobs."""
    both = Both.open(folder)
    for number in range(count):
        both.submit(f"job_{number}", args=args)
    both.index.close()
    gc.collect()
    tracemalloc.start()
    try:
        index = Index(both.reader, HERE, dict)
        index.refresh()
        assert sum(1 for _ in index.newest_first()) == count
        # What is read to be shown is no longer there afterwards, but for a bounded rest.
        assert sum(len(text) for _, text in index.shown(index.newest_first())) > count * args
        index._recent = type(index._recent)()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
        index.close()
        both.close()


@pytest.mark.slow
@pytest.mark.parametrize(("args", "most"), [(0, 2_500), (1_000, 3_500), (60_000, 1_500)])
def test_what_callers_send_does_not_decide_how_much_memory_a_job_takes(tmp_path: Path, args: int, most: int) -> None:
    assert bytes_of_each(tmp_path, 300, args) < most


def test_what_was_read_to_be_shown_is_kept_in_a_bounded_number_of_bytes(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encamp.api.index._MOST_RECENT", 10_000)
    for number in range(5):
        both.submit(f"j{number}", args=4_000)
    both.shown()
    kept = in_memory(both)
    assert len(kept) == 2
    # As long as nothing becomes of them.
    both.writer.set_labels(kept[0], {"n": "7"})
    both.index.refresh()
    assert in_memory(both) == kept[1:]
    assert both.shown()[kept[0]]["labels"] == {"n": "7"}


def in_memory(both: Both) -> list[str]:
    """Ids of the jobs that are shown without a look at the record."""
    found: list[str] = []
    for known in both.index.newest_first():
        with contextlib.suppress(NotInMemoryError):
            both.index.text(known, in_memory=True)
            found.append(known.job_id)
    return found
