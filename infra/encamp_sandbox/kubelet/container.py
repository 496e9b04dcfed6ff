"""One container of a pod: its starts, its ends and the waits in between.

Reasons and messages are those of the kubelet with containerd (k8s.io/kubernetes/pkg/kubelet/kuberuntime).

Belief: node-container-restarts-back-off.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError
from encamp_sandbox.kubelet import accelerators, images, network_devices, readiness
from encamp_sandbox.kubelet.environment import ConfigError, container_environment
from encamp_sandbox.kubelet.expansion import expand_all
from encamp_sandbox.kubelet.logs import LogFile, last_lines
from encamp_sandbox.kubelet.own_image import own_image
from encamp_sandbox.kubelet.requirements import requirements
from encamp_sandbox.kubelet.runtime import ContainerRequest, PodSandbox, StartError
from encamp_sandbox.kubelet.status import MESSAGE_BYTES, ContainerState
from encamp_sandbox.kubelet.times import now
from encamp_sandbox.pythons.choice import image_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp.process import LiveProcess, OutputLine, ProcessOutcome
    from encamp_sandbox.kubelet.egress import Dial
    from encamp_sandbox.kubelet.environment import Lookup
    from encamp_sandbox.kubelet.volumes import Volumes
    from encamp_sandbox.pythons.choice import ImagePython

_LOG = logging.getLogger(__name__)
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TERMINATION_LOG = "/dev/termination-log"
_NO_ENTRYPOINT = "the process runtime cannot run an image's own entrypoint: the container needs a command"
_START_FAILED = 128
_KILLED = 137
_FALLBACK_LINES, _FALLBACK_BYTES = 80, 2048
_CONFIG_RETRY_SECONDS = 2.0
#: A container that ran this long starts with the first back-off again.
_RECOVERED_SECONDS = 600.0
_LONGEST_BACKOFF_SECONDS = 300.0


@dataclass
class PodContext:
    """The parts of a pod that its containers need.

    Attributes:
        pod: gives the pod as the API has it, with the status we report.
        sandbox: where it runs.
        folder: of this pod's logs.
        base_env: variables that every container of the sandbox gets, its own win.
        note: sends an event on the pod: reason, message, whether it is a warning.
        changed: reports the pod's status.
        stopping: set when nothing is to be started any more.
        dial: connects to an address and port.
    """

    pod: Callable[[], Mapping[str, Any]]
    allocatable: Mapping[str, str]
    sandbox: PodSandbox
    volumes: Volumes
    folder: Path
    logs: Path
    lookup: Lookup
    base_env: Mapping[str, str]
    first_backoff_seconds: float
    note: Callable[[str, str, bool], None]
    changed: Callable[[], None]
    stopping: asyncio.Event
    dial: Dial


class Container:
    """A container through all its starts; ``state`` is what the API is told."""

    def __init__(self, spec: Mapping[str, Any], *, init: bool, restarts: int = 0) -> None:
        self.spec = spec
        self.state = ContainerState(spec["name"], spec.get("image", ""), init=init, restarts=restarts)
        if not init:
            self.state.wait("ContainerCreating")
        self.out_of_memory = False
        self.memory_mounts: tuple[str, ...] = ()
        self._process: LiveProcess | None = None
        self._writing: Path | None = None
        self._log: LogFile | None = None

    def tell(self, line: OutputLine) -> None:
        """Write a line of the kubelet's into the log of the start that runs."""
        if self._log is not None:
            self._log.write("stderr", line)

    def writes(self, log: Path) -> bool:
        """Whether a log may still grow."""
        return self._writing == log

    @property
    def process(self) -> LiveProcess | None:
        """The process that runs it now."""
        return self._process

    def log_path(self, context_logs: Path, *, previous: bool = False) -> Path:
        """The log of this start, or of the one before."""
        return context_logs / self.state.name / f"{self.state.restarts - previous}.log"

    async def run(self, context: PodContext, restart_policy: str) -> None:
        """Run it until it has ended for good."""
        backoff = context.first_backoff_seconds
        while not context.stopping.is_set():
            begun = now()
            await self._once(context)
            code = self.state.exit_code
            if context.stopping.is_set() or restart_policy == "Never" or (restart_policy == "OnFailure" and code == 0):
                return
            if (now() - begun).total_seconds() > _RECOVERED_SECONDS:
                backoff = context.first_backoff_seconds
            await self._back_off(context, backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF_SECONDS)

    async def stop(self, grace: Callable[[], float]) -> None:
        """Ask its first process to end; kill all of it when ``grace`` has no seconds left."""
        process = self._process
        if process is None:
            return
        process.send_signal(15)
        while process.running and (left := grace()) > 0:
            await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=min(left, 0.2))
        await process.stop(0)

    async def _once(self, context: PodContext) -> None:
        """One start, until its end."""
        while not context.stopping.is_set():
            try:
                request = await self._request(context)
                break
            except ConfigError as error:
                reason = "CreateContainerError" if str(error) == _NO_ENTRYPOINT else "CreateContainerConfigError"
                if reason == "CreateContainerError":
                    self._not_started(context, reason, str(error))
                    return
                if self.state.state.get("waiting", {}).get("message") != str(error):
                    context.note("Failed", f"Error: {error}", True)
                self.state.wait(reason, str(error))
                context.changed()
                await _interruptible(context.stopping, _CONFIG_RETRY_SECONDS)
        else:
            return
        await self._start_and_wait(context, request)

    async def _start_and_wait(self, context: PodContext, request: ContainerRequest) -> None:
        log = self._log = LogFile(self.log_path(context.logs))
        self._writing = log.path
        try:
            await self._run_with_log(context, _with_log(request, log), log)
        finally:
            log.close()
            self._writing = self._log = None

    async def _run_with_log(self, context: PodContext, request: ContainerRequest, log: LogFile) -> None:
        try:
            for line in [*accelerators.notes(self.spec), *network_devices.notes(self.spec)]:
                log.write("stderr", line)
            process = self._process = await context.sandbox.run(request)
        except (StartError, EncampError) as error:
            message = f'failed to start container "{self.state.name}": {error}'
            self._not_started(context, "StartError", message)
            return
        self.state.probed = not readiness.has_probe(self.spec)
        self.state.run(process.started_at, f"process://{process.pid}-{int(process.started_at.timestamp() * 1000)}")
        context.note("Started", f"Started container {self.state.name}", False)
        context.changed()
        probing = asyncio.create_task(self._probe(context))
        try:
            outcome = await process.wait()
        finally:
            probing.cancel()
            self._process = None
        self._ended(outcome, request.termination_log[0], log.path)
        context.changed()

    async def _probe(self, context: PodContext) -> None:
        if not self.state.probed:
            await readiness.until_ready(self.spec, context.sandbox.address, context.dial)
            self.state.probed = True
            context.changed()

    def _not_started(self, context: PodContext, reason: str, message: str) -> None:
        moment = now()
        self.state.end(_START_FAILED, reason, moment, moment, message)
        context.note("Failed", f"Error: {message}", True)
        context.changed()

    def _ended(self, outcome: ProcessOutcome, termination_log: Path, log: Path) -> None:
        code = outcome.code
        reason = "Completed" if code == 0 else "Error"
        if self.out_of_memory and code == _KILLED:
            reason = "OOMKilled"
        with termination_log.open("rb") as file:
            # The end of it, as the kubelet takes it (k8s.io/kubernetes/pkg/kubelet/kuberuntime, tail.ReadAtMost).
            file.seek(max(0, termination_log.stat().st_size - MESSAGE_BYTES))
            message = file.read(MESSAGE_BYTES).decode("utf-8", "replace")
        if not message and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            message = last_lines(log, lines=_FALLBACK_LINES, size=_FALLBACK_BYTES)
        self.state.end(code, reason, outcome.started_at, outcome.ended_at, message)

    async def _back_off(self, context: PodContext, seconds: float) -> None:
        metadata = context.pod()["metadata"]
        pod_name = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        message = f"back-off {seconds:g}s restarting failed container={self.state.name} pod={pod_name}"
        if self.state.exit_code == 0 and not self.state.init:
            seconds = min(seconds, context.first_backoff_seconds)
        self.state.wait("CrashLoopBackOff", message)
        context.note("BackOff", f"Back-off restarting failed container {self.state.name} in pod {pod_name}", True)
        context.changed()
        await _interruptible(context.stopping, seconds)
        if context.stopping.is_set():
            self.state.stay_ended()
        else:
            self.state.restarts += 1

    async def _request(self, context: PodContext) -> ContainerRequest:
        """Resolve everything. Raises ConfigError."""
        spec = self.spec
        if not spec.get("command"):
            raise ConfigError(_NO_ENTRYPOINT)
        own = await container_environment(context.pod(), spec, context.allocatable, context.lookup)
        own = accelerators.environment(spec) | accelerators.tpu_environment(context.pod(), spec) | own
        mounts = context.volumes.mounts(spec, own)
        image = own_image(spec.get("image", ""), context.folder / "own-image")
        python = await _image_python(spec.get("image", ""), requirements(mounts))
        programs = python.programs if python else Path(sys.executable).parent
        folders = [*(image.path if image else ()), str(programs), _SYSTEM_PATH]
        path = {"PATH": os.pathsep.join(folders), **(image.env if image else {})}
        hostname = {"HOSTNAME": context.pod()["spec"].get("hostname") or context.pod()["metadata"]["name"]}
        argv = network_devices.installer(spec) or expand_all([*spec["command"], *(spec.get("args") or [])], own)
        if (program := images.program(spec.get("image", ""))) is not None:
            argv[0] = str(program)
        termination_log = context.folder / "termination" / f"{self.state.name}-{self.state.restarts}"
        termination_log.parent.mkdir(parents=True, exist_ok=True)
        termination_log.write_bytes(b"")
        # Not its arguments, which may hold secrets.
        _LOG.info("container %s of %s: %s", spec["name"], context.pod()["metadata"]["name"], shlex.quote(argv[0]))
        self.memory_mounts = tuple(mount["target"] for mount in mounts if "memory" in mount)
        return ContainerRequest(
            name=spec["name"],
            argv=argv,
            env={**path, **hostname, **context.base_env, **own},
            cwd=spec.get("workingDir") or (image.folder if image else "/"),
            mounts=[*(image.mounts if image else ()), *(python.mounts if python else ()), *mounts],
            termination_log=(termination_log, spec.get("terminationMessagePath") or _TERMINATION_LOG),
            output=lambda _line: None,
            errors=lambda _line: None,
        )


async def _image_python(image: str, wanted: Sequence[str]) -> ImagePython | None:
    """The Python environment of a container. Raises ConfigError."""
    try:
        return await asyncio.to_thread(image_python, image, wanted)
    except EncampError as error:
        raise ConfigError(str(error)) from error


def _with_log(request: ContainerRequest, log: LogFile) -> ContainerRequest:
    return replace(request, output=partial(log.write, "stdout"), errors=partial(log.write, "stderr"))


async def _interruptible(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
