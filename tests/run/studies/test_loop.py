from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import EngineError
from encamp.run.store.states import Outcome, State
from encamp.tuning.model import Measurement, Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.study import StudyPlan
    from encamp.run.studies.loop import Study


def _to_its_end(study: Study) -> Outcome:
    for _ in range(200):
        outcome = study.advance()
        if outcome is not None:
            return outcome
    raise AssertionError("it does not end")


def _states(world: Any) -> list[TrialState]:
    return [world.journal[number].state for number in sorted(world.journal)]


def test_every_trial_runs_once_and_no_more_than_may_at_a_time(world: Any) -> None:
    assert _to_its_end(world.study()) == Outcome(State.SUCCEEDED)
    assert sorted(world.journal) == [1, 2, 3, 4, 5, 6]
    assert [call for call in world.calls if call.startswith("begin")] == [f"begin {number}" for number in range(1, 7)]
    assert world.most == 2
    assert world.pods == {}
    assert world.journal[4].final == Measurement(1, 0.04, 1.0)


def test_the_next_trial_begins_in_the_step_that_sees_another_end(world: Any) -> None:
    study = world.study()
    while "keep 1 SUCCEEDED" not in world.calls:
        study.advance()
    after = world.calls[world.calls.index("keep 1 SUCCEEDED") :]
    assert "look" not in after
    assert "begin 3" in after


@pytest.mark.parametrize("failing", [(), (2,), (1, 2, 3)])
def test_killed_at_any_deed_and_started_again_nothing_is_lost_and_nothing_done_twice(
    world: Any, plan: StudyPlan, failing: tuple[int, ...]
) -> None:
    """At each deed in turn, and again two deeds later: the end is that of a study that nobody killed."""
    limited = replace(plan, max_failed_trials=2)
    ends = dict.fromkeys(failing, TrialState.FAILED)
    unharmed = type(world)(ends=ends)
    wanted = _to_its_end(unharmed.study(limited))
    for deed in range(len(unharmed.calls)):
        killed = type(world)(ends=ends)
        outcome: Outcome | None = None
        for fuse in (deed, 2, None):
            killed.fuse = fuse
            with killed.dying():
                outcome = _to_its_end(killed.study(limited))
                break
        assert outcome == wanted, f"killed at deed {deed}"
        assert killed.pods == {}, f"an orphan after deed {deed}"
        assert killed.most <= 2
        assert [trial.values["x"] for trial in killed.journal.values()] == sorted(killed.journal)
        if wanted.state is State.SUCCEEDED:
            assert _states(killed) == _states(unharmed)


def test_a_trial_on_record_that_was_never_begun_is_begun_with_its_values(world: Any) -> None:
    world.journal[1] = Trial(1, {"x": 77}, TrialState.PREPARING, job_id="tune")
    world.study().advance()
    assert "begin 1" in world.calls
    assert world.journal[1].values == {"x": 77}
    assert sorted(world.journal) == [1, 2]


def test_a_running_trial_whose_replicas_somebody_deleted_has_failed(world: Any) -> None:
    study = world.study()
    study.advance()
    study.advance()
    del world.pods[1]
    study.advance()
    assert world.journal[1].state is TrialState.FAILED
    assert world.journal[1].message == "its replicas were deleted by somebody else"


def test_a_trial_that_is_on_no_record_is_stopped(world: Any) -> None:
    world.pods[99] = 0
    study = world.study()
    study.advance()
    assert "stop 99" in world.calls
    study.advance()
    assert 99 not in world.pods


def test_a_trial_that_reported_nothing_has_failed_in_the_words_of_its_host(world: Any) -> None:
    world.measured = dict.fromkeys((1, 2), ())
    world.said[1] = "it reported no metric, but another"
    _to_its_end(world.study())
    assert world.journal[1].state is TrialState.FAILED
    assert world.journal[1].message == "it reported no metric, but another"
    assert world.journal[2].message == "it reported no metric 'accuracy'"
    assert world.journal[3].message == ""


def test_a_metric_that_is_no_number_is_none(world: Any) -> None:
    world.measured[1] = [0.5, float("nan")]
    _to_its_end(world.study())
    assert world.journal[1].message == "its metric 'accuracy' was nan at step 2"
    assert world.journal[1].measurements == (Measurement(1, 0.5, 1.0),)


def test_as_many_failures_as_may_be_end_the_study_and_stop_the_others(world: Any, plan: StudyPlan) -> None:
    world.ends = {1: TrialState.FAILED, 2: TrialState.FAILED}
    world.runs = 3
    study = world.study(replace(plan, max_failed_trials=2, max_parallel_trials=3))
    for number in (1, 2):
        study.advance()
        world.pods[number] = 9
    outcome = _to_its_end(study)
    assert outcome.state is State.FAILED
    assert outcome.message == "2 trials failed, and maxFailedTrials is 2: trial 1: it exited with 1"
    assert "stop 3" in world.calls
    assert _states(world)[:3] == [TrialState.FAILED, TrialState.FAILED, TrialState.CANCELLED]
    assert len(world.journal) <= 4
    assert world.pods == {}


def test_a_job_whose_first_trials_all_fail_is_found_out_early(world: Any, plan: StudyPlan) -> None:
    world.ends = dict.fromkeys(range(1, 7), TrialState.FAILED)
    outcome = _to_its_end(world.study(replace(plan, max_parallel_trials=1)))
    assert outcome.message == "the first 3 trials failed: trial 1: it exited with 1"
    assert len(world.journal) == 3


def test_one_trial_that_succeeds_makes_the_job_succeed(world: Any) -> None:
    world.ends = dict.fromkeys((2, 3, 4, 5, 6), TrialState.FAILED)
    assert _to_its_end(world.study()).state is State.SUCCEEDED


def test_no_trial_that_succeeds_makes_it_fail(world: Any) -> None:
    world.ends = {1: TrialState.FAILED, 2: TrialState.FAILED}
    outcome = _to_its_end(world.study(points=2))
    assert outcome == Outcome(State.FAILED, "no trial succeeded: trial 1: it exited with 1")


def test_a_space_that_is_exhausted_ends_the_study(world: Any) -> None:
    assert _to_its_end(world.study(points=3)).state is State.SUCCEEDED
    assert len(world.journal) == 3


def test_an_unpromising_trial_is_stopped_and_has_succeeded_with_what_it_reached(world: Any, plan: StudyPlan) -> None:
    world.runs = 10
    world.measured = {number: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0] for number in range(1, 7)}

    def unpromising(_: Sequence[Trial], trial: Trial) -> bool:
        return trial.number == 2 and len(trial.measurements) >= 3

    assert _to_its_end(world.study(replace(plan, early_stopping=True), unpromising)).state is State.SUCCEEDED
    stopped = world.journal[2]
    assert (stopped.state, stopped.stopped_early) == (TrialState.SUCCEEDED, True)
    assert stopped.final is not None
    assert 3 <= stopped.final.step < 10
    assert not world.journal[1].stopped_early


def test_nothing_is_stopped_early_where_nobody_asked_for_it(world: Any) -> None:
    def unpromising(*_: Any) -> bool:
        return True

    _to_its_end(world.study(unpromising=unpromising))
    assert not any(trial.stopped_early for trial in world.journal.values())


def test_a_resumed_study_counts_on_and_counts_its_own(world: Any, plan: StudyPlan) -> None:
    for number in (1, 2, 3):
        world.journal[number] = Trial(number, {"x": number}, TrialState.SUCCEEDED, job_id="before")
    study = world.study(replace(plan, max_trials=2))
    assert _to_its_end(study).state is State.SUCCEEDED
    assert [trial.number for trial in study.own] == [4, 5]
    assert world.journal[4].values == {"x": 4}


def test_a_study_that_is_stopped_ends_once_nothing_of_it_runs(world: Any) -> None:
    study = world.study()
    study.advance()
    study.stop(Outcome(State.CANCELLED, "cancelled by the user"))
    assert _to_its_end(study) == Outcome(State.CANCELLED, "cancelled by the user")
    assert _states(world) == [TrialState.CANCELLED, TrialState.CANCELLED]
    assert world.pods == {}


def test_to_observe_begins_nothing_and_settles_what_a_dead_driver_left(world: Any) -> None:
    world.journal = {1: Trial(1, {"x": 1}, TrialState.SUCCEEDED, job_id="tune")}
    world.pods = {1: 9}
    study = world.study()
    assert study.observe() is None
    assert world.pods == {}
    assert sorted(world.journal) == [1]


def test_a_host_that_gives_no_answer_is_asked_again(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    study = world.study()

    def silent(_: Trial) -> None:
        raise EngineError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(world, "begin", silent)
        with pytest.raises(EngineError):
            study.advance()
    assert _to_its_end(study).state is State.SUCCEEDED
    assert sorted(world.journal) == [1, 2, 3, 4, 5, 6]


def test_the_record_does_not_grow_with_the_square_of_what_is_measured(world: Any, plan: StudyPlan) -> None:
    world.runs = 190
    world.measured = {1: [step / 1000 for step in range(1, 191)]}
    _to_its_end(world.study(replace(plan, max_trials=1)))
    assert sum(call.startswith("keep 1 ") for call in world.calls) < 60
    assert len(world.journal[1].measurements) == 190


def test_a_search_that_says_nothing_while_nothing_runs_ends_the_study(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = world.study(points=2)

    def never(*_: Any) -> bool:
        return False

    monkeypatch.setattr(type(study._search), "exhausted", never)
    assert _to_its_end(study).state is State.SUCCEEDED
    assert len(world.journal) == 2
