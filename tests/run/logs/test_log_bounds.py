"""Logs are read and sealed in bounded memory, with few threads and within a time, whatever there is of them."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import CHUNK_BYTES, Storage
from encamp.run.logs.replicas import read_replica
from encamp.run.logs.seal import seal_logs, sealing_seconds, stored_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.logs.stream import LogStreams

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient
    from encamp.run.logs.replicas import Replica

pytestmark = pytest.mark.slow

NAME = "worker-replica-0"
MIB = 1024 * 1024
LINES = b"".join(b"2026-01-01T00:00:01.%09dZ loss 0.%060d\n" % (index, index) for index in range(600))
TEXT = b"".join(b"loss 0.%060d\n" % index for index in range(600))


class Endless:
    """The log of a pod that repeats some lines, made as it is read."""

    def __init__(self, times: int) -> None:
        self.times = times

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(LINES, self.times)


def put(kubernetes: Any, name: str, index: int = 0, role: str = "worker") -> Replica:
    """A pod that has ended well, as a replica."""
    labels = {
        "encamp-job": "j",
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "replica", "state": ended}]}
    kubernetes.logs.setdefault(name, [[b"2026-01-01T00:00:01Z hello from %s\n" % name.encode()]])
    found = read_replica(kubernetes.put("pods", name, labels, spec={"nodeName": "node"}, status=status))
    assert found is not None
    return found


def drive(google: Any, kubernetes: Any, folder: Path) -> dict[str, Any]:
    google.add_bucket("artifacts")
    given = {
        "kubeconfig": kubernetes.kubeconfig(),
        "environ": google.environ(),
        "folder": str(folder),
        "bucket": "artifacts",
        "prefix": "jobs/j/",
    }
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1].joinpath("log_driver.py"))],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
def test_a_large_log_takes_little_memory(google: Any, kubernetes: Any, tmp_path: Path) -> None:
    times = 64 * MIB // len(LINES)
    put(kubernetes, "p")
    kubernetes.logs["p"] = [Endless(times)]
    found = drive(google, kubernetes, tmp_path)
    stored = google.objects["artifacts", f"jobs/j/logs/{NAME}.log"]
    assert hashlib.sha256(stored).digest() == hashlib.sha256(TEXT * times).digest()
    assert found["digests"] == {NAME: hashlib.sha256(stored).hexdigest()}
    assert (found["stored"], found["problems"]) == (True, [])
    assert found["peak"] - found["before"] < 5 * CHUNK_BYTES // 1024 < len(stored) // 1024


@pytest.mark.slow
def test_many_replicas_take_few_threads(google: Any, kubernetes: Any, tmp_path: Path) -> None:
    for index in range(80):
        put(kubernetes, f"p{index}", index)
    found = drive(google, kubernetes, tmp_path)
    assert (len(found["sizes"]), found["stored"], found["problems"]) == (80, True, [])
    assert found["threads"] <= 12
    assert google.objects["artifacts", "jobs/j/logs/worker-replica-79.log"] == b"hello from p79\n"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ReplicaLog]:
    made = _log(tmp_path, NAME)
    yield made
    made.close()


def _log(folder: Path, name: str, text: bytes = b"a\n", *, complete: bool = True) -> ReplicaLog:
    made = ReplicaLog(folder, name, lambda *_: None)
    replica = read_replica({"metadata": {"name": f"pod-{name}", "uid": name, "labels": _labels(name)}})
    assert replica is not None
    made.begin(replica)
    made.feed(b"".join(b"2026-01-01T00:00:01Z " + line for line in text.splitlines(keepends=True)))
    made.end(None, complete=complete, reason="the pod is gone")
    return made


def _labels(name: str) -> dict[str, str]:
    role, _, index = name.partition("-replica-")
    return {
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "batch.kubernetes.io/job-completion-index": index,
    }


def test_a_service_that_does_not_answer_ends_sealing_at_its_time_and_is_tried_again_later(
    google: Any, client: GoogleClient, log: ReplicaLog, tmp_path: Path
) -> None:
    google.add_bucket("artifacts")
    hanging = threading.Event()

    def hang(_: Any) -> None:
        hanging.wait(20)

    google.troubles.append((f"POST /upload.*{NAME}", hang))
    other = _log(tmp_path, "ps-replica-0")
    logs = {one.replica: one for one in (log, other)}
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", list(logs), logs.__getitem__, seconds=0.3)
    hanging.set()
    assert not seal.stored
    assert seal.problems == (f"{NAME}: it could not be stored within 0 s",)
    assert json.loads(google.objects["artifacts", "jobs/j/logs/manifest.json"]) == seal.manifest
    google.troubles.clear()
    before = stored_logs(Storage(client), "artifacts", "jobs/j/")
    again = seal_logs(Storage(client), "artifacts", "jobs/j/", list(logs), logs.__getitem__, before=before)
    assert (again.stored, again.problems) == (True, ())
    assert again.manifest["replicas"][1] == seal.manifest["replicas"][1]


def test_the_time_for_sealing_grows_with_what_there_is() -> None:
    assert sealing_seconds(1, 0) < sealing_seconds(1000, 0) < sealing_seconds(1000, 2**31)
    assert sealing_seconds(1000, 2**31) < 3600


def test_an_upload_whose_session_is_gone_begins_again(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    google.add_bucket("artifacts")
    google.fail("PUT /upload", 410)
    log = _log(tmp_path, NAME, b"x" * (CHUNK_BYTES + 10) + b"\n")
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", [NAME], lambda _: log)
    assert (seal.stored, seal.problems) == (True, ())
    assert len(google.objects["artifacts", f"jobs/j/logs/{NAME}.log"]) == CHUNK_BYTES + 11


def test_what_an_earlier_driver_sealed_stays(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    """A reaper without that driver's spool has nothing of its own to put in its place."""
    google.add_bucket("artifacts")
    storage = Storage(client)
    sealed = _log(tmp_path / "there", NAME, b"all of it\n")
    first = seal_logs(storage, "artifacts", "jobs/j/", [NAME], lambda _: sealed)
    google.objects["artifacts", "jobs/j/logs/ps-replica-0.log"] = b"stored before it died\n"
    names = [NAME, "ps-replica-0"]
    logs = {name: ReplicaLog(tmp_path / "here", name, lambda *_: None) for name in names}
    before = stored_logs(storage, "artifacts", "jobs/j/")
    second = seal_logs(storage, "artifacts", "jobs/j/", names, logs.__getitem__, before=before)
    assert google.objects["artifacts", f"jobs/j/logs/{NAME}.log"] == b"all of it\n"
    assert google.objects["artifacts", "jobs/j/logs/ps-replica-0.log"] == b"stored before it died\n"
    assert second.manifest["replicas"][0] == first.manifest["replicas"][0]
    adopted = second.manifest["replicas"][1]
    assert adopted["sha256"] == hashlib.sha256(b"stored before it died\n").hexdigest()
    assert "died before it could say" in adopted["reason"]
    assert second.stored


class Disk:
    """A disk with room for some bytes; what does not fit is cut, as the system does it."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.pwrite

    def pwrite(self, descriptor: int, data: Any, at: int) -> int:
        if at >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.write(descriptor, data[: self.room - at], at)


@pytest.fixture
def streams(cluster: Cluster, tmp_path: Path) -> Iterator[LogStreams]:
    opened = LogStreams(cluster, "n", tmp_path, lambda *_: None)
    yield opened
    opened.close()


def test_a_full_disk_ends_no_log_and_loses_nothing_once_there_is_room(
    kubernetes: Any, streams: LogStreams, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr("encamp.run.logs.stream._RETRY_SECONDS", 0.02)
    monkeypatch.setattr("encamp.run.logs.stream._ATTEMPTS_AT_END", 1000)
    disk = Disk(len(TEXT) // 2)
    monkeypatch.setattr("encamp.run.logs.spool.os.pwrite", disk.pwrite)
    replica = put(kubernetes, "p")
    kubernetes.logs["p"] = [[LINES[:1000], LINES[1000:]]]
    streams.follow([replica])
    assert until(lambda: len(kubernetes.log_requests) > 2)
    disk.room = 10 * len(TEXT)
    streams.drain(10)
    assert streams.log(NAME).path.read_bytes() == TEXT
    assert streams.log(NAME).state["complete"]


def test_a_disk_that_stays_full_is_the_reason_in_the_manifest(
    google: Any, client: GoogleClient, kubernetes: Any, streams: LogStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    google.add_bucket("artifacts")
    monkeypatch.setattr("encamp.run.logs.stream._RETRY_SECONDS", 0.02)
    monkeypatch.setattr("encamp.run.logs.spool.os.pwrite", Disk(len(TEXT) // 2).pwrite)
    replica = put(kubernetes, "p")
    kubernetes.logs["p"] = [[LINES[:1000], LINES[1000:]]]
    streams.follow([replica])
    streams.drain(10)
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", [NAME], streams.log)
    (entry,) = seal.manifest["replicas"]
    assert (entry["complete"], entry["exitCode"]) == (False, 0)
    assert entry["reason"] == "the local copy could not be written: No space left on device"
    assert TEXT.startswith(google.objects["artifacts", f"jobs/j/logs/{NAME}.log"])


def test_nobody_reading_along_holds_no_log_up(
    kubernetes: Any, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("encamp.run.logs.shown._MOST_BYTES", 4 * len(TEXT))
    monkeypatch.setattr("encamp.run.logs.shown._PATIENCE_SECONDS", 0.05)
    reads = threading.Event()
    shown: list[str] = []

    def show(_: str, line: str) -> None:
        reads.wait(20)
        shown.append(line)

    streams = LogStreams(cluster, "n", tmp_path, show)
    kubernetes.logs["p"] = [Endless(50)]
    streams.follow([put(kubernetes, "p")])
    streams.drain(20)
    assert streams.log(NAME).state["complete"]
    assert streams.log(NAME).path.read_bytes() == TEXT * 50
    reads.set()
    monkeypatch.setattr("encamp.run.logs.shown._PATIENCE_SECONDS", 5.0)
    streams.close()
    assert shown[0] == TEXT.decode().partition("\n")[0]
    assert len(shown) < 600 * 50
    assert any("lines are left out here" in line for line in shown)


def test_a_node_that_is_gone_takes_nothing_that_was_read(kubernetes: Any, cluster: Cluster, tmp_path: Path) -> None:
    """A driver that comes later asks for the same pod's log, and the API server has it no more."""
    replica = put(kubernetes, "p")
    left = ReplicaLog(tmp_path, NAME, lambda *_: None)
    left.begin(replica)
    left.reconnect()
    left.feed(b"2026-01-01T00:00:01Z a\n2026-01-01T00:00:01Z b\nhalf")
    left.close()
    del kubernetes.logs["p"], kubernetes.objects["pods", "p"]
    streams = LogStreams(cluster, "n", tmp_path, lambda *_: None)
    streams.follow([replica])
    streams.drain(5)
    streams.close()
    assert (tmp_path / f"{NAME}.log").read_bytes() == b"a\nb\n"
    assert "the pod is gone" in streams.log(NAME).state["reason"]


def test_a_whole_log_is_not_read_again(kubernetes: Any, cluster: Cluster, tmp_path: Path) -> None:
    replica = put(kubernetes, "p")
    for _ in range(2):
        streams = LogStreams(cluster, "n", tmp_path, lambda *_: None)
        streams.follow([replica])
        streams.drain(5)
        streams.close()
    assert len(kubernetes.log_requests) == 1
    assert (tmp_path / f"{NAME}.log").read_bytes() == b"hello from p\n"


def test_streams_that_have_not_ended_are_stopped_after_silence(
    kubernetes: Any, cluster: Cluster, tmp_path: Path
) -> None:
    over = threading.Event()

    class Silent:
        def __iter__(self) -> Iterator[bytes]:
            yield b"2026-01-01T00:00:01Z a\n"
            over.wait(20)

    kubernetes.logs["p"] = [Silent()]
    streams = LogStreams(cluster, "n", tmp_path, lambda *_: None)
    streams.follow([put(kubernetes, "p")])
    streams.drain(0.3, longest=15)
    assert not over.is_set()
    over.set()
    streams.close()
    assert streams.log(NAME).state["reason"] == "its end had not come when the logs were sealed"
    assert streams.log(NAME).path.read_bytes() == b"a\n"
