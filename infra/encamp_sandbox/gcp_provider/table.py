"""Every type that the provider serves, by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.gcp_provider.types.billing import BUDGET
from encamp_sandbox.gcp_provider.types.cluster import CLUSTER
from encamp_sandbox.gcp_provider.types.compute import COMPUTE_TYPES
from encamp_sandbox.gcp_provider.types.kms import KMS_TYPES
from encamp_sandbox.gcp_provider.types.logging import LOGGING_TYPES
from encamp_sandbox.gcp_provider.types.members import MEMBER_TYPES
from encamp_sandbox.gcp_provider.types.monitoring import MONITORING_TYPES
from encamp_sandbox.gcp_provider.types.node_pool import NODE_POOL
from encamp_sandbox.gcp_provider.types.project import PROJECT_TYPES
from encamp_sandbox.gcp_provider.types.registry import REPOSITORY
from encamp_sandbox.gcp_provider.types.storage import STORAGE_TYPES

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.model import ResourceType

_ALL: Final[tuple[ResourceType, ...]] = (
    *PROJECT_TYPES,
    *COMPUTE_TYPES,
    CLUSTER,
    NODE_POOL,
    REPOSITORY,
    *STORAGE_TYPES,
    *MEMBER_TYPES,
    *KMS_TYPES,
    BUDGET,
    *MONITORING_TYPES,
    *LOGGING_TYPES,
)
TYPES: Final = {type_.token: type_ for type_ in _ALL}
