"""What is kept of a run: of its file, of what was seen, and of who works on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.acceptance.evidence import Evidence

from encamp.acceptance.answers import BeliefAnswer, BeliefState, overall
from encamp.acceptance.progress import Progress, RungResult, find, unfinished
from encamp.acceptance.sightings import Sightings
from encamp.acceptance.watcher import NODES, PODS
from encamp.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

HELD = BeliefAnswer("b", BeliefState.HELD, "cpu", "as believed")
DEAD = json.dumps({"host": "here", "place": "elsewhere", "pid": 1, "started": 0.0})


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress.begin(tmp_path, "lab", "20261122_090000", 1_795_000_000.0)


def test_a_run_is_read_as_it_was_kept(progress: Progress, tmp_path: Path) -> None:
    progress.claimed = True
    progress.note("cpu", RungResult("job_1"))
    progress.note("cpu", RungResult("job_2", "SUCCEEDED", as_believed=True, cost=0.01, seconds=20.0))
    progress.add(iter([HELD]))
    found = find(tmp_path, "lab", progress.run)
    assert found == progress
    assert found is not None
    assert found.jobs == ["job_1", "job_2"], "also those that a killed process had begun"
    assert find(tmp_path, "lab", "another") is None


def test_an_answer_of_the_same_place_replaces_the_one_before(progress: Progress) -> None:
    other = BeliefAnswer("b", BeliefState.BROKEN, "cpu", "otherwise")
    elsewhere = BeliefAnswer("b", BeliefState.HELD, "spot", "as believed")
    progress.add(iter([HELD, elsewhere]))
    progress.add(iter([other]))
    assert progress.answers == [elsewhere, other]
    state, given = overall(progress.answers)["b"]
    assert (state, given) == (BeliefState.BROKEN, (elsewhere, other)), "one place where it is broken outweighs others"


def test_runs_that_did_not_finish_are_found_and_a_living_one_is_refused(progress: Progress, tmp_path: Path) -> None:
    assert [one.run for one in unfinished(tmp_path, "lab")] == [progress.run]
    assert unfinished(tmp_path, "other") == []
    with pytest.raises(UsageError, match="runs the ladder on lab"):
        progress.take_over()
    progress.holder = DEAD
    progress.save()
    (dead,) = unfinished(tmp_path, "lab")
    assert not dead.is_alive
    dead.take_over()
    assert dead.is_alive
    dead.finished = True
    dead.save()
    assert not dead.is_alive
    assert unfinished(tmp_path, "lab") == []


def test_a_file_that_cannot_be_read_is_named(progress: Progress, tmp_path: Path) -> None:
    (progress.folder / "run.json").write_text("{")
    with pytest.raises(UsageError) as caught:
        unfinished(tmp_path, "lab")
    assert str(progress.folder / "run.json") in str(caught.value)


def test_sightings_keep_what_is_new_and_note_what_is_gone(tmp_path: Path) -> None:
    seen = Sightings()
    node = {"metadata": {"uid": "n", "name": "a"}}
    seen.note(NODES, [node], 1.0)
    seen.note(NODES, [node], 2.0)
    seen.note(NODES, [{**node, "spec": {"unschedulable": True}}, {"name": "pool"}], 3.0)
    seen.note(NODES, [{"name": "pool"}], 4.0)
    versions = dict(seen.versions(NODES))
    assert [one.at for one in versions["n"]] == [1.0, 3.0]
    assert seen.gone(NODES) == {"n": 4.0}
    assert [item.get("name") for item in seen.latest(NODES)] == [None, "pool"]
    assert seen.latest(PODS) == []
    seen.note(NODES, [node, {"name": "pool"}], 5.0)
    assert seen.gone(NODES) == {}, "it is back"
    seen.write(tmp_path / "seen.json")
    read = Sightings.read(tmp_path / "seen.json")
    assert (dict(read.versions(NODES)), read.gone(NODES)) == (dict(seen.versions(NODES)), seen.gone(NODES))


def test_one_object_does_not_fill_the_memory() -> None:
    seen = Sightings()
    for number in range(1000):
        seen.note(PODS, [{"metadata": {"uid": "p"}, "number": number}], float(number))
    ((_, versions),) = seen.versions(PODS)
    assert len(versions) == 60


def test_nodes_of_pools_that_are_shared_have_a_plan_too() -> None:
    case = Evidence("cpu").case()
    names = {pool.name for pool in case.plan.node_pools}
    assert {pool.name for _, pool in case.nodes()} == names
