"""Drivers as processes of this machine, and as Kubernetes Jobs, found again by a server that did not start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from cryptography.fernet import Fernet

from encamp.api import launchers
from encamp.api.launchers import ClusterLauncher, LocalLauncher
from encamp.errors import EngineError
from encamp.plan.environment.driver import DriverPlan
from encamp.plan.names import short_name
from encamp.run.store.encryption import Cipher, DecryptionError
from encamp.run.store.records import Records
from encamp.run.store.submissions import Submission, Submissions
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.store.submissions import Waiting

SPEC = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
DRIVER = DriverPlan(
    "drivers", "drivers@p.iam.gserviceaccount.com", "gcr.io/p/encamp:1", "gs://state", "record", {}, "c"
)
JOB = {
    "jobId": "rnn",
    "labels": {"team": "a"},
    "trainingInput": {
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://packages/trainer-1.tar.gz"],
        "pythonModule": "trainer.task",
    },
}
NAME = short_name("my-project", "lab", "rnn")
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


class Objects:
    """A cluster that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], dict[str, Any]] = {}
        self.away = False

    def get(self, kind: str, _: str, name: str) -> dict[str, Any] | None:
        if self.away:
            raise EngineError("no answer")
        return self.kept.get((kind, name))

    def create(self, kind: str, _: str, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        key = kind, manifest["metadata"]["name"]
        if key in self.kept:
            return None
        self.kept[key] = {**manifest, "metadata": {**manifest["metadata"], "uid": str(len(self.kept))}}
        return self.kept[key]

    def delete(self, _: str, __: str, name: str) -> None:
        for kind in ("jobs", "secrets"):
            self.kept.pop((kind, name), None)

    def close(self) -> None:
        pass

    def sent(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.kept["secrets", NAME]["stringData"]["job.json"]))


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records.open(None, tmp_path)
    yield made
    made.close()


@pytest.fixture
def key() -> Cipher:
    return Cipher(Fernet.generate_key())


@pytest.fixture
def waiting(records: Records, key: Cipher) -> Waiting:
    submissions = Submissions(records, key)
    submissions.submit(Submission("rnn", NAME, "lab", JOB, "ana@example.com"))
    (one,) = submissions.open("lab")
    return one


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    monkeypatch.setattr(launchers, "_ASK_SECONDS", -1.0)
    return Objects()


def pods(records: Records, key: Cipher, objects: Objects) -> ClusterLauncher:
    spec = parse_environment(SPEC, project="my-project", source="x")
    cluster = cast("Cluster", objects)
    return ClusterLauncher("lab", spec, DRIVER, records=records, cipher=key, connect=lambda: cluster)


def test_a_pod_gets_the_whole_job_with_the_labels_of_now_and_who_sent_it(
    records: Records, key: Cipher, objects: Objects, waiting: Waiting
) -> None:
    records.set_labels("rnn", {"team": "b"})
    handle = pods(records, key, objects).start(waiting)
    assert handle.alive()
    assert objects.sent() == {**JOB, "labels": {"team": "b"}}
    (container,) = objects.kept["jobs", NAME]["spec"]["template"]["spec"]["containers"]
    (who,) = [one["value"] for one in container["env"] if one["name"] == "ENCAMP_STARTED_BY_ACCOUNT"]
    assert who == "ana@example.com"


def test_another_server_finds_the_pod_and_begins_no_second_one(
    records: Records, key: Cipher, objects: Objects, waiting: Waiting
) -> None:
    assert pods(records, key, objects).find(waiting) is None
    pods(records, key, objects).start(waiting)
    made = dict(objects.kept)
    later = pods(records, key, objects)
    found = later.find(waiting)
    assert found is not None
    assert later.start(waiting).alive()
    assert objects.kept == made
    # Who does not answer says nothing about its pods.
    objects.away = True
    assert found.alive()
    objects.away = False
    objects.kept["jobs", NAME]["status"] = FAILED
    assert not found.alive()
    assert later.find(waiting) is None
    assert later.adopt(waiting) is None


def test_a_pod_that_has_failed_gives_way_to_the_next(
    records: Records, key: Cipher, objects: Objects, waiting: Waiting
) -> None:
    launcher = pods(records, key, objects)
    launcher.start(waiting)
    objects.kept["jobs", NAME]["status"] = FAILED
    assert launcher.start(waiting).alive()
    assert "status" not in objects.kept["jobs", NAME]


def test_what_no_key_opens_is_handed_to_nobody(records: Records, objects: Objects, waiting: Waiting) -> None:
    with pytest.raises(DecryptionError):
        pods(records, Cipher(Fernet.generate_key()), objects).start(waiting)
    assert objects.kept == {}


CHECKS_IN = """
import pathlib, sys
from encamp.run.store.records import Records
from encamp.run.store.submissions import Submissions
print(Submissions(Records.open(None, pathlib.Path(sys.argv[1]))).check_in("rnn"), flush=True)
input()
"""


@pytest.mark.slow
def test_a_driver_of_this_machine_is_found_by_what_it_said_of_itself(
    records: Records, waiting: Waiting, tmp_path: Path
) -> None:
    launcher = LocalLauncher("lab", tmp_path)
    assert launcher.find(waiting) is None
    driver = subprocess.Popen(
        [sys.executable, "-c", CHECKS_IN, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": "infra"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "True\n"
    (now,) = Submissions(records).open("lab")
    found = launcher.find(now)
    assert found is not None
    assert found.alive()
    driver.communicate("\n")
    assert not found.alive()
    assert launcher.find(now) is None
