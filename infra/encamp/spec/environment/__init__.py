"""An environment as written: its model (a block a file), its rules, and how stacks' configs are read."""

from encamp.spec.environment.access import AccessSpec, AuditSpec
from encamp.spec.environment.api import ApiIssuerSpec, ApiSpec
from encamp.spec.environment.driver import DriverSpec
from encamp.spec.environment.files import with_files
from encamp.spec.environment.loading import load_environment, parse_environment, read_environment
from encamp.spec.environment.model import SANDBOX_PREFIX, EnvironmentSpec
from encamp.spec.environment.monitoring import MonitoringSpec
from encamp.spec.environment.queues import QueuesSpec
from encamp.spec.environment.reaper import ReaperSpec

__all__ = [
    "SANDBOX_PREFIX",
    "AccessSpec",
    "ApiIssuerSpec",
    "ApiSpec",
    "AuditSpec",
    "DriverSpec",
    "EnvironmentSpec",
    "MonitoringSpec",
    "QueuesSpec",
    "ReaperSpec",
    "load_environment",
    "parse_environment",
    "read_environment",
    "with_files",
]
