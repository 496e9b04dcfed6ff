"""A job that could write beside its output forges its logs, its receipt and its study: nobody believes them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.run.history.test_catalogue import REPLICAS, World

from encamp.errors import EncampError, EngineError
from encamp.run.history.accounts import add_up, ended_since
from encamp.run.history.catalogue import UNSPECIFIED
from encamp.run.history.job_resource import job_resource
from encamp.run.history.log_source import LogSource
from encamp.run.history.sealed import find_logs, read_log
from encamp.run.logs.driver_logs import SealedLogs
from encamp.run.store.states import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

SECRET = b"another team's numbers\n"


@pytest.fixture
def world(google: Any, client: GoogleClient, tmp_path: Path) -> Iterator[World]:
    made = World(google, client, tmp_path)
    made.google.add_bucket("payroll")
    made.google.objects["payroll", "2026.csv"] = SECRET
    made.google.objects["artifacts", "jobs/other/output/model"] = SECRET
    made.google.objects["artifacts", "jobs/mine/output/x.log"] = SECRET
    yield made
    made.records.close()


def forge(world: World, **entry: Any) -> None:
    """A manifest of the job "mine" whose only entry says what is given."""
    whole: dict[str, Any] = {
        "replica": REPLICAS[0],
        "object": "gs://payroll/2026.csv",
        "size": len(SECRET),
        "sha256": hashlib.sha256(SECRET).hexdigest(),
        "complete": True,
        "reason": "",
        "exitCode": 0,
        "termination": None,
        "pod": None,
        "attempts": 1,
        **entry,
    }
    text = json.dumps({"version": 1, "replicas": [whole]})
    world.google.objects["artifacts", "jobs/mine/logs/manifest.json"] = text.encode()


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"object": "gs://artifacts/jobs/other/output/model"},
        {"object": "gs://artifacts/jobs/mine/output/x.log"},
        {"object": "gs://artifacts/jobs/mine/logs/../../other/output/model"},
        {"object": f"gs://artifacts/jobs/mine/logs/{REPLICAS[1]}.log"},
        {"replica": "../../../../secret", "object": None},
        {"replica": "/etc/passwd", "object": None},
        {"size": -1},
        {"sha256": None},
        {"complete": "yes"},
        {"termination": "x"},
    ],
)
def test_a_manifest_that_names_what_is_no_log_of_the_job_is_refused(world: World, entry: dict[str, Any]) -> None:
    world.put_receipt("mine")
    forge(world, **entry)
    (world.folder.parent / "secret.log").write_bytes(SECRET)
    with pytest.raises(EngineError, match="manifest of the logs"):
        find_logs(world.catalogue.job("mine"), world.storage, world.spool("mine"))
    with pytest.raises(EngineError, match="manifest of the logs"):
        list(SealedLogs(world.storage, "artifacts", "jobs/mine/").read(REPLICAS[0]))


def test_not_a_byte_is_shown_of_a_log_that_is_not_the_one_that_was_sealed(world: World) -> None:
    world.put_receipt("mine")
    name = f"jobs/mine/logs/{REPLICAS[0]}.log"
    sealed = b"loss 0.1\n" * 100_000
    forge(world, object=f"gs://artifacts/{name}", size=len(sealed), sha256=hashlib.sha256(sealed).hexdigest())
    for content in (b"loss 0.0\n" * 100_000, sealed + b"more\n", sealed[:-1]):
        world.google.objects["artifacts", name] = content
        (log,) = find_logs(world.catalogue.job("mine"), world.storage, world.spool("mine"))
        seen: list[bytes] = []
        with pytest.raises(EngineError, match="SHA-256"):
            seen.extend(read_log(log, world.storage))
        assert seen == []
    world.google.objects["artifacts", name] = sealed
    assert b"".join(read_log(log, world.storage)) == sealed


def test_the_api_shows_nothing_of_a_log_that_is_not_the_one_that_was_sealed(world: World) -> None:
    lease = world.begin("mine", State.PREPARING, State.RUNNING, State.SUCCEEDED)
    world.records.append(lease, "sealed", {"stored": True})
    name = f"jobs/mine/logs/{REPLICAS[0]}.log"
    sealed = b"loss 0.1\n"
    forge(world, object=f"gs://artifacts/{name}", size=len(sealed), sha256=hashlib.sha256(sealed).hexdigest())
    world.google.objects["artifacts", name] = b"loss 0.0\n"
    record = world.records.record("mine")
    assert record is not None
    source = LogSource(world.records, world.catalogue, world.storage, lambda _: world.folder, lambda: None)  # type: ignore[arg-type,return-value]
    texts = source.look(record).texts
    with pytest.raises(EncampError, match="SHA-256"):
        texts.read(REPLICAS[0], 0, 4)
    world.google.objects["artifacts", name] = sealed
    assert texts.read(REPLICAS[0], 5, 8) == b"0.1"


def test_a_job_that_runs_is_not_ended_by_a_receipt_of_its_own(world: World) -> None:
    world.begin("mine", State.PREPARING, State.RUNNING)
    cost: dict[str, Any] = {"currency": "USD", "amount": -5000.0, "machines": {}, "unpriced": []}
    world.put_receipt("mine", cost=cost)
    known = world.catalogue.job("mine")
    assert (known.state, known.receipt, known.torn_down, known.cost) == ("RUNNING", None, False, None)
    assert ended_since(world.catalogue.jobs(), None) == []
    assert job_resource(known, world.storage, world.spool("mine"))["state"] == "RUNNING"


def test_a_record_is_believed_before_the_bucket(world: World) -> None:
    lease = world.begin("mine", State.PREPARING, State.RUNNING, State.FAILED)
    world.records.append(lease, "receipt", {**world.put_receipt("mine", "FAILED"), "cost": {"amount": 3.0}})
    world.put_receipt("mine", "SUCCEEDED")
    known = world.catalogue.job("mine")
    assert (known.state, known.cost) == ("FAILED", 3.0)


@pytest.mark.parametrize(
    "more",
    [
        {"cost": {"currency": "USD", "amount": -5000.0, "machines": {}, "unpriced": []}},
        {"cost": {"currency": "USD", "amount": 1.0, "machines": {"a": -1.0}, "unpriced": []}},
        {"cost": {"currency": "USD", "amount": "1", "machines": {}, "unpriced": []}},
        {"cost": []},
        {"nodeSeconds": {"n1-standard-4": -1.0}},
        {"nodeSeconds": {"n1-standard-4": float("nan")}},
        {"nodeSeconds": {"n1-standard-4": float("inf")}},
        {"environment": "another"},
        {"environment": None},
        {"jobId": "other"},
        {"version": 99},
        {"version": "1"},
        {"outcome": {"state": "RUNNING", "message": "", "failure": None}},
        {"outcome": {"state": "DONE", "message": "", "failure": None}},
        {"outcome": {"message": ""}},
        {"outcome": {"state": "FAILED", "message": "", "failure": {"replica": 1}}},
        {"outcome": None},
        {"times": {"QUEUED": "2026-05-02T10:00:00+00:00", "SUCCEEDED": "2026-05-02T09:00:00+00:00"}},
        {"times": {"QUEUED": "2026-05-02T10:00:00", "SUCCEEDED": "2026-05-02T11:00:00"}},
        {"times": {"QUEUED": "2026-05-02T10:00:00+00:00", "SUCCEEDED": "2226-05-02T11:00:00+00:00"}},
        {"times": {"QUEUED": "yesterday"}},
        {"times": {"FAILED": "2026-05-02T10:00:00+00:00"}},
        {"left": "nothing"},
        {"results": {"kept": "gs://payroll/"}},
        {"resources": [1]},
        {"logs": {"complete": "x"}},
    ],
)
def test_a_receipt_that_cannot_be_true_counts_for_nothing(world: World, more: dict[str, Any]) -> None:
    receipt = world.put_receipt("mine")
    world.google.objects["artifacts", "jobs/mine/receipt.json"] = json.dumps({**receipt, **more}).encode()
    known = world.catalogue.job("mine")
    assert (known.state, known.receipt) == (UNSPECIFIED, None)
    assert "receipt" in known.message
    assert add_up(ended_since(world.catalogue.jobs(), datetime(2020, 1, 1, tzinfo=UTC)))["cost"]["amount"] == 0
