from __future__ import annotations

import hashlib
import io
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.run.logs.replicas import read_replica
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.spool import ReplicaLog
from encamp.run.logs.stream import LogStreams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

NAME = "worker-replica-0"


def pod(*, code: int | None = None, role: str = "worker", message: str = "") -> dict[str, Any]:
    state: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:01:00Z", "message": message}}
    return {
        "spec": {"nodeName": "node"},
        "status": {
            "phase": "Running" if code is None else "Succeeded" if code == 0 else "Failed",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"name": "replica", "state": state}],
        },
        "labels": {
            "encamp-job": "j",
            "jobset.sigs.k8s.io/jobset-name": "j",
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
        },
    }


def _put(kubernetes: Any, name: str, **how: Any) -> Any:
    made = pod(**how)
    return read_replica(kubernetes.put("pods", name, made.pop("labels"), **made))


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def streams(cluster: Cluster, tmp_path: Path, shown: list[str]) -> Iterator[LogStreams]:
    opened = LogStreams(cluster, "n", tmp_path, lambda name, line: shown.append(f"{name} {line}"))
    yield opened
    opened.close()


def _line(second: int, text: str, fraction: str = "5") -> bytes:
    return f"2026-01-01T00:00:{second:02}.{fraction}Z {text}\n".encode()


def test_a_whole_log_is_kept_and_shown_in_order(kubernetes: Any, streams: LogStreams, shown: list[str]) -> None:
    replica = _put(kubernetes, "p", code=0)
    kubernetes.logs["p"] = [[_line(1, "one") + _line(2, "tw")[:-1], b"o\n"]]
    streams.follow([replica])
    streams.drain(5)
    assert shown == [f"{NAME} one", f"{NAME} two"]
    assert streams.log(NAME).path.read_bytes() == b"one\ntwo\n"
    assert streams.log(NAME).state["complete"]
    assert streams.log(NAME).state["exitCode"] == 0


@pytest.mark.slow
def test_broken_connections_lose_and_repeat_nothing(kubernetes: Any, streams: LogStreams) -> None:
    """Also where several lines have the same time, and where a line was cut in the middle."""
    lines = [_line(1, "a"), _line(1, "b"), _line(1, "c"), _line(1, "d", "50"), _line(2, "e"), _line(3, "f")]
    replica = _put(kubernetes, "p", code=0)
    kubernetes.logs["p"] = [
        [lines[0], lines[1], lines[2][:20], None],
        [*lines[:4], None],
        [*lines[:5], lines[5][:-2], None],
        lines,
    ]
    streams.follow([replica])
    streams.drain(20)
    assert streams.log(NAME).path.read_bytes() == b"a\nb\nc\nd\ne\nf\n"
    assert [request.first("sinceTime") for request in kubernetes.log_requests][:3] == [
        "",
        "2026-01-01T00:00:01Z",
        "2026-01-01T00:00:01Z",
    ]


def test_a_log_whose_pod_vanished_is_whole_if_the_stream_had_ended(kubernetes: Any, streams: LogStreams) -> None:
    replica = _put(kubernetes, "p")
    kubernetes.logs["p"] = [[_line(1, "a")]]
    del kubernetes.objects["pods", "p"]
    streams.follow([replica])
    streams.drain(5)
    assert streams.log(NAME).state["complete"]


def test_a_log_whose_pod_vanished_while_the_connection_was_broken_says_so(kubernetes: Any, streams: LogStreams) -> None:
    replica = _put(kubernetes, "p")
    kubernetes.logs["p"] = [[_line(1, "a"), None]]
    del kubernetes.objects["pods", "p"]
    streams.follow([replica])
    streams.drain(5)
    state = streams.log(NAME).state
    assert not state["complete"]
    assert "the pod is gone; the connection broke" in state["reason"]


def test_a_restarted_replicas_log_follows_that_of_the_pod_before(
    kubernetes: Any, streams: LogStreams, tmp_path: Path
) -> None:
    first, second = _put(kubernetes, "p1", code=137), _put(kubernetes, "p2", code=0)
    kubernetes.logs = {"p1": [[_line(1, "a")]], "p2": [[_line(9, "b")]]}
    streams.follow([first])
    streams.follow([second, first])
    streams.drain(5)
    expected = b"a\n[encamp] worker-replica-0 was started again as p2\nb\n"
    assert (tmp_path / f"{NAME}.log").read_bytes() == expected
    assert streams.log(NAME).state["attempts"] == 2


def test_a_spool_that_a_dead_driver_left_is_read_anew_for_the_same_pod(
    kubernetes: Any, cluster: Cluster, tmp_path: Path, shown: list[str]
) -> None:
    replica = _put(kubernetes, "p", code=0)
    left = ReplicaLog(tmp_path, NAME, lambda *_: None)
    left.begin(replica)
    left.feed(_line(1, "a") + b"half")
    left.close()
    kubernetes.logs["p"] = [[_line(1, "a"), _line(2, "b")]]
    streams = LogStreams(cluster, "n", tmp_path, lambda _, line: shown.append(line))
    streams.follow([replica])
    streams.drain(5)
    streams.close()
    assert (tmp_path / f"{NAME}.log").read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("seed", range(20))
def test_however_the_stream_is_cut_the_log_is_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    size = 3 * 1024 * 1024
    texts = [chance.choice(["", "x y", "ä" * 10, "\r progress", "z" * size if seed == 7 else "z"]) for _ in range(30)]
    seconds = sorted(chance.randrange(6) for _ in texts)
    whole = b"".join(_line(second, text) for second, text in zip(seconds, texts, strict=True))
    log = ReplicaLog(tmp_path, NAME, lambda *_: None)
    log.begin(read_replica({**pod(), "metadata": {"name": "p", "uid": "u", "labels": pod()["labels"]}}))  # type: ignore[arg-type]
    for _ in range(6):
        since = log.reconnect()
        start = next((i for i, second in enumerate(seconds) if since and f":{second:02}Z" in since), 0)
        rest = b"".join(_line(second, text) for second, text in list(zip(seconds, texts, strict=True))[start:])
        data = rest[: chance.randrange(len(rest) + 1)]
        while data:
            cut = chance.randrange(1, len(data) + 1)
            log.feed(data[:cut])
            data = data[cut:]
    log.reconnect()
    log.feed(whole)
    log.end(None, complete=True)
    log.close()
    assert (tmp_path / f"{NAME}.log").read_text() == "".join(f"{text}\n" for text in texts) or b"\r" in whole
    assert (tmp_path / f"{NAME}.log").read_bytes() == "".join(f"{text}\n" for text in texts).encode()


def test_sealing_stores_every_log_and_its_digest(google: Any, client: GoogleClient, tmp_path: Path) -> None:
    google.add_bucket("artifacts")
    log = ReplicaLog(tmp_path, NAME, lambda *_: None)
    log.begin(read_replica({**pod(), "metadata": {"name": "p", "uid": "u", "labels": pod()["labels"]}}))  # type: ignore[arg-type]
    log.feed(_line(1, "a"))
    log.end(None, complete=True)
    logs = {NAME: log, "master-replica-0": ReplicaLog(tmp_path, "master-replica-0", lambda *_: None)}
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", sorted(logs), logs.__getitem__)
    assert google.objects["artifacts", "jobs/j/logs/worker-replica-0.log"] == b"a\n"
    manifest = json.loads(google.objects["artifacts", "jobs/j/logs/manifest.json"])
    assert manifest == seal.manifest
    whole = manifest["replicas"][1]
    assert (whole["size"], whole["sha256"], whole["complete"]) == (2, hashlib.sha256(b"a\n").hexdigest(), True)
    assert seal.problems == ("master-replica-0: no log was seen",)
    log.close()


def test_a_log_that_cannot_be_stored_says_why_and_the_others_are_stored(
    google: Any, client: GoogleClient, tmp_path: Path
) -> None:
    google.add_bucket("artifacts")
    google.say("POST /upload.*worker", 403, {"error": "no"})
    logs = {name: ReplicaLog(tmp_path, name, lambda *_: None) for name in ("worker-replica-0", "ps-replica-0")}
    seal = seal_logs(Storage(client), "artifacts", "jobs/j/", list(logs), logs.__getitem__)
    assert seal.stored
    assert "could not be stored: 403" in seal.manifest["replicas"][0]["reason"]
    assert seal.manifest["replicas"][1]["object"] == "gs://artifacts/jobs/j/logs/ps-replica-0.log"


def test_sealing_reads_in_pieces(google: Any, client: GoogleClient) -> None:
    class Endless(io.RawIOBase):
        left = 20 * 1024 * 1024
        largest = 0

        def read(self, count: int = -1) -> bytes:
            self.largest = max(self.largest, count)
            size = min(count, self.left)
            self.left -= size
            return b"\0" * size

    google.add_bucket("artifacts")
    stream = Endless()
    assert Storage(client).upload("artifacts", "x", stream).size == 20 * 1024 * 1024
    assert stream.largest <= 8 * 1024 * 1024
