"""Teams that change take effect in a service that runs; what cannot be read changes nothing."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.api.test_strangers import serving
from tests.api.test_wire import JOBS, ask, request
from tests.api.world import DEVELOPER, VIEWER, job, world

from encamp.api.access import Access
from encamp.api.caller import Caller
from encamp.api.live_access import AccessFile, LiveAccess
from encamp.errors import EncampError, UsageError
from encamp.plan.environment.api import api_objects
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import EnvironmentSpec, parse_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANA = Caller("ana@example.com", frozenset({"user:ana@example.com"}))
BOB = Caller("bob@example.com", frozenset({"user:bob@example.com"}))


def team(*members: str, role: str = "ml.developer") -> dict[str, Any]:
    return {"teams": [{"name": "makers", "members": [f"user:{one}@example.com" for one in members], "roles": [role]}]}


def environment(**more: Any) -> dict[str, Any]:
    return {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", **more}


class Committed:
    """A checkout with one environment's stack config."""

    def __init__(self, folder: Path) -> None:
        (folder / "stacks").mkdir()
        self.path = folder / "stacks" / "Pulumi.lab.yaml"
        self.file = AccessFile.committed("lab", folder)

    def write(self, text: str | None = None, **more: Any) -> None:
        """Commit something else; its time is another, however coarse the clock of the file system."""
        config = {"config": {"gcp:project": "my-project", "encamp:environment": environment(**more)}}
        self.path.write_text(yaml.safe_dump(config) if text is None else text)
        later = time.time_ns() + self.path.stat().st_size * 1_000_000
        os.utime(self.path, ns=(later, later))


@pytest.fixture
def committed(tmp_path: Path) -> Committed:
    found = Committed(tmp_path)
    found.write(access=team("ana"))
    return found


def may(access: Access, caller: Caller) -> bool:
    return "ml.jobs.create" in access.permissions(caller)


def test_who_joins_may_and_who_leaves_may_not(committed: Committed) -> None:
    access = Access(committed.file.read())
    live = LiveAccess(access, committed.file)
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (True, False)
    committed.write(access=team("bob", "eve"))
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (False, True)
    committed.write()
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (False, False)


@pytest.mark.parametrize(
    "text",
    ["", "config: [", "config: {}", "config:\n  encamp:environment:\n    name: lab\n    access: {teams: nobody}\n"],
)
def test_what_cannot_be_read_changes_nothing_and_is_told_once(
    committed: Committed, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    access = Access(committed.file.read())
    live = LiveAccess(access, committed.file)
    live.look()
    committed.write(text)
    assert [live.step() for _ in range(3)] == [True] * 3
    assert may(access, ANA)
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1
    committed.path.unlink()
    live.step()
    assert may(access, ANA)
    committed.write(access=team("bob"))
    live.step()
    assert (may(access, ANA), may(access, BOB)) == (False, True)


def test_a_file_that_is_wrong_at_the_start_is_told_then(committed: Committed) -> None:
    access = Access(committed.file.read())
    committed.write("config: [")
    with pytest.raises(EncampError):
        LiveAccess(access, committed.file).look()


def in_cluster(**more: Any) -> EnvironmentSpec:
    driver = {"image": "us-docker.pkg.dev/p/encamp/encamp:1", "backendUrl": "gs://s", "recordSecret": "encamp-record"}
    api = {"recordSecret": "encamp-record", **more.pop("api", {})}
    return parse_environment(environment(driver=driver, api=api, **more), project="my-project", source="the test")


def written(spec: EnvironmentSpec) -> str:
    """What ``pulumi up`` writes for the pods."""
    plan = plan_environment(spec).api
    assert plan is not None
    (found,) = (one for one in api_objects(plan, "prod") if one["kind"] == "ConfigMap")
    return str(found["data"]["teams.json"])


def test_a_pod_decides_by_what_pulumi_wrote_for_it(tmp_path: Path) -> None:
    trainer = "trainer@my-project.iam.gserviceaccount.com"
    before, after = in_cluster(access=team("ana")), in_cluster(access=team("bob"), api={"actAs": [trainer]})
    path = tmp_path / "teams.json"
    path.write_text(written(before))
    access = Access(before)
    live = LiveAccess(access, AccessFile.given(path, before))
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (True, False)
    # The kubelet puts another folder in the place of the present one.
    (tmp_path / "new").write_text(written(after))
    (tmp_path / "new").rename(path)
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (False, True)
    access.require_act_as(BOB, trainer)
    (tmp_path / "new").write_text(written(in_cluster()))
    (tmp_path / "new").rename(path)
    live.look()
    assert (may(access, ANA), may(access, BOB)) == (False, False)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"access": {"teams": 5}}', '{"access": {"teams": [{"name": "A"}]}}'])
def test_a_file_of_teams_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "teams.json"
    path.write_text(text)
    with pytest.raises(EncampError):
        AccessFile.given(path, in_cluster()).read()
    with pytest.raises(UsageError):
        AccessFile.given(tmp_path / "missing", in_cluster()).read()


def wait(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_a_service_that_runs_takes_what_is_committed(tmp_path: Path) -> None:
    """Without a restart: who had only looked creates jobs, and who had created them looks no more."""
    (tmp_path / "checkout").mkdir()
    committed = Committed(tmp_path / "checkout")
    with world(tmp_path) as found, serving(found) as address:

        def code(token: str, name: str) -> int:
            return ask(address, request("POST", JOBS, job(name), authorization=f"Bearer {token}")).code

        assert (code(DEVELOPER, "a"), code(VIEWER, "b")) == (200, 403)
        with LiveAccess(found.access, committed.file, seconds=0.05):
            committed.write(access=team("vic"))
            wait(lambda: code(DEVELOPER, "a") == 403)
            assert code(VIEWER, "d") == 200
            assert sorted(one.job_id for one in found.records.records()) == ["a", "d"]
