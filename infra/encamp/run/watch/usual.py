"""Usual durations of waits on GKE, for people who wait.

Nobody promises these times, so they are beliefs: usual-machine-wait, usual-gpu-machine-wait, usual-tpu-machine-wait.
"""

from __future__ import annotations

from typing import Any

from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE
from encamp.plan.manifests.views import FLEX_START_KEY, SPOT_KEY

#: Labels of machines that come when Google has room for them.
_WHEN_THERE_IS_ROOM = {
    SPOT_KEY: "spot machines come when Google has room",
    FLEX_START_KEY: "flex-start machines come when Google has room, within the job's maxWaitTime",
}


def usual_wait(spec: dict[str, Any]) -> str:
    """Return the usual wait for a machine of such a pod, in words."""
    selector = spec.get("nodeSelector") or {}
    for label, words in _WHEN_THERE_IS_ROOM.items():
        if selector.get(label) == "true":
            return words
    devices = {
        name
        for container in spec.get("containers") or []
        for kind in ("limits", "requests")
        for name in (container.get("resources") or {}).get(kind) or {}
    }
    if TPU_RESOURCE in devices:
        return "usually 3 to 10 min on GKE where a whole slice is free"
    if GPU_RESOURCE in devices:
        return "usually 3 to 8 min on GKE, its driver included"
    return "usually 1 to 3 min on GKE"
