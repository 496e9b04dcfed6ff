"""Every type that the sandbox's ``gcp`` provider serves, by token."""

from __future__ import annotations

from typing import Final

from encamp.sandbox.cloud.gcp.access_types import ACCESS_TYPES
from encamp.sandbox.cloud.gcp.budget_types import BUDGET
from encamp.sandbox.cloud.gcp.container_types import CLUSTER, NODE_POOL
from encamp.sandbox.cloud.gcp.kms_types import KMS_TYPES
from encamp.sandbox.cloud.gcp.member_types import ACCOUNT_MEMBER, BUCKET_MEMBER, PROJECT_MEMBER
from encamp.sandbox.cloud.gcp.monitoring_types import MONITORING_TYPES
from encamp.sandbox.cloud.gcp.network_types import NETWORK, ROUTER, ROUTER_NAT, SUBNETWORK
from encamp.sandbox.cloud.gcp.policy_types import RESOURCE_POLICY
from encamp.sandbox.cloud.gcp.project_types import ACCOUNT, REPOSITORY, SERVICE
from encamp.sandbox.cloud.gcp.registry_member_types import REPOSITORY_MEMBER
from encamp.sandbox.cloud.gcp.storage_types import BUCKET, BUCKET_OBJECT

TYPES: Final = {
    type_.token: type_
    for type_ in (
        SERVICE,
        NETWORK,
        SUBNETWORK,
        ROUTER,
        ROUTER_NAT,
        RESOURCE_POLICY,
        CLUSTER,
        NODE_POOL,
        REPOSITORY,
        BUCKET,
        BUCKET_OBJECT,
        BUCKET_MEMBER,
        ACCOUNT,
        ACCOUNT_MEMBER,
        PROJECT_MEMBER,
        REPOSITORY_MEMBER,
        *KMS_TYPES,
        BUDGET,
        *ACCESS_TYPES,
        *MONITORING_TYPES,
    )
}
