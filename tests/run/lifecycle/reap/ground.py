"""A job that was begun and whose driver has died."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.leftovers import JOB_LABEL
from encamp.run.lifecycle.reap import Finding, ReapOptions, reap
from encamp.run.store.intent import planned_intent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.cloud.rest import GoogleClient

LATER = 4_000_000_000.0


class Ground:
    """A world in which job_1 was begun and its driver has died."""

    def __init__(self, driver: Any, world: Any) -> None:
        self.driver = driver
        self.world = world
        self.google = world.google
        self.labels: dict[str, str] = driver.LABELS
        self.plan = driver.job_plan()

    def record(self, environment: str = "sandbox", deadline: float = LATER, **changes: Any) -> None:
        """Write the record of a driver that died."""
        intent = planned_intent(
            self.plan,
            self.world.context.environment("sandbox"),
            environment_stack=environment,
            stack="job-j",
            folder=str(self.world.context.job_folder("j")),
            deadline=deadline,
            spec_hash="x",
            source=None,
        )
        records = self.world.context.records()
        records.release(records.begin("job_1", "j", {**intent.to_json(), **changes}))
        records.close()

    def stack(self, name: str, **state: Any) -> None:
        empty: dict[str, Any] = {"resources": [], "pending": [], "outputs": {}}
        stacks = {**self.world.stacks, name: {**empty, **state}}
        (self.world.folder / "engine" / "stacks.json").write_text(json.dumps(stacks))

    def furnish(self) -> None:
        """What the cloud lists of the job, and of somebody else's that looks like it."""
        google, labels = self.google, self.labels
        google.add_bucket("scratch", **labels)
        google.pools["j-pool"] = {
            "name": "j-pool",
            "config": {"resourceLabels": labels},
            "placementPolicy": {"policyName": "j-pool"},
        }
        marks = " ".join(f"{key}={value}" for key, value in labels.items())
        google.placements["j-pool"] = {"name": "j-pool", "description": marks}
        google.accounts[self.driver.EMAIL] = {"email": self.driver.EMAIL, "description": marks}
        google.add_bucket("scratch-2", **{**labels, "encamp-owner": "another"})
        google.pools["j-pool-2"] = {"name": "j-pool-2", "config": {"resourceLabels": {JOB_LABEL: "j"}}}
        google.placements["j-pool-2"] = {"name": "j-pool-2", "description": "encamp-job=j encamp-owner=another"}

    def listed(self) -> list[str]:
        google = self.google
        return sorted([*google.buckets, *google.pools, *google.placements, *google.accounts])

    def reap(self, **options: Any) -> Finding:
        (finding,) = reap(self.world.context, "sandbox", ReapOptions(**options))
        return finding

    def found(self) -> Any:
        return self.driver.record_of(self.world)


LOOK_ALIKES = ["artifacts", "j-pool-2", "j-pool-2", "scratch-2"]


@pytest.fixture
def driver(load_module: Callable[[str, str], Any]) -> Any:
    return load_module("encamp_test_driver", "run/lifecycle/driver/world.py")


@pytest.fixture
def ground(driver: Any, google: Any, client: GoogleClient, kubernetes: Any, request: pytest.FixtureRequest) -> Ground:
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    tmp_path: Path = request.getfixturevalue("tmp_path")
    monkeypatch.setattr("encamp.run.lifecycle.teardown._SETTLE_SECONDS", 0.01)
    return Ground(driver, driver.make_world(google, client, kubernetes, tmp_path, monkeypatch))
