"""One run on fakes: its order, and that what it made is taken down however it ends."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.acceptance.evidence import OUTPUTS, SPEC, Evidence
from tests.acceptance.test_ladder import HOURLY, PLANNED

from encamp.acceptance import abandoned, run
from encamp.acceptance.cost import within
from encamp.acceptance.environment import Claim, HostEnvironment
from encamp.acceptance.progress import Progress, RungResult, unfinished
from encamp.acceptance.run import AcceptanceRequest, run_acceptance
from encamp.ci.preview import Previewed
from encamp.errors import EncampError, EngineError, ExitCode, TeardownError

if TYPE_CHECKING:
    from collections.abc import Callable

DEAD = '{"host": "here", "place": "elsewhere", "pid": 1, "started": 0.0}'


def giving(value: Callable[[], Any]) -> Callable[..., Any]:
    """A function or class that gives a value whatever it is given."""

    def given(*_: object, **__: object) -> Any:
        return value()

    return given


class World:
    """What a run does to environment, jobs and cloud, in its order; steps can be made to fail."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.up = False
        self.tag: Claim | None = None
        self.fails: dict[str, BaseException] = {}
        self.left: dict[str, tuple[str, ...]] = {}
        self.then: Callable[[str], None] = lambda _: None

    def do(self, what: str) -> None:
        self.did.append(what)
        self.then(what)
        if what in self.fails:
            raise self.fails[what]

    # HostEnvironment
    stack = "acceptance"

    def claim(self) -> Claim | None:
        return self.tag

    def is_up(self) -> bool:
        return self.up

    def bring_up(self, claim: Claim) -> None:
        self.tag, self.up = claim, True
        self.do("up")

    def tear_down(self, run_id: str) -> None:
        assert run_id
        self.do("down")
        self.tag, self.up = None, False

    def interrupt(self) -> None:
        self.did.append("interrupted")

    # Context
    folder = Path()
    client: object = None

    def show(self, line: str) -> None:
        assert line

    def environment(self, _: str) -> Any:
        return OUTPUTS

    def cluster(self, _: Any) -> Any:
        return SimpleNamespace(close=lambda: None)

    def records(self) -> Any:
        return SimpleNamespace(close=lambda: None, records=list)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    class Rung:
        def __init__(self, rung: Any, chosen: str, place: Any) -> None:
            self.rung, self.chosen, self.place = rung, chosen, place

        def run(self) -> Any:
            made.do(self.rung.name)
            if self.place.interrupts.cancelled.is_set():
                return RungResult(self.chosen, "CANCELLED", trouble="CANCELLED"), None
            return RungResult(self.chosen, "SUCCEEDED", as_believed=True), Evidence(self.rung.name).case()

    class Previews:
        def __init__(self, _: Any) -> None:
            pass

        def existing(self, *_: Any, **__: Any) -> Previewed:
            return Previewed((), 17)

    class Storage:
        def __init__(self, _: Any) -> None:
            pass

        def create_bucket(self, *_: Any) -> None:
            made.do("bucket")

        def delete_bucket(self, _: str) -> None:
            made.do("bucket gone")

    monkeypatch.setattr(run, "HostEnvironment", giving(lambda: made))
    monkeypatch.setattr(abandoned, "HostEnvironment", giving(lambda: made))
    monkeypatch.setattr(run, "RungRun", Rung)
    monkeypatch.setattr(run, "Previews", Previews)
    monkeypatch.setattr(run, "Storage", Storage)
    monkeypatch.setattr(run, "operations", giving(tuple))
    monkeypatch.setattr(run, "inventory", giving(lambda: (made.left, {})))
    monkeypatch.setattr(run, "ask_all", giving(lambda: iter(())))
    return made


def request(tmp_path: Path) -> AcceptanceRequest:
    ladder = within(PLANNED[:2], HOURLY, None)
    return AcceptanceRequest(SPEC, "acceptance", tmp_path, tmp_path / "runs", ladder, 0.5)


def begun(tmp_path: Path) -> Progress:
    return Progress.begin(tmp_path / "runs", "acceptance", "20261122_090000", 0.0)


def ran(world: World, tmp_path: Path, progress: Progress | None = None) -> Any:
    return run_acceptance(request(tmp_path), world, progress or begun(tmp_path))  # type: ignore[arg-type]


def test_an_environment_that_is_not_there_is_brought_up_and_taken_down(world: World, tmp_path: Path) -> None:
    result = ran(world, tmp_path)
    assert world.did == ["up", "bucket", "cpu", "spot", "bucket gone", "down"]
    assert result.exit_code is ExitCode.OK
    assert unfinished(tmp_path / "runs", "acceptance") == []


def test_one_that_was_there_is_used_and_left(world: World, tmp_path: Path) -> None:
    world.up = True
    assert ran(world, tmp_path).exit_code is ExitCode.OK
    assert world.did == ["bucket", "cpu", "spot", "bucket gone"]
    assert world.up


@pytest.mark.parametrize("step", ["up", "cpu", "spot"])
def test_a_failure_ends_the_ladder_and_everything_is_taken_down(world: World, tmp_path: Path, step: str) -> None:
    world.fails[step] = EngineError("it failed")
    result = ran(world, tmp_path)
    assert world.did[-2:] == ["bucket gone", "down"]
    assert (str(result.error), result.exit_code) == ("it failed", ExitCode.INFRASTRUCTURE_FAILED)


def test_a_bug_of_ours_leaves_nothing_either(world: World, tmp_path: Path) -> None:
    world.fails["cpu"] = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        ran(world, tmp_path)
    assert world.did[-2:] == ["bucket gone", "down"]


def test_a_signal_ends_the_rung_and_the_ladder_and_a_second_one_changes_nothing(world: World, tmp_path: Path) -> None:
    def then(what: str) -> None:
        if what in ("cpu", "down"):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    world.then = then
    result = ran(world, tmp_path)
    assert [one for one in world.did if one != "interrupted"] == ["up", "bucket", "cpu", "bucket gone", "down"]
    assert (result.error, result.exit_code) == (None, ExitCode.CANCELLED)


def test_what_cannot_be_taken_down_is_tried_again_by_the_next_start_or_by_reap(world: World, tmp_path: Path) -> None:
    world.fails["down"] = TeardownError("a bucket is locked")
    result = ran(world, tmp_path)
    assert result.exit_code is ExitCode.TEARDOWN_FAILED
    (kept,) = unfinished(tmp_path / "runs", "acceptance")
    assert (kept.claimed, kept.ended) == (True, True)
    kept.holder = DEAD
    kept.save()
    assert [said for said, _ in reaped(world, tmp_path, dry_run=True)] == [
        "acceptance run 20261122_090000: would be taken down: its environment and 2 jobs"
    ]
    ((said, error),) = reaped(world, tmp_path)
    assert (said, str(error)) == (
        "acceptance run 20261122_090000: not taken down: its environment and 2 jobs",
        "a bucket is locked",
    )
    world.fails.clear()
    kept.holder = DEAD
    kept.save()
    assert [error for _, error in reaped(world, tmp_path)] == [None]
    assert reaped(world, tmp_path) == []
    assert not world.up


def reaped(world: World, tmp_path: Path, *, dry_run: bool = False) -> list[tuple[str, EncampError | None]]:
    roots = {"checkout": tmp_path, "root": tmp_path / "runs"}
    return list(abandoned.end_abandoned(world, SPEC, "acceptance", dry_run=dry_run, **roots))  # type: ignore[arg-type]


def test_a_run_of_another_machine_is_taken_down_when_its_time_has_passed(world: World, tmp_path: Path) -> None:
    world.up, world.tag = True, Claim("20261101_090000", 4_000_000_000.0)
    assert reaped(world, tmp_path) == []
    world.tag = Claim("20261101_090000", 1_000.0)
    ((said, error),) = reaped(world, tmp_path)
    assert (said, error) == ("acceptance run 20261101_090000: taken down: its environment and 0 jobs", None)


def test_a_living_run_is_left_alone(world: World, tmp_path: Path) -> None:
    begun(tmp_path).save()
    assert reaped(world, tmp_path) == []


def test_what_google_still_lists_is_a_failed_tear_down(world: World, tmp_path: Path) -> None:
    world.left = {"bucket": ("b",)}
    result = ran(world, tmp_path)
    assert (result.exit_code, result.left) == (ExitCode.TEARDOWN_FAILED, ("bucket b",))
    assert "Google still lists bucket b" in str(result.teardown_error)


def test_a_killed_run_is_gone_on_with(world: World, tmp_path: Path) -> None:
    progress = begun(tmp_path)
    progress.claimed, world.up, world.tag = True, True, Claim(progress.run, 4_000_000_000.0)
    progress.note("cpu", RungResult("job_1", "SUCCEEDED", as_believed=True))
    progress.note("spot", RungResult("acceptance_spot_20261122_090000"))
    result = ran(world, tmp_path, progress)
    assert world.did == ["up", "bucket", "spot", "bucket gone", "down"]
    assert result.progress.rungs["spot"].job == "acceptance_spot_20261122_090000_2"
    assert result.progress.rungs["cpu"].job == "job_1"


def test_an_environment_that_cannot_be_taken_down_again_is_not_brought_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encamp.acceptance.environment.JobEngine", giving(lambda: None))
    protected = SPEC.model_copy(update={"protect": True})
    host = HostEnvironment(SimpleNamespace(show=print), protected, "lab", Path())  # type: ignore[arg-type]
    with pytest.raises(EncampError, match="protected from being taken down"):
        host.bring_up(Claim("r", 1.0))
