"""Which trials are the best, which are unpromising, and how a population goes on."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.best import better, ranked
from encamp.tuning.methods import search_for
from encamp.tuning.model import Measurement, Trial, TrialState
from encamp.tuning.stopping import unpromising

UP = StudyPlan(
    goal=Goal.MAXIMIZE,
    metric="accuracy",
    parameters=(
        ParameterPlan("rate", ParameterType.DOUBLE, 0.0, 1.0),
        ParameterPlan("layers", ParameterType.INTEGER, 1, 8),
    ),
    algorithm=Algorithm.POPULATION_BASED_TRAINING,
    max_trials=40,
    max_parallel_trials=4,
    max_failed_trials=0,
    early_stopping=True,
    resumes=None,
    seed=3,
)
DOWN = replace(UP, goal=Goal.MINIMIZE)


def trial(number: int, *curve: float, state: TrialState = TrialState.SUCCEEDED, parent: int | None = None) -> Trial:
    """A trial that reported these, at the steps 10, 20 and so on."""
    reports = tuple(Measurement(step=place * 10, value=value, at=0.0) for place, value in enumerate(curve, 1))
    over = state.ended
    return Trial(
        number,
        {"rate": number / 100, "layers": 4},
        state,
        measurements=reports,
        final=reports[-1] if reports and over else None,
        parent=parent,
        ended=float(number) if over else None,
    )


def test_the_best_come_first_then_what_has_no_metric() -> None:
    trials = [
        trial(1, 0.5),
        trial(2, 0.9, state=TrialState.FAILED),
        trial(3, 0.8),
        trial(4, math.nan),
        trial(5, state=TrialState.RUNNING),
        trial(6, 0.8),
    ]
    assert [one.number for one in ranked(UP, trials)] == [3, 6, 1, 4, 2, 5]
    assert [one.number for one in ranked(DOWN, trials)] == [1, 3, 6, 4, 2, 5]


def test_better_is_what_the_goal_says() -> None:
    assert better(UP, 2, 1)
    assert better(DOWN, 1, 2)
    assert not better(UP, 1, 1)


OTHERS = [trial(1, 0.2, 0.4, 0.6), trial(2, 0.3, 0.5, 0.7), trial(3, 0.4, 0.6, 0.8)]


@pytest.mark.parametrize(
    ("curve", "over"),
    [
        ((0.1, 0.3), True),  # the averages up to step 20 are 0.3, 0.4 and 0.5
        ((0.1, 0.4), False),
        ((0.45, 0.1), False),  # its best counts, not its last
        ((0.1,), False),
        ((), False),
        ((math.nan, math.nan), True),
        ((0.1, 0.1, 0.1, 0.1), False),  # nobody has come so far
    ],
)
def test_the_median_rule(curve: tuple[float, ...], over: bool) -> None:
    assert unpromising(UP, OTHERS, trial(9, *curve, state=TrialState.RUNNING)) is over


def test_the_median_rule_turns_to_the_goal() -> None:
    turned = [replace(one, measurements=tuple(replace(m, value=-m.value) for m in one.measurements)) for one in OTHERS]
    assert unpromising(DOWN, turned, trial(9, -0.1, -0.3, state=TrialState.RUNNING))
    assert not unpromising(DOWN, turned, trial(9, -0.1, -0.6, state=TrialState.RUNNING))


def test_two_others_are_no_measure() -> None:
    assert not unpromising(UP, OTHERS[:2], trial(9, 0.0, 0.0, state=TrialState.RUNNING))


def test_trials_that_failed_or_run_are_no_measure() -> None:
    others = [*OTHERS[:2], trial(3, 0.9, 0.9, state=TrialState.FAILED), trial(4, 0.9, 0.9, state=TrialState.RUNNING)]
    assert not unpromising(UP, others, trial(9, 0.0, 0.0, state=TrialState.RUNNING))


def test_a_population_waits_for_none_but_its_own() -> None:
    founders = [trial(number, state=TrialState.RUNNING) for number in (1, 2, 3, 4)]
    search = search_for(UP)
    assert search.ask(founders, 4) == []
    assert len(search.ask(founders[:3], 4)) == 1
    assert len(search.ask([founders[0], trial(2, 0.5), *founders[2:]], 4)) == 1
    assert not search.exhausted(founders)


def test_who_does_well_goes_on_as_it_is() -> None:
    members = [trial(1, 0.5), trial(2, 0.9), trial(3, 0.6), trial(4, 0.7)]
    asked = search_for(UP).ask(members, 4)
    assert [one.parent for one in asked] == [2, 2, 3, 4]
    assert asked[1].values == members[1].values
    assert asked[0].values != members[1].values


@pytest.mark.parametrize("state", [TrialState.FAILED, TrialState.CANCELLED])
def test_who_has_failed_gives_way_to_the_best(state: TrialState) -> None:
    members = [trial(1, 0.5), trial(2, 0.4), trial(3, 0.9), trial(4, 0.99, state=state)]
    assert [one.parent for one in search_for(UP).ask(members, 4)] == [1, 2, 3, 3]


def test_a_population_of_failures_begins_anew() -> None:
    members = [trial(number, state=TrialState.FAILED) for number in (1, 2, 3, 4)]
    asked = search_for(UP).ask(members, 4)
    assert [one.parent for one in asked] == [None] * 4
    assert len({one.values["rate"] for one in asked}) == 4


def test_every_trial_that_ends_has_one_heir() -> None:
    trials = [trial(1, 0.5), trial(2, 0.9), trial(3, 0.6), trial(4, state=TrialState.RUNNING)]
    first = search_for(UP).ask(trials, 2)
    heirs = [trial(number, state=TrialState.RUNNING, parent=one.parent) for number, one in enumerate(first, 5)]
    (third,) = search_for(UP).ask([*trials, *heirs], 4)
    assert third.parent == 3


def test_a_population_finds_a_schedule_that_no_single_trial_has() -> None:
    """Each trial adds to its parent's score what its rate is worth at that age: high ones early, low ones late."""
    scores: dict[int, tuple[float, int]] = {}
    trials: list[Trial] = []
    for number in range(1, 41):
        (asked,) = search_for(UP).ask(trials, 1)
        score, age = scores[asked.parent] if asked.parent is not None else (0.0, 0)
        score += 1 - abs(float(asked.values["rate"]) - max(0.9 - 0.1 * age, 0.1))
        scores[number] = (score, age + 1)
        one = trial(number, score, parent=asked.parent)
        trials.append(replace(one, values=asked.values))
    assert max(score / age for score, age in scores.values() if age >= 8) > 0.75
