"""Who is told when a job ends, decided: targets by name and the ends that each hears of. No address is known here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError
from encamp.spec.encamp import EndState
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.environment.notices import NoticesSpec
    from encamp.spec.job import TrainingJobSpec

_ADD = "whoever runs the environment adds it to notices of its stack config"


@dataclass(frozen=True)
class NoticePlan:
    """One target, and the ends that it is told, in the order of ``EndState``."""

    target: str
    states: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Write it as the record and a stack's outputs keep it."""
        return {"target": self.target, "states": list(self.states)}

    def __str__(self) -> str:
        every = len(self.states) == len(EndState)
        return f"{self.target}: {'every end' if every else ', '.join(self.states)}"


def plan_notices(job: TrainingJobSpec, environment: EnvironmentSpec) -> tuple[NoticePlan, ...]:
    """Decide who is told of a job: whom its environment tells of every job, and whom the job file names.

    Raises:
        PlanError: the job names a target that its environment does not declare.
    """
    declared = environment.notices
    asked: list[NoticePlan] = []
    for index, one in enumerate(job.encamp.notices or ()):
        name = one.target or ""
        target = declared.target(name) if declared is not None else None
        if target is None:
            known = [each.name for each in declared.targets] if declared is not None else []
            raise PlanError(
                f"the environment {environment.name} has no target {name} for notices; it has "
                f"{', '.join(known) or 'none'}",
                where=f"encamp.notices[{index}].target",
                hint=f"write {near}" if (near := nearest(name, known)) else _ADD,
            )
        asked.append(NoticePlan(name, _in_order(one.states or target.states)))
    return merged_notices(asked, declared)


def merged_notices(asked: Iterable[NoticePlan], declared: NoticesSpec | None) -> tuple[NoticePlan, ...]:
    """Add to what a job asks for what its environment tells of every job; each target stands there once."""
    states = {one.target: set(one.states) for one in asked}
    for target in declared.targets if declared is not None else ():
        if target.every_job:
            states.setdefault(target.name, set()).update(target.states)
    return tuple(NoticePlan(name, _in_order(ends)) for name, ends in sorted(states.items()))


def read_notices(data: Iterable[Mapping[str, Any]]) -> tuple[NoticePlan, ...]:
    """Read what ``NoticePlan.to_json`` wrote.

    Raises:
        KeyError, TypeError: something else wrote it.
    """
    return tuple(NoticePlan(str(one["target"]), _in_order(one["states"])) for one in data)


def _in_order(states: Iterable[str]) -> tuple[str, ...]:
    wanted = set(map(str, states))
    return tuple(state.value for state in EndState if state.value in wanted)
