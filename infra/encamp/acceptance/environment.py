"""The environment that the ladder runs in: brought up if it is not there, and then taken down again.

What is brought up carries a tag on its stack, written before anything is made: it names the run and the time until
which it may stand. So whoever comes after a killed run, on whichever machine, knows what to take down. An environment
without the tag was there before, and is left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.acceptance.rung_jobs import is_of_run
from encamp.cloud.storage import Storage
from encamp.errors import EngineError, TeardownError, UsageError
from encamp.plan.environment.planning import plan_environment
from encamp.run.engine.job_engine import JobEngine
from encamp.run.engine.provider_ids import provider_id
from encamp.run.engine.run_errors import LockedError
from encamp.run.history.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.run.history.context import Context
    from encamp.spec.environment import EnvironmentSpec

#: Key of the stack's tag.
TAG: Final = "encamp:acceptance"


@dataclass(frozen=True)
class Claim:
    """The tag of an environment that a run of the ladder has brought up.

    Attributes:
        run: id of the run.
        until: seconds since the epoch after which anybody may take it down.
    """

    run: str
    until: float

    def text(self) -> str:
        """Return the tag's text."""
        return json.dumps({"run": self.run, "until": int(self.until)})

    @classmethod
    def read(cls, text: str | None) -> Claim | None:
        """Return the claim of a tag, None if it has none or a foreign one."""
        try:
            data: Any = json.loads(text or "null")
            return cls(str(data["run"]), float(data["until"]))
        except (ValueError, KeyError, TypeError):
            return None


class HostEnvironment:
    """One environment's stack.

    Args:
        stack: its name; its config is committed in ``checkout``.
    """

    def __init__(self, context: Context, spec: EnvironmentSpec, stack: str, checkout: Path) -> None:
        self._context = context
        self._spec = spec
        self.stack = stack
        self._checkout = checkout
        self._engine = JobEngine(checkout, context.show)

    def interrupt(self) -> None:
        """Ask a running command of the engine to stop after the steps in flight."""
        self._engine.interrupt()

    def claim(self) -> Claim | None:
        """Return the claim of the run that has brought it up; None if it does not exist or existed before."""
        return Claim.read(self._engine.tag(self.stack, TAG))

    def is_up(self) -> bool:
        """Whether the stack lists anything."""
        return self._engine.has(self.stack) and bool(self._engine.resources(self.stack))

    def bring_up(self, claim: Claim) -> None:
        """Create the environment, or complete it; the claim is on its stack before anything is made.

        Raises:
            UsageError: it would be protected, so that nobody could take it down again.
            EngineError: it could not be brought up.
        """
        self.refuse_protected()
        self._engine.create(self.stack)
        self._settle(self._engine)
        self._engine.set_tag(self.stack, TAG, claim.text())
        self._engine.up(self.stack)

    def refuse_protected(self) -> None:
        """Refuse an environment that could not be taken down again.

        Raises:
            UsageError: its plan is protected.
        """
        if plan_environment(self._spec).protect:
            raise UsageError(
                f"the environment {self._spec.name} is not up, and once it is it is protected from being taken down",
                where=f"stacks/Pulumi.{self.stack}.yaml",
                hint="bring it up yourself to use it as it is, or name a stack with `protect: false`",
            )

    def tear_down(self, run: str) -> None:
        """Tear down everything of the environment, which only a run may use.

        Raises:
            TeardownError: somebody else uses it, or something of it is left; names it.
            EngineError: the engine or the cloud gives no answer.
        """
        storage = Storage(self._context.client)
        self._refuse_others(storage, run)
        # A fresh one: an engine that was interrupted does nothing any more.
        engine = JobEngine(self._checkout, self._context.show)
        self._settle(engine)
        for bucket in self._buckets():
            if storage.bucket(bucket) is not None:
                self._context.show(f"emptying gs://{bucket}")
                storage.empty(bucket)
        self._destroy(engine)
        engine.set_tag(self.stack, TAG, None)

    def _destroy(self, engine: JobEngine) -> None:
        try:
            engine.destroy(self.stack)
        except EngineError as error:
            self._context.show(f"the engine could not destroy everything, and compares with the cloud: {error.what}")
            engine.destroy(self.stack, refresh=True)

    def _settle(self, engine: JobEngine) -> None:
        """Clear the lock of a dead engine, and find out what became of its creates.

        Raises:
            LockedError: a living engine has the lock.
        """
        if not engine.take_lock(self.stack):
            raise LockedError(self.stack, "")
        for create in engine.settle_pending(self.stack, lambda one: provider_id(one, self._spec.project)):
            self._context.show(f"{create} had no answer when it was created; look for {create.cloud or 'it'} yourself")

    def _refuse_others(self, storage: Storage, run: str) -> None:
        """Leave an environment that others have begun to use.

        Raises:
            TeardownError: jobs or objects of others are there; names them.
        """
        bucket = self._spec.artifacts_bucket
        if storage.bucket(bucket) is None:
            return
        records = self._context.records()
        try:
            known = Catalogue(records, storage, environment=self.stack, bucket=bucket).jobs()
        finally:
            records.close()
        strangers = [one for one in known if not is_of_run(one.job_id, run)]
        others = [f"job {one.job_id}" for one in strangers if not one.torn_down]
        if not others and "artifactsBucket" not in self._spec.adopt:
            found = (item.name for item in storage.objects(bucket))
            others = [f"gs://{bucket}/{name}" for name in found if f"_{run}" not in name]
        if others:
            raise TeardownError(
                f"the environment is left, since others use it: {', '.join(others[:_NAMED])}",
                where=f"stack {self.stack}",
                hint=f"`encamp environment down {self.stack}` when nobody needs it",
            )

    def _buckets(self) -> Iterator[str]:
        """Yield buckets that go with the environment."""
        plan = plan_environment(self._spec)
        if "artifactsBucket" not in plan.adopted:
            yield plan.artifacts.name
        if plan.logs is not None:
            yield plan.logs.name
        sink = plan.access.audit.sink if plan.access is not None and plan.access.audit is not None else None
        if sink is not None and sink.bucket is not None:
            yield sink.bucket


#: Number of other things that are named.
_NAMED: Final = 5
