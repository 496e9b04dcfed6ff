"""One contract, held by every method of search."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.spec.tuning import Algorithm, Goal, ParameterScale, ParameterType
from encamp.tuning.methods import search_for
from encamp.tuning.model import Measurement, Trial, TrialState
from encamp.tuning.space import point_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from encamp.tuning.model import Value
    from encamp.tuning.search import Suggestion

pytestmark = pytest.mark.slow

RATE = ParameterPlan("rate", ParameterType.DOUBLE, 1e-5, 1.0, scale=ParameterScale.UNIT_LOG_SCALE)
DECAY = ParameterPlan("decay", ParameterType.DOUBLE, 0.5, 0.999, scale=ParameterScale.UNIT_REVERSE_LOG_SCALE)
LAYERS = ParameterPlan("layers", ParameterType.INTEGER, 1, 8)
BATCH = ParameterPlan("batch", ParameterType.DISCRETE, values=(16.0, 32.0, 64.0))
OPTIMIZER = ParameterPlan("optimizer", ParameterType.CATEGORICAL, values=("adam", "sgd"))
COUNTABLE = (LAYERS, BATCH, OPTIMIZER)

METHODS = list(Algorithm)


def study(algorithm: Algorithm, **changed: Any) -> StudyPlan:
    space = COUNTABLE if algorithm is Algorithm.GRID_SEARCH else (RATE, DECAY, *COUNTABLE)
    plan = StudyPlan(
        goal=Goal.MAXIMIZE,
        metric="accuracy",
        parameters=space,
        algorithm=algorithm,
        max_trials=60,
        max_parallel_trials=3,
        max_failed_trials=0,
        early_stopping=False,
        resumes=None,
        seed=20,
    )
    return replace(plan, **changed)


def accuracy(values: dict[str, Value]) -> float:
    """Best at a rate of 0.01, 5 layers, batches of 32 and adam."""
    rate, layers = float(values.get("rate", 0.01)), float(values.get("layers", 5))
    batch = math.log2(float(values.get("batch", 32)))
    return (
        -((math.log10(rate) + 2) ** 2) - (layers - 5) ** 2 / 8 - (batch - 5) ** 2 - (values.get("optimizer") == "sgd")
    )


def ended(trial: Trial) -> Trial:
    final = Measurement(step=1, value=accuracy(dict(trial.values)), at=trial.number)
    return replace(trial, state=TrialState.SUCCEEDED, measurements=(final,), final=final, ended=float(trial.number))


def failed(trial: Trial) -> Trial:
    return replace(trial, state=TrialState.FAILED, message="exit code 1", ended=float(trial.number))


def begun(known: Sequence[Trial], asked: Sequence[Suggestion]) -> list[Trial]:
    return [
        Trial(len(known) + place, one.values, TrialState.RUNNING, parent=one.parent)
        for place, one in enumerate(asked, 1)
    ]


def run(plan: StudyPlan, number: int, end: Callable[[Trial], Trial] = ended) -> list[Trial]:
    """A study of so many trials, as many at a time as it says, each ended before the next are asked for."""
    return list(once(plan, number, end))


@cache
def once(plan: StudyPlan, number: int, end: Callable[[Trial], Trial]) -> tuple[Trial, ...]:
    return tuple(anew(plan, number, end))


def anew(plan: StudyPlan, number: int, end: Callable[[Trial], Trial] = ended) -> list[Trial]:
    trials: list[Trial] = []
    while len(trials) < number and not search_for(plan).exhausted(trials):
        asked = search_for(plan).ask(trials, min(plan.max_parallel_trials, number - len(trials)))
        assert asked
        trials += [end(trial) for trial in begun(trials, asked)]
    return trials


def values_of(trials: Sequence[Trial]) -> list[dict[str, Value]]:
    return [dict(trial.values) for trial in trials]


@pytest.mark.parametrize("method", METHODS)
class TestContract:
    def test_every_value_lies_in_the_space_in_the_order_of_the_job_file(self, method: Algorithm) -> None:
        plan = study(method)
        for trial in run(plan, 15):
            assert point_of(plan.parameters, trial.values) is not None
            assert list(trial.values) == [one.name for one in plan.parameters]

    def test_values_have_the_type_of_their_parameter(self, method: Algorithm) -> None:
        kinds = {ParameterType.DOUBLE: float, ParameterType.DISCRETE: float, ParameterType.INTEGER: int}
        plan = study(method)
        for trial in run(plan, 15):
            assert [type(value) for value in trial.values.values()] == [
                kinds.get(one.type, str) for one in plan.parameters
            ]

    def test_the_same_trials_lead_to_the_same_values(self, method: Algorithm) -> None:
        plan = study(method)
        assert anew(plan, 12) == run(plan, 12)

    def test_whoever_goes_on_with_a_study_goes_on_as_its_first_driver_would_have(self, method: Algorithm) -> None:
        plan = study(method)
        whole, part = run(plan, 15), run(plan, 12)
        assert [one.values for one in search_for(plan).ask(part, 3)] == values_of(whole[12:])

    def test_two_at_once_are_what_one_after_the_other_is(self, method: Algorithm) -> None:
        plan = study(method)
        for known in (run(plan, 0), run(plan, 12)):
            both = search_for(plan).ask(known, 2)
            first = search_for(plan).ask(known, 1)
            second = search_for(plan).ask([*known, *begun(known, first)], 1)
            assert both == [*first, *second]

    def test_other_seeds_try_other_values(self, method: Algorithm) -> None:
        if method is Algorithm.GRID_SEARCH:
            assert values_of(run(study(method), 48)) == values_of(run(study(method, seed=21), 48))
        else:
            assert values_of(run(study(method), 6)) != values_of(run(study(method, seed=21), 6))

    def test_no_more_is_said_than_was_asked_for(self, method: Algorithm) -> None:
        known = run(study(method), 12)
        assert search_for(study(method)).ask(known, 0) == []
        assert len(search_for(study(method)).ask(known, 3)) == 3

    def test_trials_that_are_asked_for_at_once_differ(self, method: Algorithm) -> None:
        for known in (run(study(method), 0), run(study(method), 12)):
            asked = [tuple(one.values.items()) for one in search_for(study(method)).ask(known, 3)]
            assert len(set(asked)) == 3

    def test_it_goes_on_where_every_trial_fails(self, method: Algorithm) -> None:
        assert len(run(study(method), 12, failed)) == 12

    def test_it_goes_on_where_every_metric_is_the_same_or_none(self, method: Algorithm) -> None:
        def same(trial: Trial) -> Trial:
            return replace(ended(trial), final=Measurement(1, 0.5, 0.0))

        def nan(trial: Trial) -> Trial:
            return replace(ended(trial), final=Measurement(1, math.nan if trial.number % 2 else math.inf, 0.0))

        assert len(run(study(method), 12, same)) == 12
        assert len(run(study(method), 12, nan)) == 12

    def test_trials_of_another_space_do_no_harm(self, method: Algorithm) -> None:
        strange = [
            ended(Trial(1, {"momentum": 0.9}, TrialState.RUNNING)),
            ended(Trial(2, {"layers": 99, "batch": 64.0, "optimizer": "lion"}, TrialState.RUNNING)),
        ]
        plan = study(method)
        for asked in search_for(plan).ask(strange * 6, 3):
            assert point_of(plan.parameters, asked.values) is not None

    def test_a_space_of_one_point_is_searched(self, method: Algorithm) -> None:
        one = ParameterPlan("layers", ParameterType.INTEGER, 3, 3)
        other = ParameterPlan("optimizer", ParameterType.CATEGORICAL, values=("adam",))
        plan = study(method, parameters=(one, other))
        assert all(trial.values == {"layers": 3, "optimizer": "adam"} for trial in run(plan, 14))

    def test_what_was_kept_as_json_says_the_same(self, method: Algorithm) -> None:
        plan, known = study(method), run(study(method), 12)
        kept = [Trial.from_json(json.loads(json.dumps(trial.to_json()))) for trial in known]
        again = StudyPlan.from_json(json.loads(json.dumps(plan.to_json())))
        assert search_for(again).ask(kept, 2) == search_for(plan).ask(known, 2)


ELSEWHERE = """
import json, sys
from encamp.plan.study import StudyPlan
from encamp.tuning.methods import search_for
from encamp.tuning.model import Trial

for plan, trials in json.load(sys.stdin):
    asked = search_for(StudyPlan.from_json(plan)).ask([Trial.from_json(one) for one in trials], 3)
    print(json.dumps([[dict(one.values), one.parent] for one in asked]))
"""


@pytest.mark.slow
def test_another_process_says_the_same() -> None:
    studies = [(study(method), run(study(method), 12)) for method in METHODS]
    told = json.dumps([(plan.to_json(), [one.to_json() for one in trials]) for plan, trials in studies])
    said = subprocess.run([sys.executable, "-c", ELSEWHERE], input=told, capture_output=True, text=True, check=True)
    here = [[[dict(one.values), one.parent] for one in search_for(plan).ask(trials, 3)] for plan, trials in studies]
    assert [json.loads(line) for line in said.stdout.splitlines()] == here


class TestBayesian:
    def test_it_begins_evenly(self) -> None:
        first = run(study(Algorithm.ALGORITHM_UNSPECIFIED), 8)
        places = [point_of([RATE], trial.values) for trial in first]
        assert sorted(int(place[0] * 8) for place in places if place is not None) == list(range(8))

    @pytest.mark.slow
    def test_it_finds_what_chance_does_not(self) -> None:
        best = max(trial.final.value for trial in run(study(Algorithm.ALGORITHM_UNSPECIFIED), 36) if trial.final)
        chance = max(trial.final.value for trial in run(study(Algorithm.RANDOM_SEARCH), 36) if trial.final)
        assert best > -0.05 > chance

    def test_it_turns_to_the_goal(self) -> None:
        def turned(trial: Trial) -> Trial:
            return replace(ended(trial), final=Measurement(1, -accuracy(dict(trial.values)), 0.0))

        up = study(Algorithm.ALGORITHM_UNSPECIFIED)
        down = replace(up, goal=Goal.MINIMIZE)
        assert values_of(run(up, 15)) == values_of(run(down, 15, turned))

    def test_no_value_comes_twice_while_others_are_left(self) -> None:
        plan = study(Algorithm.ALGORITHM_UNSPECIFIED, parameters=(BATCH, OPTIMIZER), max_parallel_trials=1)
        begun_with = run(plan, 9)
        seen = {tuple(trial.values.items()) for trial in begun_with}
        assert len(seen) == 6

    @pytest.mark.slow
    def test_it_keeps_away_from_what_fails(self) -> None:
        def fails(trial: Trial) -> Trial:
            return failed(trial) if trial.values["optimizer"] == "adam" else ended(trial)

        later = run(study(Algorithm.ALGORITHM_UNSPECIFIED), 36, fails)[18:]
        assert sum(trial.values["optimizer"] == "sgd" for trial in later) > len(later) * 2 / 3

    def test_many_trials_and_many_categories_are_no_trouble(self) -> None:
        words = ParameterPlan("word", ParameterType.CATEGORICAL, values=tuple(f"w{index}" for index in range(200)))
        plan = study(Algorithm.ALGORITHM_UNSPECIFIED, parameters=(RATE, words), max_parallel_trials=50)
        trials = run(replace(plan, algorithm=Algorithm.RANDOM_SEARCH), 300)
        assert len(search_for(plan).ask(trials, 2)) == 2


class TestGrid:
    def test_every_point_comes_once_in_the_order_of_the_job_file(self) -> None:
        trials = run(study(Algorithm.GRID_SEARCH), 60)
        points = [(trial.values["layers"], trial.values["batch"], trial.values["optimizer"]) for trial in trials]
        assert len(points) == 8 * 3 * 2
        assert points[:3] == [(1, 16.0, "adam"), (1, 16.0, "sgd"), (1, 32.0, "adam")]
        assert len(set(points)) == len(points)
        assert search_for(study(Algorithm.GRID_SEARCH)).ask(trials, 3) == []

    def test_a_grid_of_more_points_than_trials_is_walked_evenly(self) -> None:
        plan = study(Algorithm.GRID_SEARCH, max_trials=12)
        trials = run(plan, 12)
        assert {trial.values["optimizer"] for trial in trials} == {"adam", "sgd"}
        assert {trial.values["batch"] for trial in trials} == {16.0, 32.0, 64.0}
        layers = sorted(int(trial.values["layers"]) for trial in trials)
        assert max(later - earlier for earlier, later in pairwise([0, *layers, 9])) <= 2

    def test_what_was_cancelled_is_tried_again(self) -> None:
        trials = run(study(Algorithm.GRID_SEARCH), 48)
        trials[5] = replace(trials[5], state=TrialState.CANCELLED)
        search = search_for(study(Algorithm.GRID_SEARCH))
        assert not search.exhausted(trials)
        assert [one.values for one in search.ask(trials, 2)] == [trials[5].values]

    def test_a_huge_grid_is_not_written_out(self) -> None:
        wide = ParameterPlan("steps", ParameterType.INTEGER, 1, 2**40)
        plan = study(Algorithm.GRID_SEARCH, parameters=(wide, *COUNTABLE))
        assert len(search_for(plan).ask(run(plan, 12), 3)) == 3

    def test_a_double_makes_no_grid(self) -> None:
        with pytest.raises(ValueError, match="DOUBLE"):
            search_for(study(Algorithm.GRID_SEARCH, parameters=(RATE,)))
