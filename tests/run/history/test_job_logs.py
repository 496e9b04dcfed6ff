"""``encamp logs`` gives the same text while a job runs, once it is sealed, and after its tear-down."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.errors import UsageError
from encamp.plan.names import short_name
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.context import Context
from encamp.run.history.job_logs import JobLogs
from encamp.run.history.log_view import LogPart
from encamp.run.history.sealed import read_log
from encamp.run.logs.replicas import Replica, read_replica
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.stream import LogStreams
from encamp.run.store.intent import Intent
from encamp.run.store.outputs import EnvironmentOutputs
from encamp.run.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

NAME = short_name("p", "e", "job_1")
BEGINNING = b"2026-01-01T00:00:01Z one\n2026-01-01T00:00:01Z \x1b[31mtwo\n2026-01-01T00:00:02Z \n"
END = b"2026-01-01T00:00:03Z last without an end"
MASTER, WORKER = "master-replica-0", "worker-replica-0"
TEXTS = {
    MASTER: b"one\n\x1b[31mtwo\n\nlast without an end\n",
    WORKER: b"a\n[encamp] worker-replica-0 was started again as w2\nb\n",
}


class World:
    """A job of one master and one worker, which has been restarted, and a machine that may drive it."""

    def __init__(self, google: Any, client: GoogleClient, kubernetes: Any, cluster: Cluster, folder: Path) -> None:
        google.add_bucket("artifacts")
        self.google = google
        self.client = client
        self.kubernetes = kubernetes
        self.cluster = cluster
        self.folder = folder
        kubernetes.logs = {
            "m": [[BEGINNING, END]],
            "w1": [[b"2026-01-01T00:00:01Z a\n"]],
            "w2": [[b"2026-01-01T00:00:02Z b\n"]],
        }
        self.pods = [self.pod("m", "master"), self.pod("w1", "worker"), self.pod("w2", "worker")]
        self.driver = self.machine("driver")
        self.lease = self.driver[1].begin("job_1", NAME, self.intent().to_json())
        self.streams = LogStreams(cluster, "n", self.spool, lambda *_: None)

    @property
    def spool(self) -> Path:
        return self.folder / "driver" / "jobs" / NAME / "logs"

    def pod(self, name: str, role: str) -> Replica:
        labels = {
            "encamp-job": NAME,
            "jobset.sigs.k8s.io/jobset-name": NAME,
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "batch.kubernetes.io/job-completion-index": "0",
        }
        state = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "replica", "state": state}]}
        made = self.kubernetes.put("pods", name, labels, spec={"nodeName": "node"}, status=status)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{len(self.kubernetes.objects)}Z"
        found = read_replica(made)
        assert found is not None
        return found

    def intent(self) -> Intent:
        return Intent(
            job_id="job_1", name=NAME, environment="e", stack=f"job-{NAME}", folder="", project="p", cluster="c",
            namespace="n", artifacts_bucket="artifacts", prefix="jobs/job_1/", labels={}, deadline=4e9,
            max_running_seconds=60, max_wait_seconds=None, replicas=(MASTER, WORKER), machines={},
        )  # fmt: skip

    def machine(self, name: str) -> tuple[JobLogs, Any]:
        """The logs as another machine sees them, with a record of its own."""
        context = Context(lambda _: None, lambda *_: None, self.folder / name, self.client)
        context._environments["e"] = EnvironmentOutputs(self.kubernetes.kubeconfig(), "c", "l", "p", "artifacts", "n")
        records = context.records()
        storage = Storage(self.client)
        catalogue = Catalogue(records, storage, environment="e", bucket="artifacts")
        return JobLogs("job_1", catalogue, records, storage, context, environment="e", project="p"), records

    def seal(self) -> None:
        storage = Storage(self.client)
        assert seal_logs(storage, "artifacts", "jobs/job_1/", (MASTER, WORKER), self.streams.log).problems == ()
        self.driver[1].append(self.lease, "sealed", {"stored": True})

    def texts(self, logs: JobLogs) -> dict[str, bytes]:
        with logs.now() as found:
            return {log.replica: b"".join(read_log(log, Storage(self.client))) for log in found}


@pytest.fixture
def world(google: Any, client: GoogleClient, kubernetes: Any, cluster: Cluster, tmp_path: Path) -> Iterator[World]:
    made = World(google, client, kubernetes, cluster, tmp_path)
    yield made
    made.streams.close()
    made.driver[1].close()


def test_the_text_is_the_same_from_every_place_at_every_time(world: World) -> None:
    here, records = world.driver
    elsewhere, others = world.machine("elsewhere")
    try:
        # Nobody has read them yet: a machine without the driver's files asks the cluster.
        assert world.texts(elsewhere) == TEXTS
        world.streams.follow(world.pods)
        world.streams.drain(10)
        assert world.texts(here) == TEXTS
        # The driver dies, and the first of the worker's pods is gone with its log.
        records.release(world.lease)
        del world.kubernetes.objects["pods", "w1"], world.kubernetes.logs["w1"]
        assert world.texts(here) == TEXTS
        world.seal()
        assert (world.texts(here), world.texts(elsewhere)) == (TEXTS, TEXTS)
        shutil.rmtree(world.spool)
        world.kubernetes.objects.clear()
        assert (world.texts(here), world.texts(elsewhere)) == (TEXTS, TEXTS)
    finally:
        others.close()


def test_a_job_that_nobody_knows_is_said_as_everywhere(world: World) -> None:
    world.kubernetes.objects.clear()
    elsewhere, others = world.machine("elsewhere")
    try:
        with pytest.raises(UsageError, match="knows no such job"):
            world.texts(elsewhere)
    finally:
        others.close()


@pytest.mark.parametrize("where", ["driver", "elsewhere"])
def test_a_growing_log_is_followed_to_its_end(
    world: World, where: str, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    """Also by a reader that is slower than the writer, and past the deletion of the driver's files."""
    monkeypatch.setattr("encamp.run.history.job_logs._LOOK_SECONDS", 0.02)
    more = threading.Event()

    class Growing:
        def __iter__(self) -> Iterator[bytes]:
            yield BEGINNING
            more.wait(20)
            yield END

    world.kubernetes.logs["m"] = [Growing()]
    world.streams.follow(world.pods)
    logs, records = world.driver if where == "driver" else world.machine(where)
    taken = {MASTER: b"", WORKER: b""}
    reads = threading.Event()

    def write(replica: str, lines: bytes) -> None:
        taken[replica] += lines
        reads.wait(20)

    following = threading.Thread(target=logs.follow, args=(None, write))
    following.start()
    assert until(lambda: any(taken.values()), 20)
    more.set()
    world.streams.drain(10)
    world.seal()
    world.kubernetes.objects.clear()
    shutil.rmtree(world.spool)
    reads.set()
    following.join(30)
    if where == "elsewhere":
        records.close()
    assert taken == TEXTS


@pytest.mark.slow
def test_one_replica_alone_is_followed(world: World) -> None:
    world.streams.follow(world.pods)
    world.streams.drain(10)
    world.seal()
    taken: list[tuple[str, bytes]] = []
    (found,) = world.driver[0].follow(WORKER, lambda replica, lines: taken.append((replica, lines)))
    assert (found.reason, taken) == ("", [(WORKER, TEXTS[WORKER])])


def parts(logs: JobLogs, part: LogPart) -> dict[str, list[bytes]]:
    with logs.views() as views:
        return {view.log.replica: [line.text for line in view.lines(part)] for view in views}


def test_the_last_lines_are_the_same_from_every_place(world: World) -> None:
    here, _ = world.driver
    elsewhere, others = world.machine("elsewhere")
    last = {MASTER: [b"", b"last without an end"], WORKER: [b"[encamp] worker-replica-0 was started again as w2", b"b"]}
    try:
        assert parts(elsewhere, LogPart(tail=2)) == last
        # Of a log that only the cluster has, times are Kubernetes' own.
        second = micros(datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC))
        assert parts(elsewhere, LogPart(since=second)) == last
        world.streams.follow(world.pods)
        world.streams.drain(10)
        assert parts(here, LogPart(tail=2)) == last
        world.seal()
        assert parts(here, LogPart(tail=2)) == last
        shutil.rmtree(world.spool)
        world.kubernetes.objects.clear()
        assert parts(elsewhere, LogPart(tail=2)) == last
    finally:
        others.close()


def test_what_was_shown_is_not_followed_again(world: World) -> None:
    world.streams.follow(world.pods)
    world.streams.drain(10)
    world.seal()
    taken: list[tuple[str, bytes]] = []
    positions = {MASTER: len(TEXTS[MASTER]), WORKER: 2}
    world.driver[0].follow(None, lambda replica, lines: taken.append((replica, lines)), positions)
    assert taken == [(WORKER, TEXTS[WORKER][2:])]
