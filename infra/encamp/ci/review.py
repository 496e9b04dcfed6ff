"""Reviews a change: every stack that it touches, looked at offline before and after, and previewed by the engine."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.ci.encrypted import encrypted_inputs
from encamp.ci.offline import look
from encamp.ci.preview import Copied, Previews
from encamp.ci.repository import changed_files, merge_base, write_tree
from encamp.ci.steps import Does, Step
from encamp.ci.touched import StackKind, Was, is_secret, touched_stacks
from encamp.errors import EncampError, SpecError
from encamp.plan.declared import declared_resources, runs_the_job
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.run_errors import NoStackError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.ci.offline import Offline
    from encamp.ci.preview import Previewed
    from encamp.ci.touched import Touched

_NOT_UP = "is not up, so this is what the plan declares; the engine was not asked"


@dataclass(frozen=True)
class Reviewed:
    """The effect of a change on one stack.

    Attributes:
        touched: the stack, and why it counts as touched.
        before: what the stack said of itself without the change, None if it is new.
        after: what it says with the change, None if its config is removed.
        previewed: what the engine would do, None if it was not asked.
        note: why it was not asked, or what else has to be known; empty if nothing has.
        held: resources that the state of a removed stack still lists.
        uncompared: inputs that are encrypted in the state, which is not compared, each with its resource.
    """

    touched: Touched
    before: Offline | None
    after: Offline | None
    previewed: Previewed | None = None
    note: str = ""
    held: int = 0
    uncompared: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps: from the engine, else as far as the plan tells."""
        if self.previewed is not None:
            return self.previewed.steps
        if self.touched.was is Was.ADDED and self.after is not None and self.after.plan is not None:
            return tuple(Step(Does.MAKES, one.type, one.name) for one in declared_resources(self.after.plan))
        return ()

    @property
    def refused(self) -> tuple[str, ...]:
        """The problems that rules find."""
        return self.after.refused if self.after is not None else ()

    @property
    def failed(self) -> tuple[str, ...]:
        """The errors of the engine's preview."""
        return self.previewed.errors if self.previewed is not None else ()

    @property
    def ends_job(self) -> bool:
        """Whether the job itself would be ended: its JobSet, or what its trials belong to, is replaced or destroyed."""
        return bool(self.ending)

    @property
    def ending(self) -> tuple[Step, ...]:
        """The steps that would end the job itself."""
        ends = (Does.REPLACES, Does.DESTROYS)
        return tuple(step for step in self.steps if runs_the_job(step.type, step.name) and step.does in ends)


def review(
    checkout: Path, base: str, only: str | None, say: Callable[[str], None], enter: Callable[[str], object]
) -> list[Reviewed]:
    """Review the work tree against the commit where it left ``base``; environments come first.

    Args:
        checkout: a Git checkout with stacks.
        base: a branch, tag or commit.
        only: the engine is asked about stacks of this environment alone; None asks about every touched stack.
        say: gets a line for people before each preview.
        enter: points the process to the cloud of an environment; what it changes of the process's variables is undone.

    Raises:
        UsageError: Git does not know the base, or refuses.
        EngineError: the engine's backend cannot be asked.
    """
    commit = merge_base(checkout, base)
    changed = changed_files(checkout, commit)
    with tempfile.TemporaryDirectory(prefix="encamp-base-") as folder:
        tree = Path(folder)
        write_tree(checkout, commit, tree)
        found = []
        for touched in touched_stacks(checkout, tree, changed):
            before = look(touched.stack, tree) if touched.was is not Was.ADDED else None
            after = look(touched.stack, checkout) if touched.was is not Was.REMOVED else None
            found.append(Reviewed(touched, before, after))
    clouds = _Clouds(checkout, only, say, enter)
    asked: dict[str, Reviewed] = {}
    for environment in dict.fromkeys(one.touched.stack.environment for one in found):
        of_it = [one for one in found if one.touched.stack.environment == environment]
        asked.update({one.touched.stack.name: one for one in clouds.asked(environment, of_it)})
    return [asked[one.touched.stack.name] for one in found]


@dataclass(frozen=True)
class _Clouds:
    """The clouds of the environments, which are asked one after the other; see ``review`` for the fields."""

    checkout: Path
    only: str | None
    say: Callable[[str], None]
    enter: Callable[[str], object]

    def asked(self, environment: str, found: Sequence[Reviewed]) -> list[Reviewed]:
        """Return reviews of one environment's stacks with what the engine says of them."""
        if self.only is not None and environment != self.only:
            where = f"of the environment {environment}" if environment else "of no environment"
            return [_noted(one, f"{where}: planned only, not previewed") for one in found]
        variables = dict(os.environ)
        try:
            self.enter(environment)
            asking = _Asking(self.checkout, self.say)
            return [asking.asked(one) for one in found]
        except SpecError:
            # The change breaks the environment itself, which the comment says, or its config is encrypted as a whole.
            return [_noted(one, _takes_key(one)) for one in found]
        except EncampError as error:
            if self.only is not None:
                raise
            return [_noted(one, f"planned only, not previewed: {error.what}") for one in found]
        finally:
            os.environ.clear()
            os.environ.update(variables)


def _noted(one: Reviewed, note: str) -> Reviewed:
    return one if one.touched.stack.kind is StackKind.OTHER or one.refused else replace(one, note=note)


def _takes_key(one: Reviewed) -> str:
    hint = f"who has it runs `pulumi preview -s {one.touched.stack.name}`"
    return f"its config is encrypted as a whole, and takes the stack's key: {hint}"


class _Asking:
    """Asks the engine about the stacks of one environment."""

    def __init__(self, checkout: Path, say: Callable[[str], None]) -> None:
        self._say = say
        self._engine = JobEngine(checkout, say)
        self._previews = Previews(checkout)

    def asked(self, one: Reviewed) -> Reviewed:
        """Return the review with what the engine says."""
        stack = one.touched.stack
        if stack.kind is StackKind.OTHER or one.refused:
            return one
        self._say(f"previewing {stack.name}")
        if one.touched.was is Was.REMOVED:
            return self._removed(one)
        return self._previewed(one)

    def _removed(self, one: Reviewed) -> Reviewed:
        name = one.touched.stack.name
        try:
            held = len(self._engine.resources(name))
        except NoStackError:
            return one
        note = f"its config goes, but its state lists {held} resources: take it down before" if held else ""
        return replace(one, note=note, held=held)

    def _previewed(self, one: Reviewed) -> Reviewed:
        stack = one.touched.stack
        if is_secret(stack.config.get(f"encamp:{stack.kind}")):
            return replace(one, note=_takes_key(one))
        state = self._state(stack.name)
        copied = Copied(stack.name, stack.config, state)
        uncompared = tuple(
            f"{each['name']}: {path}" for each in encrypted_inputs(state or {}) for path in each["paths"]
        )
        one = replace(one, uncompared=uncompared)
        if stack.kind is StackKind.ENVIRONMENT:
            return replace(one, previewed=self._previews.apart(copied))
        environment = self._state(stack.environment)
        if not environment:
            return replace(one, note=f"the environment {stack.environment} {_NOT_UP}")
        beside = Copied(stack.environment, state=environment)
        return replace(one, previewed=self._previews.apart(copied, beside))

    def _state(self, stack: str) -> Mapping[str, Any] | None:
        """Return a stack's state in the backend, encrypted values as they are. None if nothing was ever made in it."""
        try:
            deployment = self._engine.state(stack).deployment
        except NoStackError:
            return None
        return deployment if deployment.get("resources") else None
