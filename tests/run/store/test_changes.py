"""What was added to the journal since one last looked: everything, once, and nothing missed that was committed late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert, text

from encamp.run.store import changes
from encamp.run.store.changes import Changes, Line
from encamp.run.store.journal import LABELS, digest
from encamp.run.store.records import Records
from encamp.run.store.states import State
from encamp.run.store.tables import JOURNAL, WRITES, open_database
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine

KINDS = ("intent", "state", LABELS)


@pytest.fixture
def records(database: Engine) -> Records:
    return Records(database)


@pytest.fixture
def found(records: Records) -> Iterator[Changes]:
    looking = Changes(records.transactions, KINDS)
    yield looking
    looking.close()


def taken(looking: Changes) -> list[tuple[str, str]]:
    lines: list[Line] = []
    looking.take(lines.extend)
    return [(line.job_id, line.entry.kind if line.entry is not None else "damaged") for line in lines]


def test_everything_is_taken_once(records: Records, found: Changes) -> None:
    first = records.begin("a", "name-a", {})
    assert taken(found) == [("a", "intent"), ("a", "state")]

    records.begin("b", "name-b", {})
    records.append(first, "resource", {})
    records.move(first, State.PREPARING)

    assert taken(found) == [("b", "intent"), ("b", "state"), ("a", "state")]
    assert taken(found) == []


def test_a_line_says_whose_it_is(records: Records, found: Changes) -> None:
    records.begin("a", "name-a", {})

    lines: list[Line] = []
    found.take(lines.extend)

    record = records.record("a")
    assert record is not None
    assert {(line.job_id, line.name, line.created) for line in lines} == {("a", "name-a", record.created)}
    assert tuple(line.entry for line in lines) == record.entries


def test_what_could_not_be_applied_is_taken_again(records: Records, found: Changes) -> None:
    records.begin("a", "name-a", {})

    def failing(lines: list[Line]) -> None:
        raise ValueError(lines)

    with pytest.raises(ValueError, match="name-a"):
        found.take(failing)

    assert not found.quiet()
    assert taken(found) == [("a", "intent"), ("a", "state")]


def test_much_is_taken_in_parts(records: Records, found: Changes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_AT_ONCE", 3)
    for number in range(5):
        records.begin(f"job{number}", f"name-{number}", {})
    parts: list[int] = []

    found.take(lambda lines: parts.append(len(lines)))

    assert sum(parts) == 10
    assert max(parts) == 3
    assert taken(found) == []


def test_a_damaged_entry_is_none(records: Records, found: Changes, database: Engine) -> None:
    records.begin("a", "name-a", {})
    with database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("update journal set data = '{\"state\": \"SUCC' where kind = 'state'"))

    assert taken(found) == [("a", "intent"), ("a", "damaged")]


@pytest.mark.slow
def test_what_is_committed_late_is_not_missed(postgres_url: str, tmp_path: Path) -> None:
    """A server numbers entries before they are committed: a smaller number may appear after a larger one."""
    database = open_database(postgres_url, tmp_path)
    records = Records(database)
    looking = Changes(records.transactions, KINDS)
    try:
        records.begin("a", "name-a", {})
        records.begin("b", "name-b", {})
        taken(looking)
        with database.connect() as slow, slow.begin():
            at = records.transactions.now(slow)
            entry = {"kind": LABELS, "data": "{}", "digest": digest(LABELS, "{}")}
            slow.execute(insert(JOURNAL).values(job_id="a", at=at, **entry))
            records.set_labels("b", {"team": "vision"})
            assert taken(looking) == [("b", LABELS)]

        assert taken(looking) == [("a", LABELS)]
        assert taken(looking) == []
    finally:
        looking.close()
        database.dispose()


def test_a_file_tells_whether_others_have_written(tmp_path: Path) -> None:
    ours, others = Records.open(None, tmp_path), Records.open(None, tmp_path)
    looking = Changes(ours.transactions, KINDS)
    assert not looking.quiet()
    taken(looking)
    assert looking.quiet()

    others.begin("a", "name-a", {})
    assert not looking.quiet()
    taken(looking)
    assert ours.record("a") == others.record("a")
    assert looking.quiet()

    ours.set_labels("a", {})
    assert not looking.quiet()

    looking.close()
    ours.close()
    others.close()


def test_what_cannot_be_read_is_taken_later(tmp_path: Path) -> None:
    ours = Records.open(None, tmp_path)
    looking = Changes(ours.transactions, KINDS)
    ours.begin("a", "name-a", {})
    with ours.transactions.database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("alter table journal rename to gone"))
    with pytest.raises(RecordError):
        taken(looking)
    assert not looking.quiet()
    with ours.transactions.database.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
        connection.execute(text("alter table gone rename to journal"))

    assert taken(looking) == [("a", "intent"), ("a", "state")]

    looking.close()
    ours.close()
