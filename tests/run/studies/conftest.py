"""A host whose trials do as they are told, a search that counts, and a journal that outlives every driver."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from encamp.plan.study import ParameterPlan, StudyPlan
from encamp.run.studies.host import TrialLook
from encamp.run.studies.loop import Study
from encamp.spec.tuning import Algorithm, Goal, ParameterType
from encamp.tuning.model import Measurement, Trial, TrialState
from encamp.tuning.search import Suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PLAN = StudyPlan(
    goal=Goal.MAXIMIZE,
    metric="accuracy",
    parameters=(ParameterPlan("x", ParameterType.INTEGER, 1, 1000),),
    algorithm=Algorithm.RANDOM_SEARCH,
    max_trials=6,
    max_parallel_trials=2,
    max_failed_trials=0,
    early_stopping=False,
    resumes=None,
    seed=1,
)


class Counting:
    """Tries 1, 2, 3 and so on, up to ``points``."""

    def __init__(self, points: int = 1000) -> None:
        self.points = points

    def ask(self, trials: Sequence[Trial], count: int) -> list[Suggestion]:
        left = self.points - len(trials)
        return [Suggestion({"x": len(trials) + index + 1}) for index in range(min(count, left))]

    def exhausted(self, trials: Sequence[Trial]) -> bool:
        return len(trials) >= self.points


class Killed(BaseException):
    """The driver's end, at any moment."""


@dataclass
class World:
    """What outlives a driver: the cluster and the journal.

    Attributes:
        ends: of trials by number, how they end; SUCCEEDED where nothing is said.
        runs: how many looks a trial runs for.
        calls: what was done, in order.
        fuse: after so many deeds of a driver it is killed, before the next.
    """

    ends: dict[int, TrialState] = field(default_factory=dict)
    runs: int = 2
    measured: dict[int, Sequence[float]] = field(default_factory=dict)
    said: dict[int, str] = field(default_factory=dict)
    pods: dict[int, int] = field(default_factory=dict)
    stopped: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    most: int = 0
    journal: dict[int, Trial] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    fuse: int | None = None

    @contextlib.contextmanager
    def dying(self) -> Iterator[None]:
        """What a driver does that may be killed."""
        with contextlib.suppress(Killed):
            yield

    def deed(self, what: str) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise Killed
        self.calls.append(what)

    def keep(self, trial: Trial) -> None:
        self.deed(f"keep {trial.number} {trial.state}")
        self.journal[trial.number] = trial

    def begin(self, trial: Trial) -> None:
        self.deed(f"begin {trial.number}")
        assert trial.number in self.journal, "it is on record before it is begun"
        self.pods.setdefault(trial.number, 0)
        self.most = max(self.most, sum(not self._state(one).ended for one in self.pods))

    def look(self) -> Mapping[int, TrialLook]:
        self.deed("look")
        for number in list(self.pods):
            self.pods[number] += 1
        found = {}
        for number in self.pods:
            values = self.measured.get(number, [number / 100])[: self.pods[number]]
            reports = tuple(Measurement(step, value, float(step)) for step, value in enumerate(values, 1))
            state = self._state(number)
            said = "it exited with 1" if state is TrialState.FAILED else self.said.get(number, "")
            found[number] = TrialLook(state, reports, said)
        return found

    def stop(self, number: int) -> None:
        self.deed(f"stop {number}")
        if number in self.pods:
            self.stopped.add(number)

    def settle(self, number: int) -> None:
        self.deed(f"settle {number}")
        assert self._state(number).ended
        if number in self.journal:
            assert self.journal[number].state.ended, "it is on record before it is settled"
        del self.pods[number]

    def study(
        self,
        plan: StudyPlan = PLAN,
        unpromising: Callable[[Sequence[Trial], Trial], bool] = lambda *_: False,
        points: int = 1000,
    ) -> Study:
        return Study(
            plan,
            Counting(points),
            self,
            job_id="tune",
            trials=self.journal.values(),
            keep=self.keep,
            unpromising=unpromising,
            show=self.shown.append,
            clock=lambda: 1000.0,
        )

    def _state(self, number: int) -> TrialState:
        if self.pods[number] > self.runs:
            return self.ends.get(number, TrialState.SUCCEEDED)
        if number in self.stopped:
            return TrialState.CANCELLED
        return TrialState.RUNNING if self.pods[number] else TrialState.PREPARING


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def plan() -> StudyPlan:
    return replace(PLAN)
