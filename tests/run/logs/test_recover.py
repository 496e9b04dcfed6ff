"""Logs from Cloud Logging, whose lines come some time after they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.run.lifecycle.test_judging import INTENT

from encamp.run.logs.recover import recover_logs
from encamp.run.logs.stream import LogStreams

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.cloud.rest import GoogleClient

MASTER = "master-replica-0"


@pytest.fixture
def streams(cluster: Cluster, tmp_path: Path) -> Iterator[LogStreams]:
    opened = LogStreams(cluster, "n", tmp_path, lambda *_: None)
    yield opened
    opened.close()


def _entry(text: str) -> dict[str, Any]:
    labels = {
        "k8s-pod/encamp-job": "j",
        "k8s-pod/jobset_sigs_k8s_io/replicatedjob-name": "master",
        "k8s-pod/batch_kubernetes_io/job-completion-index": "0",
    }
    resource = {"labels": {"pod_name": "a"}}
    return {"labels": labels, "resource": resource, "timestamp": "2026-01-01T00:00:00Z", "textPayload": text}


def test_lines_that_come_between_two_answers_are_waited_for(
    google: Any, client: GoogleClient, streams: LogStreams
) -> None:
    """The first answer holds nothing, the second one line, and from the third on both: then two answers agree."""
    late = [_entry("one"), _entry("two")]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        google.entries += late[:1]
        del late[:1]

    recover_logs(client, INTENT, streams, lambda _: None, sleep)

    assert streams.log(MASTER).path.read_bytes() == b"one\ntwo\n"
    assert streams.log(MASTER).state["complete"]
    assert len(pauses) == 3


def test_of_a_replica_that_never_ran_nothing_is_taken(client: GoogleClient, streams: LogStreams) -> None:
    pauses: list[float] = []

    recover_logs(client, INTENT, streams, lambda _: None, pauses.append)

    assert not streams.log(MASTER).state["complete"]
    assert not streams.log(MASTER).path.exists()
    assert len(pauses) == 1
