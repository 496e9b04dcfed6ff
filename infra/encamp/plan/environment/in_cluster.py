"""Variables and resources of all pods that run encamp in an environment's own cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names the cluster that a pod runs in, as ``projects/P/locations/L/clusters/C``. Environments write it into the pods
#: that they make: a runner of CI may be a pod too, and of another cluster.
OWN_CLUSTER = "ENCAMP_OWN_CLUSTER"
#: Number of jobs that a reaper tears down at once: each of them runs an engine with its plugins.
ENDINGS_AT_ONCE = 6
#: MiB that were measured, as docs/decisions/0172 says (engine-memory): encamp itself; the program of a job's stack; an
#: engine with both plugins, without the pages of their files; those pages, which all engines share.
ENCAMP_MIB, PROGRAM_MIB, ENGINE_MIB, FILES_MIB = 96, 80, 355, 440
_GIB = 1024
#: Allowance for garbage collection, large plans and page tables beside it.
_MARGIN = 1.35


def memory_gib(engines: int) -> int:
    """Return the memory in GiB of a pod with so many engines at a time."""
    used = ENCAMP_MIB + PROGRAM_MIB + engines * ENGINE_MIB + FILES_MIB
    return math.ceil(used * _MARGIN / _GIB)


def engine_resources(engines: int) -> dict[str, Any]:
    """Write a container's ``resources``: it is scheduled for one engine, and may grow to so many."""
    return {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": f"{memory_gib(engines)}Gi"}}


def engine_variables(backend_url: str, cluster: str) -> Mapping[str, str]:
    """Return the variables of a pod that runs the engine.

    ``cluster`` is the full name of the environment's cluster, by which the pod knows that it is a pod of that one.
    """
    return {"PULUMI_BACKEND_URL": backend_url, "PULUMI_SKIP_UPDATE_CHECK": "true", OWN_CLUSTER: cluster}


def named_values(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Write variables as a container's ``env``."""
    return [{"name": name, "value": value} for name, value in variables.items()]
