"""Compute Engine as one API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.services.compute.networks import NETWORKS, SUBNETWORK_METHODS, SUBNETWORKS
from encamp_sandbox.cloud.services.compute.places import PLACES
from encamp_sandbox.cloud.services.compute.resource_policies import AGGREGATED, RESOURCE_POLICIES
from encamp_sandbox.cloud.services.compute.routers import ROUTERS

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud


def compute(cloud: Cloud) -> Api:
    """Serve compute.googleapis.com; custom endpoints leave the service's name out of the path."""
    return Api(
        cloud,
        "compute",
        ("compute/v1", "compute/beta", "v1", "beta"),
        (NETWORKS, SUBNETWORKS, ROUTERS, RESOURCE_POLICIES),
        (*SUBNETWORK_METHODS, AGGREGATED, *PLACES),
    )
