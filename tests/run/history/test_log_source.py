"""A server finds the logs of a job wherever they are, and their lines and times stay the same while they move."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.plan.names import short_name
from encamp.run.history import log_source
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.log_source import FoundTexts, LogsMovedError, LogSource
from encamp.run.logs.log_lines import lines
from encamp.run.logs.replicas import Replica, read_replica
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.stream import LogStreams
from encamp.run.store.intent import Intent
from encamp.run.store.records import Records
from encamp.run.store.states import Outcome, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient
    from encamp.run.store.journal import RunRecord

NAME = short_name("p", "e", "job_1")
MASTER, WORKER = "master-replica-0", "worker-replica-0"
TEXTS = [(MASTER, b"one"), (MASTER, b"two"), (WORKER, b"a")]


@dataclass
class World:
    """A job of two replicas, its driver's machine, and a server."""

    google: Any
    client: GoogleClient
    kubernetes: Any
    cluster: Cluster
    folder: Path

    def __post_init__(self) -> None:
        self.google.add_bucket("artifacts")
        self.kubernetes.logs = {
            "m": [[b"2026-01-01T00:00:01Z one\n2026-01-01T00:00:02Z two\n"]],
            "w": [[b"2026-01-01T00:00:01Z a\n"]],
        }
        self.records = Records.open(None, self.folder)
        self.lease = self.records.begin("job_1", NAME, self._intent().to_json())
        self.spool = self.folder / "jobs" / NAME / "logs"
        self.streams = LogStreams(self.cluster, "n", self.spool, lambda *_: None)
        self.connected = 0

    def source(self) -> LogSource:
        storage = Storage(self.client)
        catalogue = Catalogue(self.records, storage, environment="e", bucket="artifacts")
        return LogSource(self.records, catalogue, storage, lambda name: self.folder / "jobs" / name, self._connect)

    def _connect(self) -> Cluster:
        self.connected += 1
        return Cluster(self.kubernetes.kubeconfig(), sleep=lambda _: None)

    def _intent(self) -> Intent:
        return Intent(
            job_id="job_1", name=NAME, environment="e", stack=f"job-{NAME}", folder="", project="p", cluster="c",
            namespace="n", artifacts_bucket="artifacts", prefix="jobs/job_1/", labels={}, deadline=4e9,
            max_running_seconds=60, max_wait_seconds=None, replicas=(MASTER, WORKER), machines={},
        )  # fmt: skip

    def pods(self) -> list[Replica]:
        return [self._pod("m", "master"), self._pod("w", "worker")]

    def _pod(self, name: str, role: str) -> Replica:
        labels = {
            "encamp-job": NAME,
            "jobset.sigs.k8s.io/jobset-name": NAME,
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
        }
        state = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "replica", "state": state}]}
        found = read_replica(self.kubernetes.put("pods", name, labels, spec={"nodeName": "node"}, status=status))
        assert found is not None
        return found

    def drive(self) -> None:
        self.streams.follow(self.pods())
        self.streams.drain(10)

    def seal(self) -> None:
        times = self.streams.times()
        names = (MASTER, WORKER)
        seal = seal_logs(Storage(self.client), "artifacts", "jobs/job_1/", names, self.streams.log, times=times)
        self.records.append(self.lease, "outcome", Outcome(State.FAILED).to_json())
        self.records.move(self.lease, State.FAILED)
        self.records.append(self.lease, "sealed", {"stored": seal.stored})

    def record(self) -> RunRecord:
        found = self.records.record("job_1")
        assert found is not None
        return found


@pytest.fixture
def world(google: Any, client: GoogleClient, kubernetes: Any, cluster: Cluster, tmp_path: Path) -> Iterator[World]:
    made = World(google, client, kubernetes, cluster, tmp_path)
    yield made
    made.streams.close()
    made.records.close()


def _told(found: FoundTexts, *, ended: int = 0) -> list[tuple[str, bytes]]:
    return sorted((line.replica, line.text) for line in lines(found.texts, 0, 10**18, ended=ended))


def test_lines_and_times_stay_while_logs_move_from_the_spool_into_the_bucket(world: World) -> None:
    source = world.source()
    assert _told(source.look(world.record())) == []
    world.drive()
    live = source.look(world.record())
    assert (_told(live), live.whole) == (TEXTS, False)
    before = list(lines(live.texts, 0, 10**18))
    world.seal()
    shutil.rmtree(world.spool.parent)
    sealed = source.look(world.record())
    assert sealed.whole
    assert list(lines(sealed.texts, 0, 10**18)) == before
    # What is sealed is read once.
    asked = len(world.google.requests)
    assert list(lines(source.look(world.record()).texts, 0, 10**18)) == before
    assert len(world.google.requests) == asked
    assert list(lines(world.source().look(world.record()).texts, 0, 10**18)) == before
    with pytest.raises(LogsMovedError):
        list(lines(live.texts, 0, 10**18))
    assert world.connected == 0


def test_logs_that_could_not_be_stored_are_read_where_they_are(world: World) -> None:
    world.drive()
    world.google.say("POST /upload.*", 403, {"error": "no"})
    world.seal()
    source = world.source()
    found = source.look(world.record())
    assert (_told(found), found.whole) == (TEXTS, True)


def test_logs_of_which_nobody_wrote_down_the_times_come_at_the_end(world: World) -> None:
    world.drive()
    world.seal()
    del world.google.objects["artifacts", "jobs/job_1/logs/times.jsonl"]
    shutil.rmtree(world.spool.parent)
    found = world.source().look(world.record())
    assert _told(found) == TEXTS
    assert {line.at for line in lines(found.texts, 0, 10**18, ended=10**15)} == {10**15}


def test_logs_that_were_deleted_are_none(world: World) -> None:
    world.drive()
    world.seal()
    source = world.source()
    kept = source.look(world.record())
    for name in list(world.google.objects):
        del world.google.objects[name]
    shutil.rmtree(world.spool.parent)
    assert _told(kept) == []
    assert _told(world.source().look(world.record())) == []


@pytest.mark.slow
def test_a_job_that_is_driven_elsewhere_is_followed_in_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(log_source.socket, "gethostname", lambda: "the-servers-own")
    monkeypatch.setattr(log_source, "_LOOK_SECONDS", 0.0)
    source = world.source()
    try:
        world.pods()
        until(lambda: _told(source.look(world.record())) == TEXTS)
        live = source.look(world.record())
        assert not live.whole
        before = list(lines(live.texts, 0, 10**18))
        assert world.connected == 1
        # The driver's own times differ a little; who reads along goes on in the order that they know.
        world.drive()
        world.seal()
        sealed = source.look(world.record())
        assert sealed.whole
        assert list(lines(sealed.texts, 0, 10**18)) == before
        # Nobody has asked for a while.
        monkeypatch.setattr(log_source, "_IDLE_SECONDS", -1.0)
        assert _told(source.look(world.record())) == TEXTS
    finally:
        source.close()


def test_a_cluster_that_cannot_be_reached_has_no_lines_yet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_source.socket, "gethostname", lambda: "the-servers-own")

    def refuse(_: World) -> Cluster:
        raise EngineError("the environment is not up")

    monkeypatch.setattr(World, "_connect", refuse)
    found = world.source().look(world.record())
    assert (_told(found), found.whole) == ([], False)
