from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from encamp.cloud.storage import Storage
from encamp.run.logs import log_times
from encamp.run.logs.log_times import STEP, TIMES, Frames, LogTimes, frame_of
from encamp.run.logs.replicas import read_replica
from encamp.run.logs.seal import Stored, seal_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.logs.stream import LogStreams
from encamp.run.times import written

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

A, B = "master-replica-0", "worker-replica-0"
NOON = 1_767_268_800.0


def _frames(folder: Path) -> list[tuple[int, dict[str, int]]]:
    found = Frames()
    found.look(folder)
    return [(one.at, {name: end for name, (_, end) in one.parts.items()}) for one in found.between(0, 10**18)]


def test_each_line_tells_what_had_come_since_the_one_before(tmp_path: Path) -> None:
    moments = iter([NOON, NOON + 1.25])
    times = LogTimes(tmp_path, lambda: next(moments))
    times.flush()
    assert not (tmp_path / TIMES).exists()
    times.grown(A, 3)
    times.grown(A, 5)
    times.grown(B, 2)
    times.flush()
    times.flush()
    times.grown(B, 9)
    times.flush()
    noon = int(NOON * 1e6)
    assert _frames(tmp_path) == [(noon, {A: 5, B: 2}), (noon + 1_250_000, {B: 9})]
    assert (tmp_path / TIMES).stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / TIMES).read_text().splitlines()[0])["at"] == "2026-01-01T12:00:00.000000Z"


def test_times_only_grow_whatever_the_clock_does_and_whoever_writes(tmp_path: Path) -> None:
    for moment, end in ((NOON, 1), (NOON - 3600, 2), (NOON - 7200, 3)):
        times = LogTimes(tmp_path, lambda moment=moment: moment)
        times.grown(A, end)
        times.flush()
    noon = int(NOON * 1e6)
    assert _frames(tmp_path) == [(noon, {A: 1}), (noon + STEP, {A: 2}), (noon + 2 * STEP, {A: 3})]


def test_half_a_line_of_a_process_that_was_killed_hides_no_other(tmp_path: Path) -> None:
    first = LogTimes(tmp_path, lambda: NOON)
    first.grown(A, 1)
    first.flush()
    with (tmp_path / TIMES).open("a") as file:
        file.write('{"at": "2026-')
    reader = Frames()
    reader.look(tmp_path)
    assert reader.ends == {A: 1}
    second = LogTimes(tmp_path, lambda: NOON + 60)
    second.grown(A, 7)
    second.flush()
    reader.look(tmp_path)
    assert [one.parts for one in reader.between(0, 10**18)] == [{A: (0, 1)}, {A: (1, 7)}]
    assert [ends for _, ends in _frames(tmp_path)] == [{A: 1}, {A: 7}]


def test_what_was_read_again_after_a_death_is_not_told_twice(tmp_path: Path) -> None:
    moments = iter([NOON, NOON + 1, NOON + 2])
    times = LogTimes(tmp_path, lambda: next(moments))
    for end in (10, 6, 12):
        times.grown(A, end)
        times.flush()
    assert [ends for _, ends in _frames(tmp_path)] == [{A: 10}, {A: 12}]


def test_the_longer_it_writes_the_longer_are_the_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_times, "_PACES", ((2000, 0.5), (4000, 2.0)))
    moment = NOON
    times = LogTimes(tmp_path, lambda: moment)
    for end in range(400):
        times.grown(A, end + 1)
        times.flush(paced=True)
        moment += 0.25
    found = _frames(tmp_path)
    pauses = [(after - before) / 1e6 for (before, _), (after, _) in itertools.pairwise(found)]
    assert pauses == sorted(pauses)
    assert set(pauses) == {0.5, 2.0, 10.0}
    times.flush()
    assert _frames(tmp_path)[-1][1] == {A: 400}
    # Whoever goes on keeps the pace.
    second = LogTimes(tmp_path, lambda: moment)
    for end in range(50):
        second.grown(A, 500 + end)
        second.flush(paced=True)
        moment += 0.25
    assert len(_frames(tmp_path)) - len(found) < 12


def test_the_times_between_two_are_found() -> None:
    found = Frames()
    found.feed(b"".join(b'{"at":"2026-01-01T12:00:0%dZ","ends":{"a":%d}}\n' % (at, at + 1) for at in range(10)))
    noon = int(NOON * 1e6)
    assert [one.parts["a"] for one in found.between(noon + 2_000_000, noon + 4_000_000)] == [(2, 3), (3, 4), (4, 5)]
    assert found.between(noon + 1, noon + 2) == []


def test_a_full_disk_loses_no_time_for_good(tmp_path: Path) -> None:
    times = LogTimes(tmp_path / "later", lambda: NOON)
    times.grown(A, 4)
    times.flush()
    (tmp_path / "later").mkdir()
    times.grown(B, 1)
    times.flush()
    assert [ends for _, ends in _frames(tmp_path / "later")] == [{A: 4, B: 1}]


def test_what_is_no_line_of_times_tells_nothing() -> None:
    for line in (b"", b"null", b"[]", b'{"at": 1, "ends": {}}', b'{"at": "2026-01-01T00:00:00Z", "ends": {"a": "x"}}'):
        assert frame_of(line) is None
    assert frame_of(b"[" * 100_000) is None
    assert written(0) == "1970-01-01T00:00:00.000000Z"
    assert len(written(10**20)) == len(written(0))


def test_a_followed_log_has_its_times_beside_it_and_its_own_bytes_stay(
    kubernetes: Any, cluster: Cluster, tmp_path: Path
) -> None:
    pod = {
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"name": "replica", "state": {"terminated": {"exitCode": 0}}}],
        },
        "spec": {"nodeName": "node"},
    }
    labels = {
        "encamp-job": "j",
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/replicatedjob-name": "worker",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    replica = read_replica(kubernetes.put("pods", "p", labels, **pod))
    assert replica is not None
    kubernetes.logs["p"] = [[b"2026-01-01T00:00:01.5Z one\n2026-01-01T00:00:02.5Z two\n"]]
    streams = LogStreams(cluster, "n", tmp_path, lambda *_: None)
    try:
        streams.follow([replica])
        streams.drain(5)
        found = Frames()
        found.look(streams.times().parent)
        assert found.ends == {B: 8}
        assert streams.log(B).path.read_bytes() == b"one\ntwo\n"
    finally:
        streams.close()


def test_the_times_are_sealed_with_the_logs(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    google.add_bucket("artifacts")
    times = LogTimes(tmp_path, lambda: NOON)
    times.grown(A, 1)
    times.flush()
    logs = {A: ReplicaLog(tmp_path, A, lambda *_: None)}

    def seal(before: Stored | None = None) -> bool:
        return seal_logs(
            Storage(client), "artifacts", "jobs/j/", [A], logs.__getitem__, before=before, times=tmp_path / TIMES
        ).stored

    assert seal()
    assert google.objects["artifacts", "jobs/j/logs/times.jsonl"] == (tmp_path / TIMES).read_bytes()
    # An earlier driver on another machine followed the job for longer.
    google.objects["artifacts", "jobs/j/logs/times.jsonl"] = b"more"
    assert seal(Stored(times=(tmp_path / TIMES).stat().st_size))
    assert google.objects["artifacts", "jobs/j/logs/times.jsonl"] == b"more"


def test_times_that_cannot_be_stored_are_nobodys_failure(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    google.add_bucket("artifacts")
    google.say("POST /upload.*times", 403, {"error": "no"})
    (tmp_path / TIMES).write_bytes(b"x\n")
    logs = {A: ReplicaLog(tmp_path, A, lambda *_: None)}
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", [A], logs.__getitem__, times=tmp_path / TIMES)
    assert seal.stored
    assert all("times" not in problem for problem in seal.problems)
    assert ("artifacts", "jobs/j/logs/manifest.json") in google.objects
