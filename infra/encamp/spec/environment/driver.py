"""The ``driver`` block of an environment: drivers in its own cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.environment.in_cluster import InClusterSpec, in_cluster_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec
    from encamp.spec.environment.problems import Found


class DriverSpec(InClusterSpec):
    """Drivers for ``encamp submit --in-cluster``: a Kubernetes Job drives each job."""


def driver_problems(driver: DriverSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    yield from in_cluster_problems(driver, environment, instead="`encamp submit`")
