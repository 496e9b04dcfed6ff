"""Drivers that an environment runs in its own cluster: what somebody writes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.environment.in_cluster import InClusterSpec, in_cluster_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec
    from encamp.spec.environment.problems import Found


class DriverSpec(InClusterSpec):
    """Where ``encamp submit --in-cluster`` hands jobs to: a Kubernetes Job drives each."""


def driver_problems(driver: DriverSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Everything that is wrong with it."""
    yield from in_cluster_problems(driver, environment, instead="`encamp submit`")
