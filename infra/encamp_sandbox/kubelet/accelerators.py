"""GPUs and TPU chips that are not there: containers that ask for them run without, and are told so.

Beliefs: pod-sees-its-gpus, time-gpu-driver.
"""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any

from encamp.process import OutputLine

if TYPE_CHECKING:
    from collections.abc import Mapping

TPU_RESOURCE = "google.com/tpu"
RESOURCES = ("nvidia.com/gpu", TPU_RESOURCE)
_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
_TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-topology"


def asked_for(container: Mapping[str, Any]) -> dict[str, int]:
    """Return devices that a container asks for, by resource name."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {name: int(limits[name]) for name in RESOURCES if int(limits.get(name, 0)) > 0}


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return ENCAMP_SIMULATED_ACCELERATORS: the devices as JSON; empty if none are asked for."""
    devices = asked_for(container)
    return {"ENCAMP_SIMULATED_ACCELERATORS": json.dumps(devices, sort_keys=True)} if devices else {}


def tpu_environment(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """Return TPU_WORKER_ID and TPU_WORKER_HOSTNAMES as GKE's webhook sets them on an indexed job's pods with chips.

    Every host of the slice runs one pod, and they differ in their index only. Source:
    cloud.google.com/kubernetes-engine/docs/how-to/tpus.
    """
    chips = asked_for(container).get(TPU_RESOURCE)
    spec, metadata = pod["spec"], pod["metadata"]
    index = (metadata.get("annotations") or {}).get(_INDEX_ANNOTATION)
    topology = (spec.get("nodeSelector") or {}).get(_TOPOLOGY_LABEL)
    if not chips or index is None or not topology or not spec.get("subdomain"):
        return {}
    hosts = max(prod(int(side) for side in topology.split("x")) // chips, 1)
    base = str(spec.get("hostname") or metadata["name"]).removesuffix(f"-{index}")
    if hosts == 1:
        return {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": f"{base}-{index}.{spec['subdomain']}"}
    names = [f"{base}-{number}.{spec['subdomain']}" for number in range(hosts)]
    return {"TPU_WORKER_ID": index, "TPU_WORKER_HOSTNAMES": ",".join(names)}


def notes(container: Mapping[str, Any]) -> list[OutputLine]:
    """Return the first lines of the container's log: notes on simulated accelerators."""
    return [
        OutputLine(f"encamp: {count} x {name} simulated: this sandbox has none, the program runs on CPUs".encode())
        for name, count in asked_for(container).items()
    ]
