"""The present state of a sandbox: the supervisor's record, checked against the processes and ports themselves."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from encamp.errors import SandboxError
from encamp_sandbox import state
from encamp_sandbox.services import later_services, service_names, services
from encamp_sandbox.state import ProcessState, SandboxState, is_alive, read_state
from encamp_sandbox.tools import installed

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

RUNNING, STARTING, HEALED, FAILED, STOPPED = "running", "starting", "healed", "failed", "stopped"
#: A process that was started again shows as healed for this long; then it is just running.
_HEALED_SECONDS = 3600.0


@dataclasses.dataclass(frozen=True)
class ProcessStatus:
    """One process: what it is doing, and what to do about it (empty when nothing)."""

    name: str
    state: str
    pid: int | None
    seconds: float
    restarts: int
    message: str
    advice: str
    log: str


@dataclasses.dataclass(frozen=True)
class SandboxStatus:
    """The whole sandbox; ``state`` is running, starting, failed or stopped."""

    root: str
    state: str
    advice: str
    supervisor_pid: int | None
    processes: tuple[ProcessStatus, ...]

    @property
    def failed(self) -> bool:
        """Whether something is wrong with it."""
        return self.state == FAILED

    def to_json(self) -> dict[str, Any]:
        """Return JSON data, with the keys that programs may rely on."""
        return {
            "root": self.root,
            "state": self.state,
            "advice": self.advice,
            "supervisorPid": self.supervisor_pid,
            "processes": [dataclasses.asdict(process) for process in self.processes],
        }


def sandbox_status(layout: Layout) -> SandboxStatus:
    """Look at everything, ask every server whether it answers, and say what to do.

    Raises:
        SandboxError: there is no sandbox in this folder.
    """
    config = layout.config
    found = read_state(layout)
    supervised = found is not None and is_alive(found.pid, found.created)
    answering = _answering(layout) if found else {}
    names = service_names(config.kubernetes_provider, installs_controllers=config.installs_controllers)
    processes = tuple(
        _process(layout, name, found.processes[name] if found else None, answering.get(name), supervised=supervised)
        for name in (found.processes if found else names)
    )
    overall, advice = _overall(found, processes, supervised=supervised)
    return SandboxStatus(str(layout.root), overall, advice, found.pid if found and supervised else None, processes)


def _overall(found: SandboxState | None, processes: tuple[ProcessStatus, ...], *, supervised: bool) -> tuple[str, str]:
    states = {process.state for process in processes}
    if found is None or found.down_at is not None:
        return STOPPED, "encamp sandbox up"
    if not supervised:
        return FAILED, "the supervisor was ended from outside, and its processes with it: encamp sandbox up"
    if FAILED in states:
        return FAILED, "see the failed process; encamp sandbox down and up starts everything afresh"
    return (STARTING, "wait a moment") if STARTING in states else (RUNNING, "")


def _process(
    layout: Layout, name: str, process: ProcessState | None, answers: bool | None, *, supervised: bool
) -> ProcessStatus:
    log = str(layout.log(name))
    if process is None:
        return ProcessStatus(name, STOPPED, None, 0.0, 0, "", "encamp sandbox up", log)
    alive = is_alive(process.pid, process.created)
    value, advice = _judge(process, alive=alive, answers=bool(answers), supervised=supervised, log=log)
    return ProcessStatus(
        name=name,
        state=value,
        pid=process.pid if alive else None,
        seconds=round(max(0.0, time.time() - process.since), 1),
        restarts=max(0, process.starts - 1),
        message=process.message,
        advice=advice,
        log=log,
    )


def _judge(process: ProcessState, *, alive: bool, answers: bool, supervised: bool, log: str) -> tuple[str, str]:
    if not supervised:
        return (FAILED, "encamp sandbox down ends it") if alive else (STOPPED, "encamp sandbox up")
    if process.state == state.FAILING:
        return FAILED, f"it ends again and again: read {log}, then encamp sandbox down and up"
    if process.state != state.READY or not alive:
        return STARTING, "it is being started: ask again in a few seconds"
    if not answers:
        return FAILED, f"it runs but does not answer: kill -9 {process.pid} has it started again"
    if process.starts > 1 and time.time() - process.since < _HEALED_SECONDS:
        return HEALED, ""
    return RUNNING, ""


def _answering(layout: Layout) -> dict[str, bool]:
    async def ask() -> dict[str, bool]:
        try:
            known = [*services(layout, installed()), *later_services(layout)]
        except (SandboxError, ImportError):
            return {}
        answers = await asyncio.gather(*(service.ready() for service in known))
        return {service.name: answer for service, answer in zip(known, answers, strict=True)}

    return asyncio.run(ask())
