"""The choice of a runtime that this machine allows: decided by trial, and reported to ``doctor`` with the reason."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import EncampError, SandboxError
from encamp_sandbox.kubelet.host_view import host_view
from encamp_sandbox.kubelet.namespaces import Namespaces
from encamp_sandbox.kubelet.network_policy.rules import Allowed, PodRules, Ports, Span
from encamp_sandbox.kubelet.plain import Plain
from encamp_sandbox.kubelet.runtime import ContainerRequest, PodRequest, StartError

if TYPE_CHECKING:
    from encamp.process import OutputLine
    from encamp_sandbox.kubelet.namespaces import NamespacedPod
    from encamp_sandbox.kubelet.runtime import Runtime
    from encamp_sandbox.layout import Layout

NAMESPACES, NONE = "namespaces", "none"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """The isolation of pods on this machine.

    Attributes:
        mode: ``namespaces`` (own network, files and processes) or ``none`` (addresses and paths are rewritten).
        reason: why.
        remedy: what would allow namespaces, empty if they are allowed.
        unenforced: why network policies of pods are not enforced, empty if they are.
    """

    mode: str
    reason: str
    remedy: str = ""
    unenforced: str = ""

    def __str__(self) -> str:
        return f"{self.mode}: {self.reason}"


def isolation() -> Verdict:
    """Try what this machine allows: a pod in namespaces that runs a command. Takes some tenths of a second."""
    return asyncio.run(probe())


async def probe() -> Verdict:
    """Return the same, for a running event loop."""
    if sys.platform != "linux":
        return Verdict(NONE, f"{sys.platform} has no namespaces", "run the sandbox on Linux")
    with tempfile.TemporaryDirectory(prefix="encamp-probe-") as folder:
        runtime = Namespaces(Path(folder), host_view(None, os.environ), Path(folder) / "bundle.crt")
        try:
            return await _try(runtime, Path(folder))
        except (EncampError, StartError) as error:
            return Verdict(NONE, str(error), _remedy())
        finally:
            await runtime.close()


async def _try(runtime: Namespaces, folder: Path) -> Verdict:
    await runtime.open()
    pod = await runtime.sandbox(PodRequest("probe", "probe", "probe", folder / "pod"))
    lines: list[OutputLine] = []
    unenforced = _unenforced(runtime, pod)
    try:
        pod.set_hosts([])
        log = folder / "termination"
        log.touch()
        process = await pod.run(
            ContainerRequest(
                name="probe",
                argv=("sh", "-c", "hostname; echo $$"),
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                mounts=[],
                termination_log=(log, "/dev/termination-log"),
                output=lines.append,
                errors=lines.append,
            )
        )
        await process.wait()
    finally:
        await pod.close()
    said = [line.text for line in lines]
    if said != ["probe", "1"]:
        return Verdict(NONE, f"a pod in namespaces said {said}", _remedy())
    reason = "user namespaces work: every pod has its own network, files and processes"
    return Verdict(NAMESPACES, reason, unenforced=unenforced)


def _unenforced(runtime: Namespaces, pod: NamespacedPod) -> str:
    """Return why this kernel does not filter the packets of pods, empty if it does; each kind of rule is tried."""
    everything = (Span.of("0.0.0.0/1"),)
    allowed = (Allowed(everything, (Ports("TCP", 1, 2), Ports("UDP"))),)
    try:
        pod.set_rules(PodRules(allowed, allowed, everything))
        runtime.lead({pod.address: everything})
    except SandboxError as error:
        return str(error)
    return ""


def _remedy() -> str:
    """Return the usual reasons that forbid user namespaces, in the order of likelihood."""
    switches = {
        "kernel.apparmor_restrict_unprivileged_userns": "0",
        "kernel.unprivileged_userns_clone": "1",
        "user.max_user_namespaces": "15000",
    }
    for name, value in switches.items():
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists():
            now = path.read_text().strip()
            if (now != value and value in ("0", "1")) or now == "0" != value:
                return f"sudo sysctl -w {name}={value}"
    return "allow user namespaces for this user (in a container: run it with seccomp and AppArmor unconfined)"


async def choose_runtime(layout: Layout, wanted: str) -> tuple[Runtime, Verdict]:
    """Return the runtime to use, ready for pods.

    Args:
        layout: the sandbox.
        wanted: ``namespaces``, ``none``, or empty for what the machine allows.

    Raises:
        SandboxError: namespaces are wanted and forbidden.
    """
    folder = layout.kubelet_data / "runtime"
    folder.mkdir(parents=True, exist_ok=True)
    verdict = Verdict(NONE, "ENCAMP_SANDBOX_ISOLATION says so") if wanted == NONE else await probe()
    if wanted == NAMESPACES and verdict.mode != NAMESPACES:
        raise SandboxError(f"pods cannot have namespaces: {verdict.reason}", hint=verdict.remedy)
    runtime: Runtime
    if verdict.mode == NAMESPACES:
        runtime = Namespaces(folder, host_view(layout, os.environ), layout.bundle, verdict.unenforced)
        if verdict.unenforced:
            _LOG.warning("network policies are not enforced: %s", verdict.unenforced)
    else:
        _LOG.warning("pods share this machine's network and files: %s", verdict.reason)
        runtime = Plain(layout)
    await runtime.open()
    return runtime, verdict
