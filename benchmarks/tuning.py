"""How good the default search for hyperparameters is: median regret after 50 trials, against peers.

python benchmarks/tuning.py [--seeds N] [--results FILE] [--peers NAME ...] [--problems NAME ...]

The regret of a study is how much worse the trial that it names its best is than the best there is, noise not counted;
of digits it is the error rate. Peers are chance, the library that the default method stands on with its own defaults,
and Optuna where it is installed: its default (TPE) and, where torch is too, its Gaussian processes. Each study runs
with 1 trial at a time and with 5, which end in any order. With a file of results, what stands in it is not run again:
20 seeds take half an hour, 3 (the default) a few minutes.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import statistics
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from math import cos, exp, log2, log10, pi
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.spec.tuning import Algorithm, Goal, ParameterScale, ParameterType
from encamp.tuning.methods import search_for
from encamp.tuning.model import Measurement, Trial, TrialState, Value
from encamp.tuning.space import point_of, values_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TRIALS = 50
PARALLEL = (1, 5)
LOG = ParameterScale.UNIT_LOG_SCALE


def double(name: str, low: float, high: float, scale: ParameterScale = ParameterScale.NONE) -> ParameterPlan:
    """A DOUBLE."""
    linear = ParameterScale.UNIT_LINEAR_SCALE
    return ParameterPlan(name, ParameterType.DOUBLE, low, high, scale=scale if scale is LOG else linear)


def branin(values: Mapping[str, Any]) -> float:
    """Three equal minima of 0.397887."""
    x, y = values["x"], values["y"]
    return (y - 5.1 / (4 * pi**2) * x**2 + 5 / pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10


HARTMANN_A = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
HARTMANN_P = (
    (1312, 1696, 5569, 124, 8283, 5886),
    (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650),
    (4047, 8828, 8732, 5743, 1091, 381),
)


def hartmann(values: Mapping[str, Any]) -> float:
    """One minimum of -3.322368 and five others, one of -3.203 that most of the cube leads to."""
    rows = zip((1, 1.2, 3, 3.2), HARTMANN_A, HARTMANN_P, strict=True)
    return -sum(
        weight
        * exp(-sum(a * (values[f"x{i}"] - p / 10000) ** 2 for i, (a, p) in enumerate(zip(many, at, strict=True))))
        for weight, many, at in rows
    )


def rosenbrock(values: Mapping[str, Any]) -> float:
    """A bent valley with its minimum of 0 at its end."""
    x = [values[f"x{i}"] for i in range(4)]
    return sum(100 * (after - at**2) ** 2 + (1 - at) ** 2 for at, after in pairwise(x))


#: The best rate of each optimizer, as a power of ten, and what it loses to the best one.
OPTIMIZERS = {"adam": (-3.0, 0.0), "sgd": (-1.3, 0.3), "rmsprop": (-3.4, 0.15), "adagrad": (-1.8, 0.5)}


def mixed(values: Mapping[str, Any]) -> float:
    """Something like a network's loss: the best rate depends on the optimizer, the batch's weight on the layers."""
    rate, loss = OPTIMIZERS[values["optimizer"]]
    layers = (values["layers"] - 4) ** 2
    batch = 0.08 * (log2(values["batch"]) - 6) ** 2 * (1 + layers / 30)
    return (
        loss
        + 0.35 * (log10(values["rate"]) - rate) ** 2
        + 0.04 * layers
        + batch
        + 0.6 * (values["dropout"] - 0.27) ** 2
    )


@cache
def digits_data() -> tuple[Any, ...]:
    """600 digits to learn from, and 600 others."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    learn, judge = order[:600], order[600:1200]
    return pixels[learn] / 16, digits[learn], pixels[judge] / 16, digits[judge]


def digits_error(values: Mapping[str, Any]) -> float:
    """The error rate of a support vector machine on what principal components tell of digits."""
    from sklearn.decomposition import PCA  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.svm import SVC  # noqa: PLC0415

    pixels, digits, other_pixels, other_digits = digits_data()
    machine = make_pipeline(PCA(values["components"], random_state=0), SVC(C=values["c"], gamma=values["gamma"]))
    return 1 - float(machine.fit(pixels, digits).score(other_pixels, other_digits))


@dataclass(frozen=True)
class Problem:
    """What is minimised; ``noise`` is the deviation of what is added to what a study is told."""

    space: tuple[ParameterPlan, ...]
    function: Callable[[Mapping[str, Any]], float]
    least: float
    noise: float = 0.0


PLANE = (double("x", -5, 10), double("y", 0, 15))
NETWORK = (
    double("rate", 1e-5, 1, LOG),
    ParameterPlan("layers", ParameterType.INTEGER, 1, 8),
    ParameterPlan("optimizer", ParameterType.CATEGORICAL, values=tuple(OPTIMIZERS)),
    ParameterPlan("batch", ParameterType.DISCRETE, values=(8.0, 16.0, 32.0, 64.0, 128.0, 256.0)),
    double("dropout", 0, 0.8),
)
MACHINE = (
    double("c", 1e-2, 1e3, LOG),
    double("gamma", 1e-5, 10, LOG),
    ParameterPlan("components", ParameterType.INTEGER, 2, 60),
)
PROBLEMS = {
    "Branin": Problem(PLANE, branin, 0.397887357729739),
    "Hartmann 6": Problem(tuple(double(f"x{i}", 0, 1) for i in range(6)), hartmann, -3.322368011415515),
    "Rosenbrock 4": Problem(tuple(double(f"x{i}", -5, 10) for i in range(4)), rosenbrock, 0.0),
    "mixed": Problem(NETWORK, mixed, 0.0),
    "noisy Branin": Problem(PLANE, branin, 0.397887357729739, noise=5.0),
    "digits": Problem(MACHINE, digits_error, 0.0),
}


class Peer(Protocol):
    """A study of somebody's."""

    def ask(self) -> tuple[Any, Mapping[str, Value]]:
        """What to try, and a token for it."""
        ...

    def tell(self, token: Any, value: float) -> None:
        """What came of it."""
        ...


class Ours:
    """A method of encamp's."""

    def __init__(self, space: tuple[ParameterPlan, ...], seed: int, parallel: int, algorithm: Algorithm) -> None:
        goal, metric = Goal.MINIMIZE, "loss"
        self._search = search_for(StudyPlan(goal, metric, space, algorithm, TRIALS, parallel, 0, False, None, seed))
        self._trials: list[Trial] = []

    def ask(self) -> tuple[int, Mapping[str, Value]]:
        """What to try, and its place."""
        (asked,) = self._search.ask(self._trials, 1)
        self._trials.append(Trial(len(self._trials) + 1, asked.values, TrialState.RUNNING))
        return len(self._trials) - 1, asked.values

    def tell(self, token: int, value: float) -> None:
        """What came of it."""
        final = Measurement(step=1, value=value, at=0.0)
        self._trials[token] = replace(self._trials[token], state=TrialState.SUCCEEDED, final=final)


class PlainProcess:
    """scikit-learn's Gaussian process as it comes, and the expected improvement of a thousand random points."""

    def __init__(self, space: tuple[ParameterPlan, ...], seed: int) -> None:
        self._space, self._draw = space, np.random.default_rng(seed)
        self._points: list[list[float]] = []
        self._losses: list[float] = []

    def ask(self) -> tuple[list[float], Mapping[str, Value]]:
        """What to try, and its point."""
        from scipy.stats import norm  # noqa: PLC0415
        from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415

        candidates = self._draw.random((1000, len(self._space)))
        best = 0
        if len(self._points) >= 10:  # noqa: PLR2004
            process = GaussianProcessRegressor(normalize_y=True, random_state=0, alpha=1e-6)
            mean, deviation = process.fit(self._points, self._losses).predict(candidates, return_std=True)
            z = (min(self._losses) - mean) / np.maximum(deviation, 1e-12)
            best = int(np.argmax(deviation * (z * norm.cdf(z) + norm.pdf(z))))
        values = values_at(self._space, candidates[best].tolist())
        return point_of(self._space, values) or [], values

    def tell(self, token: list[float], value: float) -> None:
        """What came of it."""
        self._points.append(token)
        self._losses.append(value)


class Optuna:
    """A sampler of Optuna's over its own distributions."""

    def __init__(self, space: tuple[ParameterPlan, ...], seed: int, sampler: str) -> None:
        import optuna  # noqa: PLC0415

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made = optuna.distributions
        self._space: dict[str, Any] = {}
        for one in space:
            log, low, high = one.scale is LOG, one.low or 0.0, one.high or 0.0
            if one.values:
                self._space[one.name] = made.CategoricalDistribution(one.values)
            elif one.type is ParameterType.INTEGER:
                self._space[one.name] = made.IntDistribution(int(low), int(high), log=log)
            else:
                self._space[one.name] = made.FloatDistribution(low, high, log=log)
        self._study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))

    def ask(self) -> tuple[Any, Mapping[str, Value]]:
        """What to try, and Optuna's trial."""
        trial = self._study.ask(self._space)
        return trial, trial.params

    def tell(self, token: Any, value: float) -> None:
        """What came of it."""
        self._study.tell(token, value)


def peers() -> dict[str, Callable[[tuple[ParameterPlan, ...], int, int], Peer]]:
    """By name, ours first."""
    known: dict[str, Callable[[tuple[ParameterPlan, ...], int, int], Peer]] = {
        "encamp": lambda space, seed, parallel: Ours(space, seed, parallel, Algorithm.ALGORITHM_UNSPECIFIED),
        "random": lambda space, seed, parallel: Ours(space, seed, parallel, Algorithm.RANDOM_SEARCH),
        "scikit-learn": lambda space, seed, _: PlainProcess(space, seed),
    }
    if find_spec("optuna"):
        known["Optuna TPE"] = lambda space, seed, _: Optuna(space, seed, "TPESampler")
        if find_spec("torch"):
            known["Optuna GP"] = lambda space, seed, _: Optuna(space, seed, "GPSampler")
    return known


def run(problem: Problem, peer: Peer, seed: int, parallel: int) -> tuple[float, float]:
    """One study: its regret, and the processor's seconds that each trial took to be chosen."""
    chance = random.Random(f"{seed}/{parallel}")  # noqa: S311 - how long trials take, and noise
    running: list[tuple[float, int, Any, Mapping[str, Value]]] = []
    ended: list[tuple[float, float]] = []
    now, begun, spent = 0.0, 0, 0.0
    while len(ended) < TRIALS:
        while begun < TRIALS and len(running) < parallel:
            before = time.process_time()
            token, values = peer.ask()
            spent += time.process_time() - before
            begun += 1
            heapq.heappush(running, (now + chance.uniform(0.5, 1.5), begun, token, values))
        now, _, token, values = heapq.heappop(running)
        true = problem.function(values)
        told = true + problem.noise * chance.gauss(0, 1)
        before = time.process_time()
        peer.tell(token, told)
        spent += time.process_time() - before
        ended.append((told, true - problem.least))
    return min(ended)[1], spent / TRIALS


def measure(seeds: int, results: Path, names: list[str] | None, problems: list[str]) -> list[dict[str, Any]]:
    """Run what does not stand in the results, a seed of everything before the next."""
    results.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    have = {(row["peer"], row["problem"], row["parallel"], row["seed"]) for row in rows}
    made = {name: peer for name, peer in peers().items() if names is None or name in names}
    wanted = [
        (peer, problem, parallel, seed)
        for seed in range(seeds)
        for parallel in PARALLEL
        for problem in problems
        for peer in made
    ]
    for peer, name, parallel, seed in wanted:
        if (peer, name, parallel, seed) in have:
            continue
        space = PROBLEMS[name].space
        regret, seconds = run(PROBLEMS[name], made[peer](space, seed, parallel), seed, parallel)
        row = {"peer": peer, "problem": name, "parallel": parallel, "seed": seed, "regret": regret, "seconds": seconds}
        rows.append(row)
        with results.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Median regrets, and how many seeds each is of."""
    names = list(dict.fromkeys(row["peer"] for row in rows))
    for parallel in PARALLEL:
        print(f"{f'{TRIALS} trials, {parallel} at a time':26}", *(f"{name:>16}" for name in names))
        for problem in PROBLEMS:
            cells = []
            for name in names:
                mine = (name, problem, parallel)
                regrets = [row["regret"] for row in rows if (row["peer"], row["problem"], row["parallel"]) == mine]
                cells.append(f"{statistics.median(regrets):.3g} ({len(regrets)})" if regrets else "-")
            print(f"{problem:26}", *(f"{cell:>16}" for cell in cells))
    for name in names:
        seconds = [row["seconds"] for row in rows if row["peer"] == name]
        print(f"{name}: {statistics.median(seconds) * 1000:.1f} ms a trial, at most {max(seconds) * 1000:.1f} ms")


def main() -> None:
    """Measure, and show what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, help="what is known already, and where more is written")
    parser.add_argument(
        "--peers", nargs="+", choices=list(peers()), help="only these; all that are installed when absent"
    )
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS), help="only these")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    # Several threads would measure each other.
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        show(measure(given.seeds, given.results or Path(folder) / "results.jsonl", given.peers, given.problems))


if __name__ == "__main__":
    sys.exit(main())
