"""The one way to the engine: Pulumi's Automation API, one stack a job, its CLI apart from the terminal.

``destroy`` is believed only when the state lists nothing any more. A lock is cleared only by the rule of ``locks``, and
creates whose answer never came are settled with the cloud's listing before.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from encamp.errors import EngineError, TeardownError
from encamp.retries import RetryPolicy, TransientError, with_retries
from encamp.run.engine.engine_process import has_ended
from encamp.run.engine.events import EventLog, ResourceStep
from encamp.run.engine.locks import Fence, Verdict, may_clear, read_lock
from encamp.run.engine.run_errors import LockedError, NoStackError, RunError, StackExistsError, advice, excerpt, parsed
from encamp.run.engine.slow_steps import SlowSteps
from encamp.run.engine.stack_state import StackState
from encamp.run.engine.stalling import StallWatch
from encamp.run.engine.transient import is_transient
from encamp.run.engine.unreadable import UnreadableStates
from encamp.run.store.outputs import EnvironmentOutputs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from encamp.run.engine.command import StackWorkspace, ToldStack
    from encamp.run.engine.unanswered import Unanswered

_LISTINGS = 10
#: Seconds between a destroy's messages about what it waits for.
_DESTROY_SECONDS = 10.0
#: For commands of the engine that touch its backend only: a state in a bucket, a key that opens it.
_POLICY = RetryPolicy(attempts=6, first_pause=1.0, longest_pause=15.0)
#: The file backend's message when it lists a state that another engine replaces at that moment.
_REPLACED = "code=NotFound"


class JobEngine:
    """The stacks of one workspace folder.

    Args:
        folder: with the ``Pulumi.yaml``: a job's own folder, or the repository.
        show: gets a line for people for each step.
        keep: gets each step that is done.
        fence: what this process has to show against locks of dead engines; without it only those of this machine go.
        operations: tells what GKE is at in the stack's cluster, in words.
        stall: how many seconds an up or a destroy may say nothing before it is ended, see ``stalling``; None for no
            limit, as for an environment, whose cluster may take hours to change.
    """

    def __init__(
        self,
        folder: Path,
        show: Callable[[str], None],
        keep: Callable[[ResourceStep], None] | None = None,
        fence: Fence | None = None,
        *,
        operations: Callable[[], Sequence[str]] | None = None,
        stall: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        from encamp.run.engine.command import SessionCommand  # noqa: PLC0415 - the engine's SDK is slow to import

        self._folder = folder
        self._show = show
        self._keep = keep
        self._fence = fence
        self._operations = operations
        self._stall = stall
        self._sleep = sleep
        self._command = SessionCommand()
        self._unreadable = UnreadableStates(folder)
        self._workspace: StackWorkspace | None = None

    def interrupt(self) -> None:
        """Ask a running command to stop after the steps in flight."""
        self._command.interrupt()

    def stacks(self) -> list[str]:
        """Return the names of all stacks of the project in the backend, also of those whose state cannot be read.

        In a backend of files a state that another engine replaces meanwhile spoils the listing; it is then made anew.
        """
        for attempt in range(1, _LISTINGS + 1):
            try:
                return _names(self._run(["stack", "ls", "--json"], "the engine's stacks"))
            except EngineError as error:
                if _REPLACED in str(error) and attempt < _LISTINGS:
                    continue
                if (names := self._unreadable.listed()) is not None:
                    return names
                raise
        raise AssertionError

    def set_aside(self, stack: str) -> str | None:
        """Rename a stack's state that cannot be read; where it is now, None if nothing was wrong with it."""
        return self._unreadable.set_aside(stack)

    def has(self, stack: str) -> bool:
        """Whether the backend has a stack of this name."""
        try:
            self._run(["stack", "--show-name", "--stack", stack], f"stack {stack}")
        except NoStackError:
            return False
        return True

    def create(self, stack: str) -> None:
        """Make a stack if it is not there; it is not made the current one."""
        with suppress(StackExistsError):
            self._run(["stack", "init", stack, "--no-select"], f"stack {stack}")

    def set_secret(self, stack: str, key: str, value: str) -> None:
        """Write a value into the stack's config that only the stack's key opens."""
        # By stdin: everybody may read the words of a command.
        self._run(["config", "set", "--secret", "--stack", stack, key], f"stack {stack}", value)

    def up(self, stack: str) -> None:
        """Create what the stack's program declares.

        A run that says nothing for too long is ended.

        Raises:
            RunError: a resource failed, or the run was interrupted; what was created stays in the state.
            LockedError: another engine run holds the stack's lock.
            EngineError: the engine was killed; its lock and what it was making are still there.
        """
        events = EventLog(self._show, self._keep)
        with self._watched(events):
            self._guarded(
                lambda: self._stack(stack).up(on_event=events, color="never", show_secrets=False), stack, events
            )

    def destroy(self, stack: str, *, refresh: bool = False) -> None:
        """Delete everything of the stack, and prove by its state that nothing is left in it.

        A lock that a dead engine left is cleared first; a living one's is waited for, a minute at most. With
        ``refresh`` the state is first compared with the cloud, so that what is gone already is not asked for.

        Raises:
            TeardownError: something is left in the state; names it.
        """
        events = EventLog(self._show, self._keep)
        try:
            self._destroy(stack, events, refresh=refresh)
        except LockedError as error:
            if not self.unlock(stack, error.lock):
                raise
            self._destroy(stack, events, refresh=refresh)
        left = self.resources(stack)
        if left:
            raise TeardownError(
                f"the engine reports success, but its state still lists {', '.join(left)}",
                where=f"stack {stack}",
                hint="run `encamp reap`",
            )

    def _destroy(self, stack: str, events: EventLog, *, refresh: bool) -> None:
        with self._watched(events):
            self._guarded(
                lambda: self._stack(stack).destroy(on_event=events, color="never", show_secrets=False, refresh=refresh),
                stack,
                events,
                every=_DESTROY_SECONDS,
            )

    def _watched(self, events: EventLog) -> AbstractContextManager[object]:
        if self._stall is None:
            return nullcontext()
        return StallWatch(events, self._stall, self._command, self._show)

    def remove(self, stack: str) -> None:
        """Forget an empty stack; a config file in this workspace's folder stays."""
        with suppress(NoStackError):
            # If the answer of an earlier attempt was lost, the stack is gone already.
            self._run(["stack", "rm", "--yes", "--preserve-config", stack], f"stack {stack}")

    def outputs(self, stack: str) -> dict[str, Any]:
        """Return a stack's outputs, none if it is not there; secrets stay masked."""
        try:
            answer = self._run(["stack", "output", "--json", "--stack", stack], f"stack {stack}")
        except NoStackError:
            return {}
        outputs: dict[str, Any] = parsed(answer or "{}", f"stack {stack}")
        return outputs

    def resources(self, stack: str) -> list[str]:
        """Return logical names of everything that the state lists, the stack itself left out."""
        return self.state(stack).names

    def state(self, stack: str) -> StackState:
        """Return the state as it is now."""
        return StackState.read(self._export(stack))

    def forget_pending(self, stack: str, kubeconfig: str | None = None) -> list[Unanswered]:
        """Drop operations that never had an answer from the state; returns the creates among them.

        Only right when the cloud's own listing is asked afterwards for what they may have made. From then on the engine
        reaches the cluster by ``kubeconfig``, where one is given.
        """
        exported = self._export(stack)
        state = StackState.read(exported)
        wanted = StackState(state.without_pending() if state.has_pending else state.deployment)
        deployment = wanted.deployment if kubeconfig is None else wanted.reaching(kubeconfig)
        if deployment != state.deployment:
            self._import(stack, {**exported, "deployment": deployment})
        return state.unanswered()

    def reach(self, stack: str, kubeconfig: str) -> None:
        """Set the kubeconfig by which the engine reaches the stack's cluster from now on."""
        exported = self._export(stack)
        state = StackState.read(exported)
        deployment = state.reaching(kubeconfig)
        if deployment != state.deployment:
            self._import(stack, {**exported, "deployment": deployment})

    def settle_pending(self, stack: str, provider_id: Callable[[Unanswered], str | None]) -> list[Unanswered]:
        """Ask the cloud for creates whose answer never came: what exists enters the state, the rest leaves it.

        What GKE was still making when an engine ended is waited for.

        ``provider_id`` gives the id by which the provider reads one, None if none can be made; those creates are
        returned, dropped from the state.
        """
        exported = self._export(stack)
        state = StackState.read(exported)
        unanswered = state.unanswered()
        known = {one.urn: found for one in unanswered if (found := provider_id(one)) is not None}
        if unanswered:
            # The engine's own flag for it, `refresh --import-pending-creates`, drops what exists, too (3.259.0).
            self._import(stack, {**exported, "deployment": state.with_answers(known)})
        if unanswered or state.is_cut_short:
            self._run(["refresh", "--yes", "--skip-preview", "--stack", stack], f"stack {stack}")
        return [one for one in unanswered if one.urn not in known]

    def tag(self, stack: str, key: str) -> str | None:
        """Return a tag of a stack, None if it has none or is not there."""
        try:
            found: dict[str, str] = parsed(self._run(["stack", "tag", "ls", "--json", "--stack", stack], stack), stack)
        except NoStackError:
            return None
        return found.get(key)

    def set_tag(self, stack: str, key: str, value: str | None) -> None:
        """Set a tag of a stack, or take it away by None."""
        words = ["set", key, value] if value is not None else ["rm", key]
        self._run(["stack", "tag", *words, "--stack", stack], f"stack {stack}")

    def forget_cluster(self, stack: str) -> None:
        """Drop the objects of a deleted cluster from the state: they are gone with it, and cannot be refreshed."""
        exported = self._export(stack)
        state = StackState.read(exported)
        if state.in_cluster:
            self._import(stack, {**exported, "deployment": state.without_cluster()})

    def _import(self, stack: str, exported: dict[str, Any]) -> None:
        file = self._folder / f"state-{stack}.json"
        try:
            file.touch(mode=0o600)
            file.write_text(json.dumps(exported))
            self._run(["stack", "import", "--file", str(file), "--stack", stack], f"stack {stack}")
        finally:
            file.unlink(missing_ok=True)

    def environment(self, stack: str) -> EnvironmentOutputs:
        """Return an environment's outputs.

        Raises:
            EngineError: the environment is not up.
        """
        outputs = self.outputs(stack)
        if "kubeconfig" not in outputs:
            raise EngineError(
                f"the environment {stack} is not up",
                where=f"stack {stack}",
                hint=f"run `encamp environment up {stack}`, or `pulumi up -s {stack}`",
            )
        return EnvironmentOutputs(
            kubeconfig=outputs["kubeconfig"],
            cluster=outputs["cluster"],
            location=outputs["location"],
            project=outputs["project"],
            artifacts_bucket=outputs["artifactsBucket"],
            namespace=outputs["namespace"],
        )

    def take_lock(self, stack: str) -> bool:
        """Take the stack's lock for a moment, a dead engine's away; False where another engine works on it.

        By a command that reads the state under the lock: a state that was exported before would overwrite what an
        engine wrote at its end in between, and an import drops what is pending.
        """
        target = StackState.read(self._export(stack)).stack_urn
        nothing = ["--target", target] if target else []
        try:
            self._run(["refresh", "--yes", "--skip-preview", "--stack", stack, *nothing], f"stack {stack}")
        except LockedError as error:
            return self.unlock(stack, error.lock)
        return True

    def unlock(self, stack: str, message: str) -> bool:
        """Take away a lock if the rule of ``locks`` lets us; False if it has to stay.

        ``message`` is what the engine said of the lock.
        """
        lock = read_lock(message)
        if lock is None:
            return False
        here = self._fence or Fence(socket.gethostname(), "")
        verdict = may_clear(lock, here, time.time())
        if verdict is Verdict.CLEAR and self._fence is None:
            # Without a lease to show, only processes are checked.
            return False
        if verdict is Verdict.BY_PROCESS:
            self._show(
                f"stack {stack} is locked by an engine (pid {lock.pid}); its end is waited for, a minute at most"
            )
        if verdict is Verdict.KEEP or (verdict is Verdict.BY_PROCESS and not has_ended(lock.pid)):
            return False
        self._show(f"clearing the lock of a dead engine (pid {lock.pid} on {lock.host})")
        self._run(["cancel", "--yes", stack], f"stack {stack}")
        return True

    def _export(self, stack: str) -> dict[str, Any]:
        where = f"stack {stack}"
        exported: dict[str, Any] = parsed(self._run(["stack", "export", "--stack", stack], where), where)
        return exported

    def _run(self, arguments: list[str], where: str, given: str | None = None) -> str:
        from pulumi.automation import (  # noqa: PLC0415
            CommandError,
            ConcurrentUpdateError,
            StackAlreadyExistsError,
            StackNotFoundError,
        )

        def once() -> str:
            try:
                return self._command.run(arguments, str(self._folder), {}, given=given).stdout
            except (StackNotFoundError, StackAlreadyExistsError, ConcurrentUpdateError):
                raise
            except (CommandError, EngineError) as error:
                if is_transient(excerpt(str(error))):
                    raise TransientError(error) from error
                raise

        try:
            return with_retries(once, _POLICY, sleep=self._sleep)
        except StackNotFoundError as error:
            raise NoStackError("the engine has no such stack", where=where) from error
        except StackAlreadyExistsError as error:
            raise StackExistsError("the engine has this stack already", where=where) from error
        except ConcurrentUpdateError as error:
            raise LockedError(where.removeprefix("stack "), str(error)) from error
        except CommandError as error:
            raise self._unreadable.error(where, str(error)) or EngineError(
                excerpt(str(error)), where=where, hint=advice(str(error))
            ) from error

    def _opened(self) -> StackWorkspace:
        from encamp.run.engine.command import StackWorkspace  # noqa: PLC0415

        if self._workspace is None:
            self._workspace = StackWorkspace(work_dir=str(self._folder), pulumi_command=self._command)
        return self._workspace

    def _stack(self, stack: str) -> ToldStack:
        from encamp.run.engine.command import ToldStack  # noqa: PLC0415

        return ToldStack(stack, self._opened())

    def _guarded(
        self, command: Callable[[], object], stack: str, events: EventLog, *, every: float | None = None
    ) -> None:
        from pulumi.automation import CommandError, ConcurrentUpdateError  # noqa: PLC0415

        try:
            slow = SlowSteps(
                events, self._show, self._operations, **({"every": every, "usual": every} if every else {})
            )
            with slow:
                command()
            events.say_summary()
        except ConcurrentUpdateError as error:
            raise LockedError(stack, str(error)) from error
        except CommandError as error:
            if (unreadable := self._unreadable.error(f"stack {stack}", str(error))) is not None:
                raise unreadable from error
            what = "; ".join(map(str, events.failures)) or excerpt(str(error))
            raise RunError(what, stack, events) from error


def _names(listing: str) -> list[str]:
    return [summary["name"] for summary in parsed(listing, "the engine's stacks")]
