"""The status of a pod from the states of its containers, as the kubelet computes it.

Source: k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go (getPhase) and pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp_sandbox.kubelet.times import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
#: A termination message is cut to this many bytes.
MESSAGE_BYTES = 4096


@dataclass
class ContainerState:
    """The state of a container: ``state`` is one entry of waiting, running or terminated, as in the API."""

    name: str
    image: str
    state: dict[str, Any] = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: dict[str, Any] = field(default_factory=dict)
    restarts: int = 0
    container_id: str = ""
    init: bool = False
    probed: bool = True
    """Whether its readiness probe has succeeded, or it has none."""

    @property
    def ready(self) -> bool:
        """Whether it serves, or as one that comes first has done its work."""
        return self.exit_code == 0 if self.init else self.running and self.probed

    @property
    def running(self) -> bool:
        """Whether its command runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; None while it has not ended."""
        return self.state["terminated"]["exitCode"] if "terminated" in self.state else None

    def restore(self, known: Mapping[str, Any]) -> None:
        """Take what the API was told before, by an earlier kubelet perhaps."""
        self.state = dict(known.get("state") or self.state)
        self.last = dict(known.get("lastState") or {})
        self.restarts = known.get("restartCount", 0)
        self.container_id = known.get("containerID", "")

    def wait(self, reason: str, message: str = "") -> None:
        """Set the state to waiting; the last exit is kept."""
        self._keep()
        self.state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}

    def run(self, started: datetime, container_id: str) -> None:
        """Set the state to running: the command has started."""
        self._keep()
        self.container_id = container_id
        self.state = {"running": {"startedAt": stamp(started)}}

    def end(self, code: int, reason: str, started: datetime, ended: datetime, message: str = "") -> None:
        """Set the state to terminated: the command has ended."""
        terminated = {
            "exitCode": code,
            "reason": reason,
            "startedAt": stamp(started),
            "finishedAt": stamp(ended),
            "containerID": self.container_id,
        }
        self.state = {"terminated": terminated | ({"message": message} if message else {})}

    def to_json(self) -> dict[str, Any]:
        """Return the API's ContainerStatus."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": f"process://{self.image}" if self.container_id else "",
            "containerID": self.container_id,
            "restartCount": self.restarts,
            "ready": self.ready,
            "started": self.running,
            "state": self.state,
            "lastState": self.last,
        }

    def stay_ended(self) -> None:
        """Return to the last terminated state: a restart was waited for, and will not come."""
        self.state, self.last = self.last, dict[str, Any]()

    def _keep(self) -> None:
        if "terminated" in self.state:
            self.last = {"terminated": self.state["terminated"]}


def phase(
    restart_policy: str, inits: Sequence[ContainerState], containers: Sequence[ContainerState], *, terminal: bool
) -> str:
    """Return the phase of a pod; ``terminal`` says that no container will be started any more."""
    if any(state.exit_code not in (None, 0) for state in inits) and (restart_policy == "Never" or terminal):
        return FAILED
    codes = [state.exit_code for state in containers]
    if terminal:
        return SUCCEEDED if all(code == 0 for code in codes) else FAILED
    unstarted = any("waiting" in state.state and not state.last for state in containers)
    if unstarted or any(state.exit_code != 0 for state in inits):
        return PENDING
    if restart_policy == "Always" or any(code is None for code in codes):
        return RUNNING
    if all(code == 0 for code in codes):
        return SUCCEEDED
    return FAILED if restart_policy == "Never" else RUNNING


def conditions(
    now_phase: str,
    inits: Sequence[ContainerState],
    containers: Sequence[ContainerState],
    *,
    sandbox: bool,
    before: Sequence[Mapping[str, Any]],
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the conditions that a kubelet owns; the time of change is kept where the value has not changed."""
    done = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}.get(now_phase)
    incomplete = [state.name for state in inits if state.exit_code != 0]
    unready = [state.name for state in containers if not state.ready]
    not_ready: tuple[str, str] | None = None
    if done:
        not_ready = (done, "")
    elif unready:
        not_ready = ("ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
    wanted: dict[str, tuple[str, str] | None] = {
        "PodReadyToStartContainers": None if sandbox else ("", ""),
        "Initialized": ("ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]")
        if incomplete and now_phase != SUCCEEDED
        else None,
        "Ready": not_ready,
        "ContainersReady": not_ready,
    }
    if done == "PodCompleted":
        wanted["Initialized"] = None
    old = {condition["type"]: condition for condition in before}
    return [_condition(kind, problem, old.get(kind), now) for kind, problem in wanted.items()]


def _condition(
    kind: str, problem: tuple[str, str] | None, old: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    value = "True" if problem is None else "False"
    same = old is not None and old.get("status") == value and old.get("lastTransitionTime")
    reason, message = problem or ("", "")
    return {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": old["lastTransitionTime"] if same and old else stamp(now),
        "reason": reason or None,
        "message": message or None,
    }


def patch_of(uid: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's status as a strategic merge patch that leaves nothing of an earlier kubelet's addresses.

    Without the directive the API server merges lists of addresses by key, and refuses a pod with two of one family.
    Source: k8s.io/kubernetes/pkg/util/pod/pod.go, PatchPodStatus, whose two-way patch deletes what is not wanted.
    """
    lists = {key: [{"$patch": "replace"}, *wanted[key]] for key in ("hostIPs", "podIPs") if key in wanted}
    return {"metadata": {"uid": uid}, "status": {**wanted, **lists}}
