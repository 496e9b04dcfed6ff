"""Parts of logs: tails, times and what is read of the bucket for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.run.history.log_view import LogPart, LogView, Stamps, merged, reader
from encamp.run.history.sealed import FoundLog
from encamp.run.logs.log_times import Frames
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.spool import ReplicaLog

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

MASTER = "master-replica-0"
BUCKET, PREFIX = "artifacts", "jobs/j/"


def view(text: bytes, stamps: Stamps | None = None, rest: int = 100) -> LogView:
    return LogView(FoundLog(MASTER, None, ""), len(text), lambda low, high: text[low:high], stamps or [], rest)


def texts(made: LogView, part: LogPart) -> list[bytes]:
    return [line.text for line in made.lines(part)]


@given(st.binary(max_size=60), st.integers(0, 8), st.integers(1, 7), st.integers(1, 7))
def test_a_tail_is_the_last_lines_however_it_is_read(text: bytes, count: int, block: int, piece: int) -> None:
    text = text.replace(b"a", b"\n")
    every = text.split(b"\n")[:-1] if text.endswith(b"\n") or not text else text.split(b"\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("encamp.run.history.log_view._BLOCK", block)
        patch.setattr("encamp.run.history.log_view._PIECE", piece)
        assert texts(view(text), LogPart()) == every
        assert texts(view(text), LogPart(tail=count)) == every[max(0, len(every) - count) :]
        assert view(text).whole_lines() == text.rfind(b"\n") + 1


def test_lines_have_the_times_at_which_they_came() -> None:
    made = view(b"a\nb\nc\nd\n", [(4, 10), (6, 20)])
    assert [(line.at, line.text) for line in made.lines(LogPart())] == [(10, b"a"), (10, b"b"), (20, b"c"), (100, b"d")]
    assert texts(made, LogPart(since=10)) == [b"a", b"b", b"c", b"d"]
    assert texts(made, LogPart(since=11)) == [b"c", b"d"]
    assert texts(made, LogPart(since=21)) == [b"d"]
    assert texts(made, LogPart(since=101)) == []
    assert texts(made, LogPart(since=11, tail=1)) == [b"d"]
    assert texts(made, LogPart(since=21, tail=3)) == [b"d"]


def test_what_another_reader_saw_later_does_not_change_earlier_times() -> None:
    assert merged([(4, 10), (6, 20), (9, 900)], [(8, 30), (12, 40)]) == [(4, 10), (6, 20), (8, 30), (12, 40)]
    assert merged([(4, 10)], []) == [(4, 10)]


def test_kubernetes_times_are_kept_to_the_second(tmp_path: Path) -> None:
    log = ReplicaLog(tmp_path, MASTER, lambda *_: None)
    log.note_seconds = True
    log.feed(b"2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:01.9Z two\n2026-01-01T00:00:03.1Z three\n")
    log.feed(b"2026-01-01T00:00:03.2Z four\n2026-01-01T00:00:02.9Z late\n")
    assert log.seconds == [(8, "2026-01-01T00:00:01"), (24, "2026-01-01T00:00:03")]


class Sealed:
    """A log of some megabytes in the bucket."""

    def __init__(self, google: Any, client: GoogleClient, folder: Path) -> None:
        google.add_bucket(BUCKET)
        self.google = google
        self.storage = Storage(client)
        self.text = b"".join(b"line %d\n" % number for number in range(300_000))
        (folder / f"{MASTER}.log").write_bytes(self.text)
        log = ReplicaLog(folder, MASTER, lambda *_: None)
        seal = seal_logs(self.storage, BUCKET, PREFIX, (MASTER,), lambda _: log)
        (self.entry,) = seal.manifest["replicas"]

    def view(self, **changes: Any) -> LogView:
        log = FoundLog(MASTER, {**self.entry, **changes}, "")
        return LogView(log, *reader(log, self.storage), [], 0)


@pytest.fixture
def sealed(google: Any, client: GoogleClient, tmp_path: Path) -> Sealed:
    return Sealed(google, client, tmp_path)


def test_a_tail_of_a_sealed_log_reads_its_end_alone(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    download = Storage.download

    def counted(*args: Any, **given: Any) -> Any:
        nonlocal read
        for piece in download(*args, **given):
            read += len(piece)
            yield piece

    monkeypatch.setattr(Storage, "download", counted)
    last = [b"line 299998", b"line 299999"]
    assert sealed.entry["generation"]
    assert texts(sealed.view(), LogPart(tail=2)) == last
    assert 0 < read <= 70_000
    # Of one that was sealed before manifests named generations, the whole is compared with its digest first.
    assert texts(sealed.view(generation=""), LogPart(tail=2)) == last
    assert read > len(sealed.text)


def test_a_log_that_somebody_replaced_is_not_shown(sealed: Sealed) -> None:
    sealed.storage.upload(BUCKET, f"{PREFIX}logs/{MASTER}.log", b"x" * len(sealed.text))
    with pytest.raises(EngineError, match="not the one that was sealed"):
        texts(sealed.view(), LogPart(tail=2))


def test_a_log_that_was_copied_since_is_shown(sealed: Sealed) -> None:
    sealed.storage.upload(BUCKET, f"{PREFIX}logs/{MASTER}.log", sealed.text)
    assert texts(sealed.view(), LogPart(tail=1)) == [b"line 299999"]


def test_stamps_are_those_of_one_replica() -> None:
    frames = Frames()
    frames.feed(
        b'{"at": "2026-01-01T00:00:01Z", "ends": {"a": 3, "b": 1}}\n{"at": "2026-01-01T00:00:02Z", "ends": {"a": 5}}\n'
    )
    assert [end for end, _ in frames.stamps("a")] == [3, 5]
    assert len(frames.stamps("b")) == 1
    assert frames.stamps("c") == []
