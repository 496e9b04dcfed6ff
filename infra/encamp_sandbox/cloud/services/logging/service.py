"""Cloud Logging as one API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.services.logging.entries import entry_routes
from encamp_sandbox.cloud.services.logging.exclusions import EXCLUSIONS
from encamp_sandbox.cloud.services.logging.metrics import METRICS, SINKS

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud


def logging(cloud: Cloud) -> Api:
    """Serve logging.googleapis.com."""
    return Api(cloud, "logging", ("v2",), (METRICS, SINKS, EXCLUSIONS), entry_routes(cloud.database))
