"""The page of a study: what it says and draws, and that nothing of what it is told becomes mark-up."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.spec.tuning import Algorithm, Goal, ParameterScale, ParameterType
from encamp.tuning import charts
from encamp.tuning.axes import number_axis, parameter_axis
from encamp.tuning.best import ranked
from encamp.tuning.importance import FEWEST, importance
from encamp.tuning.model import Measurement, Trial, TrialState
from encamp.tuning.report import report, view

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\x00\u202e\ud800&amp;"
RATE = ParameterPlan("rate", ParameterType.DOUBLE, 1e-4, 1.0, scale=ParameterScale.UNIT_LOG_SCALE)
LAYERS = ParameterPlan("layers", ParameterType.INTEGER, 1, 3)
OPTIMIZER = ParameterPlan("optimizer", ParameterType.CATEGORICAL, values=("sgd", "adam"))
BATCH = ParameterPlan("batch", ParameterType.DISCRETE, values=(16.0, 32.0, 64.0))
SVG, HTML = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}"
HEADINGS = ["History", "Learning curves", "Parallel coordinates", "Importance", "Slices", "Trials"]


def study(*parameters: ParameterPlan, goal: Goal = Goal.MAXIMIZE, metric: str = "accuracy") -> StudyPlan:
    chosen = parameters or (RATE, LAYERS, OPTIMIZER, BATCH)
    return StudyPlan(goal, metric, chosen, Algorithm.ALGORITHM_UNSPECIFIED, 12, 3, 0, True, None, 7)


def trial(number: int, *values: float, **more: Any) -> Trial:
    measured = tuple(Measurement(10 * (step + 1), value, 100.0 + step) for step, value in enumerate(values))
    plain = Trial(
        number,
        {"rate": 10.0 ** -(number % 4), "layers": 1 + number % 3, "optimizer": "adam", "batch": 32.0},
        TrialState.SUCCEEDED if values else TrialState.FAILED,
        measured,
        measured[-1] if measured else None,
        message="" if values else "it reported no metric",
        created=90.0,
        started=100.0,
        ended=130.0,
        job_id="tune",
    )
    return replace(plain, **more)


TRIALS = [trial(1, 0.2, 0.5), trial(2, 0.3, 0.9), trial(3), trial(4, 0.1, stopped_early=True), trial(5, 0.6, 0.95)]


def page(job: str, plan: StudyPlan, trials: list[Trial]) -> ET.Element:
    return ET.fromstring(report(job, plan, trials))  # noqa: S314 - it is our own


def texts(root: ET.Element, tag: str) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter(tag)]


def test_the_page_says_what_was_found() -> None:
    root = page("tune", study(), TRIALS)
    facts = dict(zip(texts(root, f"{HTML}dt"), texts(root, f"{HTML}dd"), strict=True))
    assert facts == {
        "metric": "accuracy, MAXIMIZE",
        "search": "Bayesian, 3 at a time",
        "trials": "4 SUCCEEDED, 1 FAILED, 1 of them stopped early",
        "time": "1970-01-01 00:01:30 UTC to 1970-01-01 00:02:10 UTC",
        "best": "0.95 by trial 5, at step 20",
    }
    assert texts(root, f"{HTML}pre")[0].split() == ["--rate=0.1", "--layers=3", "--optimizer=adam", "--batch=32"]
    assert texts(root, f"{HTML}h2") == HEADINGS


def test_the_table_has_the_best_trial_first_and_says_why_one_failed() -> None:
    found = view("tune", study(), TRIALS)
    assert found.columns == (
        "trial",
        "state",
        "accuracy",
        "step",
        "rate",
        "layers",
        "optimizer",
        "batch",
        "seconds",
        "",
    )
    assert [row[0] for row in found.rows] == ["5", "2", "1", "4", "3"]
    assert found.rows[3][1] == "SUCCEEDED, stopped early"
    assert found.rows[4][1:4] == ("FAILED", "", "")
    assert found.rows[4][-1] == "it reported no metric"


def test_trials_of_an_earlier_job_are_told_apart() -> None:
    resumed = replace(study(), resumes="before")
    found = view("tune", resumed, [replace(TRIALS[0], job_id="before"), *TRIALS[1:]])
    assert ("goes on from", "before") in found.facts
    assert found.columns[-2] == "job"
    assert {row[0]: row[-2] for row in found.rows}["1"] == "before"


@pytest.mark.parametrize("trials", [[], [trial(1)], [trial(1, math.nan)], [trial(1, state=TrialState.RUNNING)]])
def test_a_study_without_a_metric_has_a_page_without_charts(trials: list[Trial]) -> None:
    root = page("tune", study(), trials)
    assert "No trial has told a metric." in texts(root, f"{HTML}p")
    assert list(root.iter(f"{SVG}svg")) == []


def test_nothing_of_what_a_job_or_a_trainer_says_becomes_mark_up() -> None:
    parameters = (replace(OPTIMIZER, name=HOSTILE, values=(HOSTILE, "b")), replace(RATE, name=f"{HOSTILE}2"))
    plan = study(*parameters, metric=HOSTILE)
    values = {HOSTILE: HOSTILE, f"{HOSTILE}2": 0.1}
    trials = [
        trial(1, 0.1, 0.5, values=values, job_id=HOSTILE),
        trial(2, 0.2, 0.4, values=values),
        trial(3, values=values, message=HOSTILE),
    ]
    text = report(HOSTILE, plan, trials)
    root = ET.fromstring(text)  # noqa: S314 - it is our own
    plain = ET.fromstring(report("tune", study(OPTIMIZER, RATE), TRIALS))  # noqa: S314
    assert {one.tag for one in root.iter()} == {one.tag for one in plain.iter()}
    assert {name for one in root.iter() for name in one.attrib} == {name for one in plain.iter() for name in one.attrib}
    assert not {"script", "img", "a", "link", "iframe"} & {one.tag.rpartition("}")[2] for one in root.iter()}
    assert texts(root, f"{HTML}h1") == [
        f"Tuning of {HOSTILE}".replace("\x00", "\\x00").replace("\u202e", "\\u202e").replace("\ud800", "\\ud800")
    ]
    assert text.encode().decode() == text


def test_the_page_asks_no_network_and_lets_nothing_run() -> None:
    text = report("tune", study(), TRIALS)
    assert "default-src 'none'" in text
    assert re.search(r"\s(src|href|on\w+|style)=|url\(|@import|javascript:|<script", text) is None


def test_the_history_steps_along_the_best_so_far() -> None:
    plan = study(goal=Goal.MINIMIZE)
    trials = [trial(1, 0.5), trial(2, 0.9), trial(3, 0.1), trial(4)]
    chart = charts.history(charts.scored(plan, ranked(plan, trials)), trials)
    (best,) = (line for line in chart.lines if line.kind == "best")
    heights = [float(point.partition(",")[2]) for point in best.points.split()]
    dots = {dot.tip.partition(":")[0]: dot for dot in chart.dots}
    assert heights == [dots["trial 1"].y] * 4 + [dots["trial 3"].y]
    assert [dot.kind for dot in chart.dots] == ["trial", "trial", "trial", "failed"]


def test_the_best_trial_is_darkest_and_drawn_last() -> None:
    found = charts.scored(study(), ranked(study(), TRIALS))
    lines = [line for line in charts.parallel_coordinates(found).lines if line.kind == "trial"]
    assert [line.tip.partition(":")[0] for line in lines] == ["trial 4", "trial 1", "trial 2", "trial 5"]
    assert (lines[0].colour, lines[-1].colour) == ("#c6dbef", "#08306b")
    assert all(len(line.points.split()) == 5 for line in lines)


def test_a_diverged_trial_does_not_press_the_others_together() -> None:
    plan = study(goal=Goal.MINIMIZE)
    trials = [trial(number, 0.1 * number) for number in range(1, 7)] + [trial(7, 1e30)]
    found = charts.scored(plan, ranked(plan, trials))
    assert found.high < 4
    assert "1e+30" in found.tips[7]
    assert found.beyond == 1
    assert view("tune", plan, trials).sections[0].note.endswith("; at the edge: 1 far worse than the others")
    assert charts.scored(plan, ranked(plan, trials[:6])).beyond == 0


def test_a_long_learning_curve_is_thinned_and_keeps_its_end() -> None:
    found = charts.scored(study(), [trial(1, *(math.sqrt(step) for step in range(20_000)))])
    (line,) = (line for line in charts.curves(found).lines if line.kind == "trial")
    points = line.points.split()
    assert 100 < len(points) <= 200
    assert points[-1].startswith("900.0,")


def test_values_of_another_space_have_no_place() -> None:
    assert parameter_axis(RATE).place(5.0) is None
    assert parameter_axis(OPTIMIZER).place("rmsprop") is None
    found = charts.scored(study(), [trial(1, 0.5, values={"layers": 2})])
    (line,) = (line for line in charts.parallel_coordinates(found).lines if line.kind == "trial")
    assert len(line.points.split()) == 2


def test_round_values_stand_beside_axes() -> None:
    assert [tick.text for tick in parameter_axis(RATE).ticks] == ["0.0001", "0.001", "0.01", "0.1", "1"]
    assert [tick.text for tick in parameter_axis(LAYERS).ticks] == ["1", "2", "3"]
    assert [tick.text for tick in parameter_axis(BATCH).ticks] == ["16", "32", "64"]
    assert [tick.text for tick in number_axis("a", 0.03, 0.97).ticks] == ["0.2", "0.4", "0.6", "0.8"]


finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.one_of(finite, st.just(math.nan), st.just(math.inf)), min_size=1, max_size=6), finite, finite)
def test_whatever_numbers_there_are_every_place_is_on_the_page(values: list[float], one: float, other: float) -> None:
    wide = ParameterPlan("wide", ParameterType.DOUBLE, min(one, other), max(one, other))
    plan = study(wide, goal=Goal.MINIMIZE)
    trials = [trial(n, value, values={"wide": one}) for n, value in enumerate(values, 1)]
    root = page("tune", plan, trials)
    for line in root.iter(f"{SVG}polyline"):
        for place in line.attrib["points"].split():
            assert all(0 <= float(number) <= 1000 for number in place.split(","))


def test_few_trials_tell_nothing_of_importance() -> None:
    assert importance(study(), [trial(n, 0.1 * n) for n in range(1, FEWEST)]) == {}
    assert importance(study(), [trial(n, 0.5) for n in range(1, 20)]) == {}


@pytest.mark.slow
def test_what_decides_the_metric_is_important_and_what_does_not_is_not() -> None:
    plan = study(RATE, ParameterPlan("idle", ParameterType.DOUBLE, 0.0, 1.0), OPTIMIZER)
    chance = random.Random(1)  # noqa: S311 - no secret
    trials: list[Trial] = []
    for number in range(1, 31):
        values = {
            "rate": 10 ** -chance.uniform(0, 4),
            "idle": chance.random(),
            "optimizer": chance.choice(["sgd", "adam"]),
        }
        trials.append(trial(number, -((math.log10(values["rate"]) + 2) ** 2), values=values))
    shares = importance(plan, trials)
    assert shares["rate"] > 0.7
    assert shares["idle"] < 0.15
    assert shares["optimizer"] < 0.15
    assert importance(plan, list(reversed(trials))) == shares
    assert [one.title for one in view("tune", plan, trials).sections if one.title == "Importance" and one.charts]
