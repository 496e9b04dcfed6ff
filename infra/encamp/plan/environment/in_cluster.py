"""What pods share that run encamp in an environment's own cluster: their variables, and how much they may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names the cluster that a pod runs in, as ``projects/P/locations/L/clusters/C``. Environments write it into the pods
#: that they make: a runner of CI may be a pod too, and of another cluster.
OWN_CLUSTER = "ENCAMP_OWN_CLUSTER"


def engine_variables(backend_url: str, cluster: str) -> Mapping[str, str]:
    """Give the variables of a pod that runs the engine.

    ``cluster`` is the full name of the environment's cluster, by which the pod knows that it is a pod of that one.
    """
    return {"PULUMI_BACKEND_URL": backend_url, "PULUMI_SKIP_UPDATE_CHECK": "true", OWN_CLUSTER: cluster}


def named_values(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Write variables as a container's ``env``."""
    return [{"name": name, "value": value} for name, value in variables.items()]
