from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.run.sealed_objects import sealed_objects

from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.run.history import following
from encamp.run.history.detached import Parent
from encamp.run.history.following import Follower, PodLogs, RecordedStates
from encamp.run.lifecycle.interrupts import Interrupts, Stop
from encamp.run.logs.driver_logs import DriverLog, DriverSpool, SealedLogs
from encamp.run.store.records import CancelRequest, Records
from encamp.run.store.requests import RequestWatch
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

REPLICA = "master-replica-0"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records.open(None, tmp_path / "state")
    yield opened
    opened.close()


def test_a_log_is_read_as_it_grows_and_after_it_was_deleted(tmp_path: Path) -> None:
    path, lines = tmp_path / "driver.log", list[str]()
    log = DriverLog(path, lines.append)
    log.look()
    with path.open("w", buffering=1) as stream:
        stream.write("one\ntw")
        log.look()
        assert lines == ["one"]
        stream.write("o\n")
        path.unlink()
        stream.write("three")
    log.end()
    assert lines == ["one", "two", "three"]


def test_of_a_log_only_what_comes_may_be_shown(tmp_path: Path) -> None:
    path, lines = tmp_path / "driver.log", list[str]()
    path.write_text("before\n")
    log = DriverLog(path, lines.append, from_end=True)
    log.look()
    with path.open("a") as stream:
        stream.write("after\n")
    log.end()
    assert lines == ["after"]


def test_a_log_that_is_read_anew_is_shown_once_and_its_rest_comes_from_the_bucket(
    google: Any, client: GoogleClient, tmp_path: Path
) -> None:
    google.add_bucket("b")
    lines = list[str]()
    path = tmp_path / f"{REPLICA}.log"
    sealed = SealedLogs(Storage(client), "b", "jobs/j/")
    spool = DriverSpool(tmp_path, [REPLICA, "worker-replica-0"], sealed, lambda _, line: lines.append(line))
    spool.look()
    path.write_bytes(b"one\ntwo\n")
    spool.look()
    path.write_bytes(b"one\n")
    spool.look()
    path.write_bytes(b"one\ntwo\nthr")
    spool.look()
    assert lines == ["one", "two"]
    path.unlink()
    google.objects.update(sealed_objects("b", "jobs/j/", REPLICA, b"one\ntwo\nthree\n" + b"x" * 10_000 + b"\nfour"))
    spool.end()
    assert lines == ["one", "two", "three", "x" * 4096, "four"]


def test_a_bucket_that_does_not_answer_takes_nothing_from_what_was_read(
    google: Any, client: GoogleClient, tmp_path: Path
) -> None:
    google.fail("GET /storage", 403)
    lines = list[str]()
    (tmp_path / f"{REPLICA}.log").write_bytes(b"one\nend")
    sealed = SealedLogs(Storage(client), "b", "jobs/j/")
    DriverSpool(tmp_path, [REPLICA], sealed, lambda name, line: lines.append(f"{name} {line}")).end()
    assert lines == [f"{REPLICA} one", f"{REPLICA} end"]


def _follower(records: Records, folder: Path, *, then: Callable[[], object], **given: Any) -> Follower:
    return Follower(
        "j", "sandbox", records, log=folder / "driver.log", show=lambda _: None, sleep=lambda _: then(), **given
    )


def test_a_job_of_another_machine_is_followed_by_its_record_and_its_pods(
    records: Records, cluster: Cluster, kubernetes: Any, tmp_path: Path, until: Any
) -> None:
    lease = records.begin("j", "j", {})
    labels = {
        "encamp-job": "j",
        "jobset.sigs.k8s.io/jobset-name": "j",
        "jobset.sigs.k8s.io/replicatedjob-name": "master",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    status = {
        "phase": "Succeeded",
        "containerStatuses": [{"name": "replica", "state": {"terminated": {"exitCode": 0}}}],
    }
    kubernetes.put("pods", "p", labels, spec={"nodeName": "n"}, status=status)
    kubernetes.logs["p"] = [[b"2026-01-01T00:00:01Z hello\n"]]
    said, lines = list[str](), list[str]()

    class Place:
        namespace, name = "n", "j"

    def end() -> None:
        if not until(lambda: lines):
            return
        records.move(lease, State.PREPARING)
        records.append(lease, "gone", {})
        records.release(lease)

    pods = PodLogs(cluster, Place(), lambda name, line: lines.append(f"{name} {line}"))  # type: ignore[arg-type]
    states = RecordedStates(records, "j", said.append)
    record = _follower(records, tmp_path, then=end, sources=[states, pods]).run()
    assert record.torn_down
    assert (said, lines) == (["the job is QUEUED", "the job is PREPARING"], [f"{REPLICA} hello"])


def test_who_waits_is_told_what_for_and_not_for_ever(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that hangs holds its lease."""
    records.begin("j", "j", {})
    now, said = [100.0], list[str]()
    monkeypatch.setattr("encamp.run.history.following.time.monotonic", lambda: now[0])

    def pause(_: float) -> None:
        now[0] += 3.0

    log = tmp_path / "driver.log"
    follower = Follower("j", "sandbox", records, log=log, show=said.append, limit=20.0, sleep=pause)
    with pytest.raises(EngineError, match=rf"not ended within 20 s: it is QUEUED, and process {os.getpid()} on"):
        follower.run()
    assert [line.partition(", and")[0] for line in said] == [
        f"waiting for its end for {seconds} s: it is QUEUED" for seconds in (6, 12, 18)
    ]


def test_a_driver_that_ends_without_a_good_end_is_not_replaced(records: Records, tmp_path: Path) -> None:
    lease = records.begin("j", "j", {})

    def fails() -> None:
        records.append(lease, "receipt", {"left": ["bucket x"]})
        records.release(lease)

    record = _follower(records, tmp_path, then=fails).run()
    assert (record.torn_down, record.receipt) == (False, {"left": ["bucket x"]})


def test_a_job_that_nobody_drives_is_taken_over_once(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.release(records.begin("j", "j", {}))
    started = list[tuple[str, str]]()

    class Ended:
        returncode = 3

        def poll(self) -> int:
            (tmp_path / "driver.log").write_text("first\nthe cluster is gone\n")
            return self.returncode

    def start(job_id: str, environment: str, log: Path) -> Any:
        assert log == tmp_path / "driver.log"
        started.append((job_id, environment))
        return Ended()

    monkeypatch.setattr(following, "start_adopter", start)
    with pytest.raises(EngineError, match=r"exited with 3\n  . first\n  . the cluster is gone"):
        _follower(records, tmp_path, then=lambda: None).run()
    assert started == [("j", "sandbox")]


def test_a_driver_hears_of_a_request_and_of_the_loss_of_its_lease(
    records: Records, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr("encamp.run.store.requests._POLL_SECONDS", 0.01)
    lease = records.begin("j", "j", {})
    asked, lost = list[CancelRequest](), threading.Event()
    with RequestWatch(records, lease, cancel=asked.append, lost=lost.set):
        at = records.request_cancel("j", "ann@far")
        assert until(lambda: asked)
        records.release(lease)
        records.adopt("j", "j", {})
        assert lost.wait(5)
    assert asked == [CancelRequest(at, "ann@far")]


@pytest.mark.parametrize(
    ("detached", "number", "reason"),
    [
        (False, signal.SIGINT, Stop.CANCELLED),
        (False, signal.SIGTERM, Stop.CANCELLED),
        (False, signal.SIGHUP, Stop.CANCELLED),
        (True, signal.SIGINT, Stop.CANCELLED),
        (True, signal.SIGTERM, Stop.LEFT),
        (True, signal.SIGHUP, None),
    ],
)
def test_what_a_signal_means(detached: bool, number: int, reason: Stop | None) -> None:
    lines, stopped = list[str](), list[int]()
    with Interrupts(lines.append, lambda: stopped.append(1), detached=detached) as interrupts:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGHUP)
        assert (interrupts.reason, interrupts.cancelled.is_set()) == (reason, reason is not None)
        interrupts.lose()
    assert interrupts.reason is Stop.LOST
    assert len(stopped) == 1 + (reason is not None)


def test_a_job_that_ends_cannot_be_cancelled_any_more() -> None:
    lines = list[str]()
    with Interrupts(lines.append, lambda: None) as interrupts:
        interrupts.ending()
        interrupts.cancel("as ann asked")
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupts.reason is None
    assert ["tearing down goes on" in line for line in lines] == [True]


def test_only_a_process_that_was_told_so_has_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Parent.waiting() is None
    reading, writing = os.pipe()
    monkeypatch.setenv("ENCAMP_DRIVER_READY", str(writing))
    assert Parent.waiting() == Parent(writing)
    assert not os.get_inheritable(writing)
    assert Parent.waiting() is None
    os.close(reading)
    os.close(writing)
