"""The Pulumi CLI as a process apart: the terminal's Ctrl-C does not reach it, and it does not outlive its driver."""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

# gRPC's fork handlers print warnings when we start the CLI; no child of ours uses gRPC before it has become a program.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc
from pulumi.automation import CommandResult, LocalWorkspace, PulumiCommand, Stack, UpdateSummary

# The base class wants these, and its package does not name them.
from pulumi.automation._stack import _GRPC_CHANNEL_OPTIONS, StackInitMode, _EventsServicer
from pulumi.automation.errors import InvalidVersionError, create_command_error
from pulumi.runtime.proto.events_pb2_grpc import add_EventsServicer_to_server

from encamp.backend import backend_url, mend
from encamp.errors import EngineError
from encamp.guard.sockets import temporary_folder
from encamp.process.linux import death_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pulumi.automation import EngineEvent, OutputMap
    from semver import VersionInfo

    OnOutput = Callable[[str], object]
    OnEvent = Callable[[EngineEvent], object]

#: The CLI's messages for a state or lock in a file backend that is being written, or never will be complete.
_HALF_WRITTEN = re.compile(r"^error: (failed to load checkpoint: )?EOF$", re.MULTILINE)
_HALF_WRITTEN_ATTEMPTS = 20
_HALF_WRITTEN_SECONDS = 0.5
#: Without the search for stacks of Pulumi 2 in every command.
_ENVIRONMENT = {"PULUMI_AUTOMATION_API": "true", "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "true"}


class SessionCommand(PulumiCommand):
    """Runs each command of the CLI in a session of its own.

    When the driver dies the kernel sends the CLI SIGINT (Linux), upon which it finishes the steps in flight, writes
    its state and gives its lock back: nothing is left half recorded, and the reaper finds a stack that it can take.
    It prints into files: of a pipe that the driver's death has closed it would die at its next line, before all that.
    """

    def __init__(self) -> None:
        program = shutil.which("pulumi")
        if program is None:
            raise EngineError(
                "the Pulumi CLI is not on PATH",
                where="pulumi",
                hint='install it, or run `encamp sandbox up` and `eval "$(encamp sandbox env)"`',
            )
        # Not by the base class, which would ask for the version each time.
        self.command, self.version = program, _version(program)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._interrupted = False

    def interrupt(self) -> None:
        """Ask the running command, if any, to stop after the steps in flight. Only the first call counts.

        A second SIGINT would make the CLI stop at once and forget what is being created.
        """
        with self._lock:
            if self._process is not None and not self._interrupted:
                self._interrupted = True
                with suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End the running command, if any, at once: its lock and what it waits for stay behind."""
        with self._lock:
            if self._process is not None:
                with suppress(ProcessLookupError):
                    self._process.kill()

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None = None,
        on_error: OnOutput | None = None,
        *,
        given: str | None = None,
    ) -> CommandResult:
        """Run a command; as the base class, but in a session of its own and with ``given`` on its stdin.

        What it prints is told line by line once it has ended; a run's steps are told by the engine's event log.
        A state that another engine writes at this moment (that of a driver that was killed finishes its steps) is
        read again; one that an engine was killed over is mended first.

        Raises:
            pulumi.automation.CommandError: it exits with another code than 0.
            EngineError: it was killed.
        """
        for _ in range(_HALF_WRITTEN_ATTEMPTS):
            result = self._once(args, cwd, additional_env, on_output, on_error, given=given)
            if result.code == 0:
                return result
            if result.code < 0:
                name = signal.Signals(-result.code).name
                raise EngineError(f"the engine was killed ({name})", where=f"pulumi {args[0]}")
            if _HALF_WRITTEN.search(result.stderr) is None:
                break
            time.sleep(_HALF_WRITTEN_SECONDS)
            mend(backend_url(Path(cwd), {**os.environ, **additional_env}))
        raise create_command_error(result)

    def _once(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: OnOutput | None,
        on_error: OnOutput | None,
        *,
        given: str | None,
    ) -> CommandResult:
        environment = {**os.environ, **_ENVIRONMENT, **additional_env}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                [self.command, "--non-interactive", *args],
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env=environment,
                start_new_session=True,
                preexec_fn=death_with_parent(signal.SIGINT),  # noqa: PLW1509 - it makes one system call and takes no lock
            )
            with self._lock:
                self._process, self._interrupted = process, False
            if process.stdin is not None:
                with suppress(BrokenPipeError), process.stdin:
                    process.stdin.write((given or "").encode())
            process.wait()
            with self._lock:
                self._process = None
            return CommandResult(stdout=_lines(out, on_output), stderr=_lines(err, on_error), code=process.returncode)


class StackWorkspace(LocalWorkspace):
    """A workspace that names the stack in every command, so that it need not be the user's current one."""

    def select_stack(self, stack_name: str) -> None:
        """Leave the user's own choice alone."""


class ToldStack(Stack):
    """A stack that needs no queries after a command because its events told everything.

    The base class would start the CLI three times more for each ``up``, and once for each ``destroy``. It would also
    take the events at a port of loopback, where every user of the machine could send it some.
    """

    def __init__(self, name: str, workspace: StackWorkspace) -> None:
        super().__init__(name, workspace, StackInitMode.SELECT)

    def _setup_event_log(
        self, command: str, on_event: OnEvent, pulumi_version: str
    ) -> tuple[str, None, None, tempfile.TemporaryDirectory[str], grpc.Server]:
        """Take the engine's events at a unix socket, in a folder that only this user enters."""
        del command, pulumi_version
        folder = tempfile.TemporaryDirectory(prefix="encamp-events-", dir=temporary_folder())
        server = grpc.server(ThreadPoolExecutor(max_workers=1), options=_GRPC_CHANNEL_OPTIONS)
        add_EventsServicer_to_server(_EventsServicer(on_event), server)
        address = f"unix:{folder.name}/events"
        server.add_insecure_port(address)
        server.start()
        # The engine dials what stands behind tcp:// as gRPC spells targets.
        return f"tcp://{address}", None, None, folder, server

    def outputs(self) -> OutputMap:
        """Return no outputs: the events told them."""
        return {}

    def info(self, show_secrets: bool = True) -> UpdateSummary:
        """Return a summary that says only that the command ended well."""
        del show_secrets
        now = datetime.now(UTC)
        return UpdateSummary(kind="", start_time=now, message="", environment={}, config={}, result="succeeded")


@functools.cache
def _version(program: str) -> VersionInfo | None:
    """Return the version of a CLI, asked for once; too old a one is refused."""
    try:
        return PulumiCommand().version
    except InvalidVersionError as error:
        raise EngineError(str(error), where=program, hint="install a newer Pulumi CLI") from error
    except subprocess.CalledProcessError as error:
        raise EngineError(f"`pulumi version` exits with {error.returncode}", where=program) from error


def _lines(written: IO[bytes], told: OnOutput | None) -> str:
    """Return a command's output without the last line's end; ``told`` gets each line."""
    written.seek(0)
    lines = [line.rstrip() for line in written.read().decode(errors="replace").split("\n")]
    if lines[-1] == "":
        lines.pop()
    if told is not None:
        for line in lines:
            told(line)
    return "\n".join(lines)
