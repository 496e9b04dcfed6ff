"""JobSet and Kueue as their own Helm charts have them, rendered when encamp is made and kept in ``templates/charts/``.

Nothing is fetched and no Helm is asked when an environment is brought up: a preview shows every object. What of the
charts is left out, and why, is in ``tools/charts.py``.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.resources import resource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.spec.environment import EnvironmentSpec

JOBSET, KUEUE = "jobset", "kueue"


@dataclass(frozen=True)
class ChartPlan:
    """A controller with everything that it needs in a cluster.

    Attributes:
        name: of the chart.
        version: of the module that the chart and the controller come from, with its ``v``.
        namespace: the controller's own.
        labels: of every object, beside the chart's.
        objects: Kubernetes objects as their chart renders them, in its order.
    """

    name: str
    version: str
    namespace: str
    labels: Mapping[str, str]
    objects: tuple[Mapping[str, Any], ...]


@functools.cache
def read_chart(name: str) -> Mapping[str, Any]:
    """Return a stored chart: its objects, and what they were rendered from."""
    found: dict[str, Any] = json.loads(resource("templates", "charts", f"{name}.json").read_bytes())
    return found


def plan_charts(environment: EnvironmentSpec, labels: Mapping[str, str]) -> tuple[ChartPlan, ...]:
    """Return the charts that an environment installs: none if its cluster has the controllers already."""
    if not environment.installs_controllers:
        return ()
    names = (JOBSET, KUEUE) if environment.queues is not None else (JOBSET,)
    return tuple(_chart(read_chart(name), labels) for name in names)


def _chart(kept: Mapping[str, Any], labels: Mapping[str, str]) -> ChartPlan:
    return ChartPlan(kept["chart"], kept["version"], kept["namespace"], labels, tuple(kept["objects"]))
