"""The one way to the engine: Pulumi's Automation API, one stack a job, its CLI apart from the terminal.

``destroy`` is believed only when the state lists nothing any more. A lock is cleared only when the process that holds
it is known to be dead, and creates whose answer never came are settled with the cloud's listing before.
"""

from __future__ import annotations

import json
import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psutil

from encamp.errors import EngineError, TeardownError
from encamp.run.events import EventLog, ResourceStep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pulumi.automation import LocalWorkspace, Stack

_LOCKED_BY = re.compile(r"created by (?P<user>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\)")
_LOCK_PATIENCE_SECONDS = 60
_LISTINGS = 10
_REPLACED = "code=NotFound"
_BASE_TYPES = frozenset({"pulumi:pulumi:Stack"})


class NoStackError(EngineError):
    """The engine's backend has no stack of this name."""


class _StackExistsError(EngineError):
    pass


class LockedError(EngineError):
    """Another engine run has the stack's lock, or died with it; ``lock`` is what the engine says of it."""

    def __init__(self, stack: str, lock: str) -> None:
        super().__init__(
            "another engine run holds the stack's lock", where=f"stack {stack}", hint="run `encamp reap` later"
        )
        self.lock = lock


@dataclass(frozen=True)
class EnvironmentOutputs:
    """What an environment's stack says of itself."""

    kubeconfig: str
    cluster: str
    location: str
    project: str
    artifacts_bucket: str
    namespace: str

    @property
    def cluster_path(self) -> str:
        """``projects/P/locations/L/clusters/C``."""
        name = self.cluster.rpartition("/")[2]
        return f"projects/{self.project}/locations/{self.location}/clusters/{name}"


@dataclass(frozen=True)
class StackOutputs:
    """What a job's stack says of itself: with plain ``pulumi up`` it is the intent."""

    job_id: str
    name: str
    namespace: str
    job_set: str
    artifacts_bucket: str
    prefix: str
    labels: dict[str, str]
    deadline: float
    node_pools: tuple[str, ...]
    machines: dict[str, str]
    hourly: dict[str, float]
    buckets: tuple[str, ...]
    job_dir: str | None
    results_bucket: str | None
    results_days: int | None

    @classmethod
    def read(cls, outputs: dict[str, Any]) -> StackOutputs | None:
        """Of a stack's outputs; None where it is no job's, or came not far enough to have any."""
        if "jobId" not in outputs or "jobSet" not in outputs:
            return None
        return cls(
            job_id=outputs["jobId"],
            name=outputs["name"],
            namespace=outputs["namespace"],
            job_set=outputs["jobSet"],
            artifacts_bucket=outputs["artifactsBucket"],
            prefix=outputs["prefix"],
            labels=dict(outputs["labels"]),
            deadline=float(outputs["deadline"]),
            node_pools=tuple(outputs.get("nodePools") or ()),
            machines=dict(outputs.get("machines") or {}),
            hourly=dict(outputs.get("hourly") or {}),
            buckets=tuple(outputs.get("grantedBuckets") or ()),
            job_dir=outputs.get("jobDir"),
            results_bucket=outputs.get("resultsBucket"),
            results_days=int(outputs["resultsDays"]) if outputs.get("resultsDays") else None,
        )


class JobEngine:
    """The stacks of one workspace folder.

    Args:
        folder: with the ``Pulumi.yaml``: a job's own folder, or the repository.
        show: gets a line for people for each step.
        keep: gets each step that is done.
    """

    def __init__(
        self,
        folder: Path,
        show: Callable[[str], None],
        keep: Callable[[ResourceStep], None] | None = None,
    ) -> None:
        from encamp.run.command import SessionCommand  # noqa: PLC0415 - the engine's SDK is slow to import

        self._folder = folder
        self._show = show
        self._keep = keep
        self._command = SessionCommand()
        self._workspace: LocalWorkspace | None = None

    def interrupt(self) -> None:
        """Ask a running command to stop after the steps in flight."""
        self._command.interrupt()

    def stacks(self) -> list[str]:
        """Names of all stacks of the project in the backend.

        In a backend of files a state that another engine replaces meanwhile spoils the listing; it is then made anew.
        """
        listing = ["stack", "ls", "--json"]
        for _ in range(_LISTINGS - 1):
            try:
                return _names(self._run(listing, "the engine's stacks"))
            except EngineError as error:
                if _REPLACED not in str(error):
                    raise
        return _names(self._run(listing, "the engine's stacks"))

    def has(self, stack: str) -> bool:
        """Whether the backend has a stack of this name."""
        try:
            self._run(["stack", "--show-name", "--stack", stack], f"stack {stack}")
        except NoStackError:
            return False
        return True

    def create(self, stack: str) -> None:
        """Make a stack if it is not there; it is not made the current one."""
        with suppress(_StackExistsError):
            self._run(["stack", "init", stack, "--no-select"], f"stack {stack}")

    def up(self, stack: str) -> None:
        """Create what the stack's program declares.

        Raises:
            EngineError: a resource failed, or the run was interrupted; what was created stays in the state.
        """
        events = EventLog(self._show, self._keep)
        self._guarded(lambda: self._stack(stack).up(on_event=events, color="never", show_secrets=False), stack, events)

    def destroy(self, stack: str) -> None:
        """Delete everything of the stack, and prove by its state that nothing is left in it.

        A lock that a dead engine left is cleared first; a living one's is waited for, a minute at most.

        Raises:
            TeardownError: something is left in the state; names it.
        """
        events = EventLog(self._show, self._keep)
        try:
            self._destroy(stack, events)
        except LockedError as error:
            if not self.unlock(stack, error.lock):
                raise
            self._destroy(stack, events)
        left = self.resources(stack)
        if left:
            raise TeardownError(
                f"the engine reports success, but its state still lists {', '.join(left)}",
                where=f"stack {stack}",
                hint="run `encamp reap`",
            )

    def _destroy(self, stack: str, events: EventLog) -> None:
        self._guarded(
            lambda: self._stack(stack).destroy(on_event=events, color="never", show_secrets=False), stack, events
        )

    def remove(self, stack: str) -> None:
        """Forget an empty stack; a config file in this workspace's folder stays."""
        self._run(["stack", "rm", "--yes", "--preserve-config", stack], f"stack {stack}")

    def outputs(self, stack: str) -> dict[str, Any]:
        """A stack's outputs, none where it is not there; secrets stay masked."""
        try:
            answer = self._run(["stack", "output", "--json", "--stack", stack], f"stack {stack}")
        except NoStackError:
            return {}
        outputs: dict[str, Any] = json.loads(answer or "{}")
        return outputs

    def resources(self, stack: str) -> list[str]:
        """Logical names of everything that the state lists, the stack itself left out."""
        deployment = self._state(stack)
        return [
            resource["urn"].rpartition("::")[2]
            for resource in deployment.get("resources") or []
            if resource["type"] not in _BASE_TYPES and not resource["type"].startswith("pulumi:providers:")
        ]

    def created(self, stack: str) -> list[ResourceStep]:
        """When each resource of the state was made: for a stack that another engine run brought up."""
        return [
            ResourceStep(
                at=datetime.fromisoformat(resource["created"]),
                done="created",
                type=resource["type"],
                name=resource["urn"].rpartition("::")[2],
                urn=resource["urn"],
                id=resource.get("id", ""),
            )
            for resource in self._state(stack).get("resources") or []
            if resource.get("custom") and "created" in resource and not resource["type"].startswith("pulumi:")
        ]

    def forget_pending(self, stack: str) -> list[str]:
        """Drop operations that never had an answer from the state; returns what they were about.

        Only right when the cloud's own listing is asked afterwards for what they may have made.
        """
        exported = self._export(stack)
        pending = (exported.get("deployment") or {}).get("pending_operations") or []
        if not pending:
            return []
        exported["deployment"]["pending_operations"] = []
        file = self._folder / f"state-{stack}.json"
        try:
            file.touch(mode=0o600)
            file.write_text(json.dumps(exported))
            self._run(["stack", "import", "--file", str(file), "--stack", stack], f"stack {stack}")
        finally:
            file.unlink(missing_ok=True)
        return [f"{one['type']} {one['resource']['urn'].rpartition('::')[2]}" for one in pending]

    def environment(self, stack: str) -> EnvironmentOutputs:
        """An environment's outputs.

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

    def unlock(self, stack: str, message: str) -> bool:
        """Take away a lock whose holder is dead; False where a living process holds it.

        ``message`` is what the engine said of the lock. It names the holder's host and process; a holder on another
        machine cannot be judged from here and counts as living.
        """
        holder = _LOCKED_BY.search(message)
        if holder is None or holder["host"] != socket.gethostname():
            return False
        for _ in range(_LOCK_PATIENCE_SECONDS):
            if not _is_engine(int(holder["pid"])):
                self._show(f"clearing the lock of a dead engine (pid {holder['pid']})")
                self._run(["cancel", "--yes", stack], f"stack {stack}")
                return True
            time.sleep(1)
        return False

    def _state(self, stack: str) -> dict[str, Any]:
        deployment: dict[str, Any] = self._export(stack).get("deployment") or {}
        return deployment

    def _export(self, stack: str) -> dict[str, Any]:
        exported: dict[str, Any] = json.loads(self._run(["stack", "export", "--stack", stack], f"stack {stack}"))
        return exported

    def _run(self, arguments: list[str], where: str) -> str:
        from pulumi.automation import (  # noqa: PLC0415
            CommandError,
            ConcurrentUpdateError,
            StackAlreadyExistsError,
            StackNotFoundError,
        )

        try:
            return self._command.run(arguments, str(self._folder), {}).stdout
        except StackNotFoundError as error:
            raise NoStackError("the engine has no such stack", where=where) from error
        except StackAlreadyExistsError as error:
            raise _StackExistsError("the engine has this stack already", where=where) from error
        except ConcurrentUpdateError as error:
            raise LockedError(where.removeprefix("stack "), str(error)) from error
        except CommandError as error:
            raise EngineError(_excerpt(str(error)), where=where) from error

    def _opened(self) -> LocalWorkspace:
        from encamp.run.command import StackWorkspace  # noqa: PLC0415

        if self._workspace is None:
            self._workspace = StackWorkspace(work_dir=str(self._folder), pulumi_command=self._command)
        return self._workspace

    def _stack(self, stack: str) -> Stack:
        from pulumi.automation import Stack  # noqa: PLC0415

        return Stack.select(stack, self._opened())

    def _guarded(self, command: Callable[[], object], stack: str, events: EventLog) -> None:
        from pulumi.automation import CommandError, ConcurrentUpdateError  # noqa: PLC0415

        try:
            command()
        except ConcurrentUpdateError as error:
            raise LockedError(stack, str(error)) from error
        except CommandError as error:
            what = "; ".join(events.errors) or _excerpt(str(error))
            raise EngineError(what, where=f"stack {stack}") from error


def _names(listing: str) -> list[str]:
    return [summary["name"] for summary in json.loads(listing)]


def _is_engine(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and "pulumi" in process.name()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True


def _excerpt(message: str) -> str:
    """The CLI's own error lines of a CommandError."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:") or "stderr: error:" in line]
    return "; ".join(line.rpartition("error:")[2].strip() for line in errors) or " ".join(lines[-3:])
