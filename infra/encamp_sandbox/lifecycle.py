"""Bringing a sandbox up and down: files, then one detached supervisor, then patience.

``up`` and ``down`` of one sandbox take turns by a lock file, and the supervisor holds another for as long as it
lives. No process is ended but by its id together with its creation time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil

from encamp.errors import SandboxError, UsageError
from encamp.extras import need
from encamp.project import FOLDER_VARIABLE, find_project
from encamp.resources import PACKAGE
from encamp_sandbox import state
from encamp_sandbox.access import write_access
from encamp_sandbox.layout import PROJECT, ROOT_VARIABLE, Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.providers import check_running, wanted
from encamp_sandbox.stacks import make_stacks
from encamp_sandbox.state import MARK, SandboxState, find, is_alive, lock, read_state, survivors
from encamp_sandbox.supervisor.logs import last_lines, open_log
from encamp_sandbox.tools import TOOLS, BuildProgress, ensure, ensure_one

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LOCK = "up.lock"
#: cloud.google.com/resource-manager/reference/rest/v3/projects: projectId.
_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
#: What serves queues: its process, and its tool.
QUEUES = "kueue"
_POLL_SECONDS = 0.1
_UP_SECONDS = 120.0
_DOWN_SECONDS = 40.0
_KILL_SECONDS = 5.0
_SAY_SECONDS = 5.0
#: What would lead a process of the sandbox, or a pod, to somebody's real cloud.
_FOREIGN = ("GOOGLE_", "CLOUDSDK_", "PULUMI_", "KUBE", "AWS_", "AZURE_", "TF_CONFIG", "STORAGE_EMULATOR_HOST")


@dataclasses.dataclass(frozen=True)
class Listener:
    """Where progress goes: builds of tools, changes of processes, and other sentences."""

    building: Callable[[BuildProgress], None]
    process: Callable[[str, state.ProcessState], None]
    say: Callable[[str], None]


def up(layout: Layout, listener: Listener, project: str | None = None) -> SandboxState:
    """Bring the sandbox up, or find it up, and wait until everything in it answers.

    Args:
        layout: the sandbox.
        listener: where progress goes.
        project: what a new sandbox serves in place of a project of its own.

    Raises:
        UsageError: it serves another project, or its servers are not installed.
        SandboxError: a tool cannot be built, or a process does not come up; says which and shows its last words.
    """
    need("sandbox", "the sandbox")
    _make_folder(layout)
    with lock(layout.root / _LOCK, lambda: listener.say("another command works on this sandbox, waiting for it")):
        tools = ensure(listener.building)
        _check_project(layout, project)
        if running(layout) is None:
            layout = _prepare(layout, tools, listener, project or PROJECT)
            _start_supervisor(layout)
        else:
            check_running(Layout.open(layout.root).config)
        if layout.queues_mark.is_file() or layout.config.installs_controllers:
            ensure_one(TOOLS[QUEUES], listener.building)
        # The state backend is files: stacks are made while the processes come up.
        made = make_stacks(layout, folder) if (folder := find_project()) is not None else []
        found = _wait_until_ready(layout, listener)
        if made:
            listener.say(f"made the committed stacks {', '.join(made)} in its state backend")
        return found


def start_queues(layout: Layout, listener: Listener) -> None:
    """Have Kueue run in a sandbox that is up, until it is reset; harmless when it does.

    Raises:
        SandboxError: its tool cannot be built, or it does not come up.
    """
    with lock(layout.root / _LOCK, lambda: listener.say("another command works on this sandbox, waiting for it")):
        ensure_one(TOOLS[QUEUES], listener.building)
        if not layout.config.installs_controllers:
            layout.queues_mark.touch()
        _wait_until_ready(layout, listener)


def down(layout: Layout, listener: Listener) -> int:
    """End every process of the sandbox and give how many were ended; what it keeps on disk stays.

    Raises:
        SandboxError: a process would not end.
    """
    if not layout.root.is_dir():
        return 0
    with lock(layout.root / _LOCK, lambda: listener.say("another command works on this sandbox, waiting for it")):
        return _end_all(layout, listener)


def reset(layout: Layout, listener: Listener) -> None:
    """End every process and remove the sandbox with all that it keeps.

    Raises:
        UsageError: the folder does not look like a sandbox's.
        SandboxError: a process would not end, or the folder cannot be removed.
    """
    if not layout.root.exists():
        return
    if not layout.config_file.is_file() and {path.name for path in layout.root.iterdir()} - {_LOCK}:
        raise UsageError("this folder is no sandbox, so it is not removed", where=str(layout.root))
    down(layout, listener)
    socket = layout.socket("x").parent
    try:
        if socket != layout.run:
            shutil.rmtree(socket, ignore_errors=True)
        shutil.rmtree(layout.root)
    except OSError as error:
        raise SandboxError(
            f"the sandbox's folder cannot be removed: {error.strerror}",
            where=str(error.filename),
            hint="remove the folder by hand; no process of the sandbox runs any more",
        ) from error


def running(layout: Layout) -> SandboxState | None:
    """Give the supervisor's state if it is alive."""
    found = read_state(layout)
    return found if found is not None and is_alive(found.pid, found.created) else None


def _make_folder(layout: Layout) -> None:
    try:
        layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SandboxError(
            f"the sandbox's folder cannot be made: {error.strerror}",
            where=str(layout.root),
            hint=f"choose another folder by {ROOT_VARIABLE}",
        ) from error


def _check_project(layout: Layout, project: str | None) -> None:
    if project is None:
        return
    if not _PROJECT.fullmatch(project):
        raise UsageError(f"{project!r} is no project's id", hint="6 to 30 lowercase letters, digits and hyphens")
    if layout.config_file.is_file() and (there := layout.config.project) != project:
        hint = f"encamp sandbox reset, or another folder by {ROOT_VARIABLE}"
        raise UsageError(f"this sandbox serves {there}", where=str(layout.root), hint=hint)


def _prepare(layout: Layout, tools: dict[str, Path], listener: Listener, project: str) -> Layout:
    """Make or mend every file of a sandbox in which nothing runs."""
    if read_state(layout) is not None and (ended := _end_all(layout, listener)):
        listener.say(f"ended {ended} processes that an earlier supervisor left behind")
    layout = Layout.create(layout.root, project)
    config = dataclasses.replace(layout.config, kubernetes_provider=wanted("kubernetes"), gcp_provider=wanted("gcp"))
    if taken := config.ports.taken():
        listener.say(f"somebody else listens on the ports of {', '.join(taken)}: others were chosen")
        config = dataclasses.replace(config, ports=config.ports.renewed(taken))
    layout.save(config)
    issue_certificates(layout)
    people = {name: tools[name] for name in ("pulumi", "kubectl")}
    write_access(layout, people, path=_path_without(layout.bin))
    return layout


def supervisor_environment(layout: Layout) -> dict[str, str]:
    """Give the environment of every process of the sandbox: the user's, less what leads to a real cloud."""
    package = str(PACKAGE.parent)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)},
        "PATH": _path_without(layout.bin),
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        ROOT_VARIABLE: str(layout.root),
        MARK: str(layout.root),
        **({FOLDER_VARIABLE: str(folder)} if (folder := find_project()) is not None else {}),
        **({"SSL_CERT_FILE": str(layout.bundle)} if layout.config.installs_controllers else {}),
    }


def _start_supervisor(layout: Layout) -> None:
    layout.state_file.unlink(missing_ok=True)
    output = open_log(layout.log("supervisor"), "up")
    try:
        subprocess.Popen(
            [sys.executable, "-m", "encamp_sandbox.supervisor"],
            env=supervisor_environment(layout),
            cwd=layout.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def _path_without(folder: Path) -> str:
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(part for part in parts if part != str(folder))


def _wait_until_ready(layout: Layout, listener: Listener) -> SandboxState:
    deadline = time.monotonic() + _UP_SECONDS
    begun = time.monotonic()
    told: dict[str, str] = {}
    while True:
        found = read_state(layout)
        for name, process in (found.processes if found else {}).items():
            if told.get(name) != process.state:
                told[name] = process.state
                listener.process(name, process)
        if found and found.all_ready and (QUEUES in found.processes or not layout.queues_mark.is_file()):
            return found
        gone = found is None or not is_alive(found.pid, found.created)
        if gone and time.monotonic() - begun > _KILL_SECONDS:
            raise _not_up(layout, "the supervisor", "supervisor", "it has ended")
        for name, process in (found.processes if found else {}).items():
            if process.state == state.FAILING:
                raise _not_up(layout, name, name, process.message)
        if time.monotonic() > deadline:
            late = [name for name, process in (found.processes if found else {}).items() if process.state != "ready"]
            raise _not_up(layout, ", ".join(late), late[0], f"not ready within {_UP_SECONDS:.0f} seconds")
        time.sleep(_POLL_SECONDS)


def _not_up(layout: Layout, who: str, log: str, message: str) -> SandboxError:
    lines = "".join(f"\n  | {line}" for line in last_lines(layout.log(log), 8))
    return SandboxError(
        f"the sandbox is not up: {who}: {message}{lines}",
        where=str(layout.log(log)),
        hint="encamp sandbox status, encamp sandbox doctor; a sandbox that is broken for good: encamp sandbox reset",
    )


def _end_all(layout: Layout, listener: Listener) -> int:
    """Ask the supervisor to end all, then look for what is left by listing, and end that too."""
    before = {process.pid: process for process in survivors(layout)}
    found = read_state(layout)
    supervisor = find(found.pid, found.created) if found else None
    if supervisor is not None and found is not None:
        listener.say(f"ending {len(before)} processes")
        with contextlib.suppress(psutil.NoSuchProcess):
            supervisor.terminate()
        _wait_gone([supervisor], _DOWN_SECONDS, listener)
    left = [process for process in _with_recorded(layout, found) if process.is_running()]
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
        before.setdefault(process.pid, process)
    _wait_gone(left, _KILL_SECONDS, listener)
    if stubborn := survivors(layout):
        names = ", ".join(f"{process.pid} ({process.name()})" for process in stubborn)
        raise SandboxError(f"processes of the sandbox do not end: {names}", hint="end them by hand: kill -9 PID")
    layout.state_file.unlink(missing_ok=True)
    return len(before)


def _with_recorded(layout: Layout, found: SandboxState | None) -> list[psutil.Process]:
    """Return the processes that are still there: by their mark, and by what the supervisor wrote down."""
    recorded = [find(process.pid, process.created) for process in (found.processes.values() if found else ())]
    listed = {process.pid: process for process in (*survivors(layout), *filter(None, recorded))}
    return list(listed.values())


def _wait_gone(processes: list[psutil.Process], seconds: float, listener: Listener) -> None:
    """Wait until processes are gone, at most so long; says every few seconds how many processes there still are."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _, alive = psutil.wait_procs(processes, timeout=min(left, _SAY_SECONDS))
        if not alive:
            return
        names = ", ".join(sorted({_name(process) for process in alive}))
        listener.say(f"waiting for {names} to end, killed in {max(0.0, end - time.monotonic()):.0f} s")


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return str(process.pid)
