"""GPUs and TPU chips that are not there: containers that ask for them run without, and are told so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from encamp.process import OutputLine

if TYPE_CHECKING:
    from collections.abc import Mapping

RESOURCES = ("nvidia.com/gpu", "google.com/tpu")


def asked_for(container: Mapping[str, Any]) -> dict[str, int]:
    """Devices that a container asks for, by resource name."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(limits[name]) for name in RESOURCES if int(limits.get(name, 0)) > 0}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """ENCAMP_SIMULATED_ACCELERATORS: the devices as JSON; empty where none are asked for."""
    devices = asked_for(container)
    return {"ENCAMP_SIMULATED_ACCELERATORS": json.dumps(devices, sort_keys=True)} if devices else {}


def notes(container: Mapping[str, Any]) -> list[OutputLine]:
    """What the container's log begins with."""
    return [
        OutputLine(f"encamp: {count} x {name} simulated: this sandbox has none, the program runs on CPUs".encode())
        for name, count in asked_for(container).items()
    ]
