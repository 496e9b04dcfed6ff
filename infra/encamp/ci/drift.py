"""Drift between the cloud and the committed stacks: the steps of an ``up`` that refreshes first.

Belief: refresh-finds-no-drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.ci.preview import Copied, Previews
from encamp.ci.touched import StackKind, stacks
from encamp.errors import UsageError
from encamp.run.engine.job_engine import JobEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from encamp.ci.preview import Previewed


@dataclass(frozen=True)
class Drifted:
    """A stack as the cloud has it.

    Attributes:
        stack: its name.
        previewed: what an ``up`` would do to bring the cloud back to what is committed; None if nothing is up.
    """

    stack: str
    previewed: Previewed | None

    @property
    def quiet(self) -> bool:
        """Whether cloud and config agree."""
        return self.previewed is None or not (self.previewed.steps or self.previewed.errors)


def drift(checkout: Path, environment: str, names: Sequence[str], say: Callable[[str], None]) -> list[Drifted]:
    """Compare stacks of an environment with the cloud: all that are committed and up, or those that are named.

    Raises:
        UsageError: a named stack is not committed, or belongs to another environment.
        EngineError: the engine's backend cannot be asked.
    """
    known = {name: stack for name, stack in stacks(checkout).items() if stack.environment == environment}
    for name in names:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise UsageError(f"the environment {environment} has no stack {name!r}", hint=f"its stacks: {listed}")
    engine, previews = JobEngine(checkout, say), Previews(checkout)
    in_backend = set(engine.stacks())
    chosen = [stack for name, stack in known.items() if (name in names or not names)]
    states = {one.name: engine.state(one.name) for one in chosen if one.name in in_backend}
    beside = states.get(environment) or (engine.state(environment) if environment in in_backend else None)
    found = []
    for stack in sorted(chosen, key=lambda one: (one.kind is not StackKind.ENVIRONMENT, one.name)):
        state = states.get(stack.name)
        if state is None or not state.resources:
            found.append(Drifted(stack.name, None))
            continue
        say(f"comparing {stack.name} with the cloud")
        read = None
        if stack.kind is StackKind.JOB and beside is not None:
            read = Copied(environment, state=beside.deployment)
        copied = Copied(stack.name, stack.config, state.deployment)
        found.append(Drifted(stack.name, previews.apart(copied, read, refresh=True)))
    return found
