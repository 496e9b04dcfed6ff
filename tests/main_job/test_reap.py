"""Jobs whose driver and engine are killed with the real engine at work, and what then tells of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from encamp.cloud.resources import Container
from encamp.cloud.rest import GoogleClient
from encamp.plan.names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.camp import Camp, Command

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

CLUSTER = "projects/sandbox-encamp/locations/us-central1/clusters/encamp"


def name_of(job_id: str) -> str:
    return short_name("sandbox-encamp", "sandbox", job_id)


def killed(command: Command) -> None:
    """Kill a driver and everything that it started, in one moment."""
    driver = psutil.Process(command.process.pid)
    family = [driver, *driver.children(recursive=True)]
    for process in family:
        process.suspend()
    for process in family:
        os.kill(process.pid, signal.SIGKILL)
    command.process.wait()


def state_of(camp: Camp) -> Path:
    return camp.layout.root / "state"


def forget_state(camp: Camp, stack: str) -> None:
    """Delete a stack's state and its lock, as a lost disk does."""
    found = [path for path in camp.layout.pulumi_backend.rglob(f"*{stack}*") if "stacks" in path.parts]
    assert found
    for path in camp.layout.pulumi_backend.rglob(f"*{stack}*"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def forget_record(camp: Camp, job_id: str) -> None:
    """Delete a job from the record, as one that was written elsewhere."""
    with closing(sqlite3.connect(state_of(camp) / "records.sqlite3", timeout=30)) as database:
        for table in ("jobs", "journal", "leases"):
            database.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))  # noqa: S608 - names of ours
        database.commit()


def test_an_engine_killed_in_the_middle_of_a_create_leaves_nothing(camp: Camp, job: Callable[..., str]) -> None:
    """The pool's create is done and never answered; beside it stands one of another owner that looks like it."""
    container = Container(GoogleClient())
    front = httpx.Client(
        base_url=f"http://127.0.0.1:{camp.layout.ports.front}",
        headers={"authorization": f"Bearer {camp.layout.token}"},
        trust_env=False,
    )
    with front:
        fault = {"type": "container:nodePools", "operation": "create", "kind": "pause-after"}
        path = f"/encamp/v1/faults/{front.post('/encamp/v1/faults', json=fault).json()['id']}"
        command = camp.start("run", job("chief-0=sleep"), "--job-id", "cut")
        end = time.monotonic() + 120
        while not front.get(path).json()["reached"]:
            assert time.monotonic() < end, command.said()
            time.sleep(0.1)
        killed(command)
        front.delete(path)
    said = camp.encamp("reap", "--dry-run")
    assert "cut: would be brought to its end: its driver died before the training began" in said
    assert "node pool" in said
    said = camp.encamp("reap")
    assert "clearing the lock of a dead engine" in said
    assert "had no answer when it was created, and exists: deleting node pool" in said
    assert camp.receipt("cut")["outcome"]["state"] == "FAILED"
    camp.assert_nothing_left("cut")
    assert not any(pool["name"].startswith(name_of("cut")) for pool in container.node_pools(CLUSTER))


def test_jobs_that_lost_record_or_state_or_both_come_to_their_ends(camp: Camp, job: Callable[..., str]) -> None:
    ids = ("no_state", "no_record", "neither")
    # Long enough for the reaper to see replicas run: when they started, nobody else knows.
    path = job("chief-0=exit:0:45", "worker-0=sleep", "worker-1=sleep")
    commands = [camp.start("run", path, "--job-id", one) for one in ids]
    for command in commands:
        command.until("the job is RUNNING", seconds=240)
        killed(command)
    for job_id in ("no_state", "neither"):
        forget_state(camp, f"job-{name_of(job_id)}")
    for job_id in ("no_record", "neither"):
        forget_record(camp, job_id)
    said = camp.encamp("reap", "--wait")
    for job_id in ids:
        assert f"{job_id}: brought to its end" in said
        assert camp.receipt(job_id)["outcome"]["state"] == "SUCCEEDED"
        # Also of a job that nobody had on record, as one by plain `pulumi up`.
        described = json.loads(camp.encamp("describe", job_id, "--format", "json"))
        assert described["trainingInput"]["args"][0] == "--act=chief-0=exit:0:45"
        times = [datetime.fromisoformat(described[f"{name}Time"]) for name in ("create", "start", "end")]
        assert times == sorted(times)
        assert (times[2] - times[1]).total_seconds() >= 10
        assert "chief-0 is here and will exit" in camp.read(job_id, "logs/master-replica-0.log")
        camp.assert_nothing_left(job_id)
    assert camp.encamp("reap", "--quiet") == ""


def test_states_that_nobody_can_read_stop_no_other_job(camp: Camp, job: Callable[..., str]) -> None:
    """One is cancelled, the others are reaped; each file is named and kept."""
    damages: dict[str, Callable[[bytes], bytes]] = {
        "torn": lambda whole: whole[: len(whole) // 2],
        "garbled": lambda _: b"garbage {",
        "emptied": lambda _: b"",
    }
    for job_id in (*damages, "sound"):
        path = job("chief-0=sleep" if job_id == "torn" else "chief-0=exit:0:12", "worker-0=sleep", "worker-1=sleep")
        command = camp.start("run", path, "--job-id", job_id)
        command.until("the job is RUNNING", seconds=240)
        killed(command)
    states = camp.layout.pulumi_backend / ".pulumi" / "stacks" / "encamp"
    for job_id, damage in damages.items():
        state = states / f"job-{name_of(job_id)}.json"
        state.write_bytes(damage(state.read_bytes()))
    (states / "job-nobodys.json").write_text("x")
    assert "torn is CANCELLED" in camp.encamp("cancel", "torn")
    assert "torn" in camp.encamp("list")
    said = camp.encamp("reap", "--wait")
    for job_id in ("garbled", "emptied", "sound"):
        assert f"{job_id}: brought to its end" in said
        assert camp.receipt(job_id)["outcome"]["state"] == "SUCCEEDED"
    for job_id in ("garbled", "emptied"):
        assert f"its state {states / f'job-{name_of(job_id)}.json'} cannot be read" in said
    assert "stack job-nobodys: its unreadable state is set aside" in said
    aside = states.parents[1] / "unreadable" / "encamp"
    kept = {one.name.partition(".json")[0] for one in aside.iterdir() if not one.name.endswith(".attrs")}
    assert kept == {*(f"job-{name_of(job_id)}" for job_id in damages), "job-nobodys"}
    for job_id in (*damages, "sound"):
        camp.assert_nothing_left(job_id)
    assert camp.encamp("reap", "--quiet") == ""
