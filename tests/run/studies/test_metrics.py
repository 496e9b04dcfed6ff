"""What a trial reports, read while it is written: lines of a log, the library's file, and event files."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.storage import Storage
from encamp.errors import EngineError
from encamp.run.logs.metric_reports import MARK, read_record, record_lines
from encamp.run.logs.replicas import read_replica
from encamp.run.studies.event_files import EventFile
from encamp.run.studies.event_folders import BucketFolder, EventReader, FoundFile, LocalFolder, event_folder
from encamp.run.studies.metrics import MOST_KEPT, TrialMetrics, thinned
from encamp.tuning.model import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

pytestmark = pytest.mark.slow

#: What TensorFlow writes: summaries as TensorFlow 2 makes them, of several types, and one as TensorFlow 1 did.
TENSORFLOW = """
import sys
import tensorflow as tf

def scalar(tag, value, step):
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = "scalars"
    tf.summary.write(tag=tag, tensor=value, step=step, metadata=metadata)

writer = tf.summary.create_file_writer(sys.argv[1] + "/train")
with writer.as_default():
    for step in (0, 10, 20):
        scalar("accuracy", tf.constant(step / 40, tf.float32), step)
        scalar("loss", tf.constant(1.0), step)
    scalar("accuracy", tf.constant(float("nan")), 30)
    tf.summary.write("accuracy", tf.zeros([5_000_000]), step=31)
    scalar("accuracy", tf.constant(0.75, tf.float64), 40)
    scalar("accuracy", tf.constant(-3, tf.int64), 41)
    scalar("accuracy", tf.constant(4, tf.int32), 42)
writer.close()
with tf.Graph().as_default():
    old = tf.compat.v1.summary.FileWriter(sys.argv[1] + "/eval")
    old.add_graph(tf.compat.v1.get_default_graph())
    values = [("accuracy", 0.5), ("deep/accuracy", 0.25)]
    made = [tf.compat.v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values]
    old.add_summary(tf.compat.v1.Summary(value=made), 7)
    old.close()
"""


def record(step: int, value: float | str, tag: str = "accuracy", at: float = 0.0) -> str:
    """A report as the library writes it."""
    body = {"checkpoint_path": "", "global_step": str(step), "timestamp": at or step + 1.5, "trial": "1"}
    return json.dumps({**body, tag: str(value)}, sort_keys=True)


def checksum(data: bytes) -> bytes:
    """Of a record's length or text, by the library that Cloud Storage's clients use."""
    import google_crc32c  # noqa: PLC0415

    value = google_crc32c.value(data)
    return struct.pack("<I", (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def head(size: int) -> bytes:
    """What stands before a record of so many bytes."""
    return struct.pack("<Q", size) + checksum(struct.pack("<Q", size))


def event(message: bytes) -> bytes:
    """A record of an event file."""
    return head(len(message)) + message + checksum(message)


def scalar_event(step: int, value: float, tag: bytes = b"accuracy", wall: float = 1.0) -> bytes:
    """An Event with one simple value."""
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    return event(
        b"\x09" + struct.pack("<d", wall) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    )


def test_the_librarys_own_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hypertune  # noqa: PLC0415 - it looks at the environment where it is made

    path = tmp_path / "hypertune" / "output.metrics"
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(path))
    monkeypatch.setenv("CLOUD_ML_TRIAL_ID", "3")
    library = hypertune.HyperTune()
    metrics = TrialMetrics("accuracy")
    for step in range(1, 151):
        library.report_hyperparameter_tuning_metric("accuracy", step / 200, step)
        if step in {60, 120, 150}:
            metrics.add_lines(path.read_text().splitlines())
    found = metrics.read()
    assert [(one.step, one.value) for one in found] == [(step, step / 200) for step in range(1, 151)]
    assert found[-1].at == json.loads(path.read_text().splitlines()[-1])["timestamp"]


@pytest.mark.parametrize(
    ("line", "step", "value"),
    [
        ('{"accuracy": "0.93"}', 0, 0.93),
        ('{"accuracy": 0.93, "global_step": 100, "timestamp": 1}', 100, 0.93),
        ('{"accuracy": "1e-3", "global_step": "5", "timestamp": "x"}', 5, 0.001),
        ('{"accuracy": "1", "global_step": "1e400"}', 0, 1.0),
    ],
)
def test_a_report_may_be_written_by_hand(line: str, step: int, value: float) -> None:
    found = read_record(line, "accuracy")
    assert found is not None
    assert found.measurement is not None
    assert (found.measurement.step, found.measurement.value) == (step, value)


@pytest.mark.parametrize(
    "line",
    ["", "accuracy=3", "[1]", "{", '"accuracy"', "{" * 5000, "[" * 100_000, '{"accuracy": 1' + " " * 70_000 + "}"],
)
def test_what_is_no_report_is_passed_over(line: str) -> None:
    assert read_record(line, "accuracy") is None


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "high", None, True, [1], {"a": 1}])
def test_what_is_no_number_is_no_measurement(value: object) -> None:
    found = read_record(json.dumps({"accuracy": value}), "accuracy")
    assert found is not None
    assert found.measurement is None


def test_a_log_is_read_on_where_it_was_left(tmp_path: Path) -> None:
    path = tmp_path / "master.log"
    metrics = TrialMetrics("accuracy", [path, tmp_path / "none.log"])
    assert metrics.read() == ()
    first, second = f"{MARK}{record(1, 0.5)}\n", f"{MARK}{record(2, 0.6)}\n"
    path.write_text(f"hello\n{first}a line with {MARK} within\n{second[:30]}")
    assert [one.step for one in metrics.read()] == [1]
    with path.open("a") as file:
        file.write(second[30:] + first)
    assert [one.step for one in metrics.read()] == [1, 2]
    # The copy was lost and is read anew.
    path.write_text(first)
    assert [one.step for one in metrics.read()] == [1, 2]


def test_a_line_without_an_end_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "master.log"
    with path.open("wb") as file:
        file.write(b"x" * 9_000_000 + b"\n" + f"{MARK}{record(1, 0.5)}\n".encode())
    assert [one.value for one in TrialMetrics("accuracy", [path]).read()] == [0.5]


def test_a_termination_message_adds_what_the_log_has_not() -> None:
    metrics = TrialMetrics("accuracy")
    metrics.add_lines([record(1, 0.5)])
    metrics.add_termination({"exitCode": 0, "metrics": [record(1, 0.5), record(2, 0.75)]})
    metrics.add_termination({"metrics": "none"})
    assert [(one.step, one.value) for one in metrics.read()] == [(1, 0.5), (2, 0.75)]


def pod(message: str) -> dict[str, Any]:
    """A pod that has ended with a termination message."""
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "master", "batch.kubernetes.io/job-completion-index": "0"}
    status = {"name": "replica", "state": {"terminated": {"exitCode": 1, "message": message}}}
    return {"metadata": {"name": "p", "uid": "u", "labels": labels}, "status": {"containerStatuses": [status]}}


def test_a_container_of_the_users_own_leaves_the_file_itself() -> None:
    text = "".join(f"{record(step, step / 100)}\n" for step in range(60))[-4096:]
    replica = read_replica(pod(text))
    assert replica is not None
    assert replica.reason == ""
    metrics = TrialMetrics("accuracy")
    metrics.add_termination(replica.termination)
    assert [one.step for one in metrics.read()][-3:] == [57, 58, 59]
    assert record_lines(text) == text.split("\n")[1:-1]


@pytest.mark.parametrize(
    "text",
    ["", "\n", "Traceback\n", '{"exitCode": 1, "reason": "Error"}', f"{record(1, 1)}\nKilled\n", record(1, 1)[9:]],
)
def test_another_message_is_what_it_was(text: str) -> None:
    assert record_lines(text) == []


def test_very_many_measurements_are_thinned() -> None:
    metrics = TrialMetrics("accuracy")
    found = metrics.read()
    for begin in range(0, 20_000, 1000):
        metrics.add_lines(record(step, -abs(step - 777), at=step + 1.0) for step in range(begin, begin + 1000))
        found = metrics.read()
    assert len(found) <= MOST_KEPT
    assert (found[0].step, found[-1].step, max(one.value for one in found)) == (0, 19_999, 0.0)
    assert list(found) == sorted(found, key=lambda one: one.at)


def test_the_latest_of_the_largest_step_outlives_thinning() -> None:
    many = [Measurement(min(at, 40), float(at == 300), float(at)) for at in range(500)]
    assert many[-1] in thinned(many, 10)
    assert len(thinned(many, 10)) <= 10


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_an_event_file_comes_in_pieces_of_any_size(size: int) -> None:
    data = event(b"\x1a\x0dbrain.Event:2") + b"".join(scalar_event(step, step / 8) for step in range(9))
    file = EventFile(frozenset({"accuracy"}))
    found = [one for at in range(0, len(data), size) for one in file.feed(data[at : at + size])]
    assert [(one.step, one.value, one.at) for one in found] == [(step, step / 8, 1.0) for step in range(9)]
    assert (file.offset, file.broken) == (len(data), False)


def test_a_record_that_is_too_long_is_passed_over() -> None:
    long = head(8_000_000) + b"accuracy" * 1_000_000 + b"some"
    data = scalar_event(1, 0.5) + long + scalar_event(2, 0.75)
    file = EventFile(frozenset({"accuracy"}))
    found = [one for at in range(0, len(data), 100_001) for one in file.feed(data[at : at + 100_001])]
    assert [one.step for one in found] == [1, 2]


@pytest.mark.parametrize("place", range(70))
def test_damage_costs_a_record_or_the_rest_and_no_more(place: int) -> None:
    good = scalar_event(1, 0.5)
    bad = bytearray(scalar_event(2, 0.75))
    bad[place % len(bad)] ^= 0x40
    file = EventFile(frozenset({"accuracy"}))
    found = file.feed(good + bytes(bad) + scalar_event(3, 0.875))
    assert found[0].step == 1
    assert [one.step for one in found] in ([1], [1, 3])


@pytest.mark.parametrize("message", [b"\xff" * 30, b"\x2a\x7faccuracy", b"accuracy", b"\x2b" + b"accuracy", b""])
def test_what_is_no_event_is_passed_over(message: bytes) -> None:
    file = EventFile(frozenset({"accuracy"}))
    assert [one.step for one in file.feed(event(message) + scalar_event(4, 1.0))] == [4]


def test_other_files_and_links_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "1" / "eval").mkdir(parents=True)
    (tmp_path / "1" / "eval" / "events.out.tfevents.9").write_bytes(scalar_event(1, 0.5))
    (tmp_path / "1" / "model.ckpt").write_bytes(scalar_event(2, 0.5))
    (tmp_path / "1" / "events.out.tfevents.8").symlink_to(tmp_path / "1" / "model.ckpt")
    (tmp_path / "10").mkdir()
    (tmp_path / "10" / "events.out.tfevents.9").write_bytes(scalar_event(3, 0.5))
    folder = event_folder(str(tmp_path), 1, None)
    assert folder is not None
    assert [one.step for one in EventReader(folder, "accuracy").read()] == [1]


def test_a_tag_may_name_the_run(tmp_path: Path) -> None:
    for run, value in (("train", 0.5), ("validation", 0.25)):
        (tmp_path / run).mkdir()
        (tmp_path / run / "events.out.tfevents.1").write_bytes(scalar_event(1, value))
    assert [one.value for one in EventReader(LocalFolder(tmp_path), "validation/accuracy").read()] == [0.25]
    assert [one.value for one in EventReader(LocalFolder(tmp_path), "accuracy").read()] == [0.5, 0.25]


def test_summaries_of_before_are_another_trials(tmp_path: Path) -> None:
    old, new = (scalar_event(step, 0.5, wall=at) for step, at in ((100, 9.0), (2, 10.0)))
    (tmp_path / "events.out.tfevents.1").write_bytes(old)
    (tmp_path / "events.out.tfevents.2").write_bytes(new)
    metrics = TrialMetrics("accuracy", events=LocalFolder(tmp_path))
    metrics.since = 10.0
    assert [one.step for one in metrics.read(last=True)] == [2]


class FlakyFolder:
    """Fails in the middle of its first reading."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[int] = []

    def files(self) -> Iterator[FoundFile]:
        yield FoundFile("events.out.tfevents.1", len(self.data))

    def read(self, name: str, begin: int) -> Iterator[bytes]:
        self.asked.append(begin)
        yield self.data[begin : begin + 100]
        if len(self.asked) == 1:
            raise EngineError("the bucket does not answer", where=name)
        yield self.data[begin + 100 :]


def test_a_reading_that_broke_is_gone_on_with() -> None:
    folder = FlakyFolder(b"".join(scalar_event(step, 0.5) for step in range(9)))
    now = [0.0]
    metrics = TrialMetrics("accuracy", events=folder, clock=lambda: now[0])
    assert [one.step for one in metrics.read()] == [0, 1]
    assert "the bucket does not answer" in metrics.missing()
    assert len(metrics.read()) == 2  # not looked at again so soon
    assert [one.step for one in metrics.read(last=True)] == list(range(9))
    now[0] = 60.0
    metrics.read()
    assert folder.asked == [0, 100]  # nothing more has come


def test_only_what_is_new_is_read_of_a_bucket(google: Any, client: GoogleClient) -> None:
    google.add_bucket("b")
    storage = Storage(client)
    file = "runs/a/2/eval/events.out.tfevents.1"
    metrics = TrialMetrics("accuracy", events=event_folder("gs://b/runs/a/", 2, storage))
    assert metrics.read() == ()
    storage.upload("b", "runs/a/20/events.out.tfevents.1", scalar_event(9, 0.5))
    storage.upload("b", file, scalar_event(1, 0.5) + scalar_event(2, 0.5)[:20])
    assert [one.step for one in metrics.read(last=True)] == [1]
    storage.upload("b", file, scalar_event(1, 0.5) + scalar_event(2, 0.5))
    assert [one.step for one in metrics.read(last=True)] == [1, 2]
    metrics.read(last=True)
    begun = len(scalar_event(1, 0.5)) + 20
    ranges = [one.headers.get("Range") for one in google.requests if one.first("alt") == "media"]
    assert ranges == [None, f"bytes={begun}-"]


def test_a_bucket_itself_may_be_the_job_dir(google: Any, client: GoogleClient) -> None:
    google.add_bucket("b")
    storage = Storage(client)
    storage.upload("b", "1/events.out.tfevents.1", scalar_event(1, 0.5))
    folder = event_folder("gs://b", 1, storage)
    assert folder is not None
    assert [one.step for one in EventReader(folder, "accuracy").read()] == [1]
    assert list(BucketFolder(storage, "b", "1/").read("gone", 5)) == []


def test_the_message_says_what_was_seen_instead() -> None:
    metrics = TrialMetrics("accuracy")
    assert "no metric 'accuracy'; report it with cloudml-hypertune" in metrics.missing()
    metrics.add_lines([record(1, 2.0, "loss")])
    assert "but 'loss': hyperparameterMetricTag" in metrics.missing()
    metrics.add_lines([record(1, "nan")])
    assert "it reported 'nan' as metric 'accuracy', which is no number" in metrics.missing()


@pytest.mark.slow
def test_what_tensorflow_writes_is_read(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", TENSORFLOW, str(tmp_path)], check=True, capture_output=True, env={"PATH": ""})
    found = {one.step: one.value for one in TrialMetrics("accuracy", events=LocalFolder(tmp_path)).read()}
    assert found == {0: 0.0, 10: 0.25, 20: 0.5, 40: 0.75, 41: -3.0, 42: 4.0, 7: 0.5}
    scoped = TrialMetrics("deep/accuracy", events=LocalFolder(tmp_path)).read()
    assert [(one.step, one.value) for one in scoped] == [(7, 0.25)]
