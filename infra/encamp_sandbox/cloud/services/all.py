"""Every service of the sandbox's Google Cloud, behind the front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp_sandbox.cloud.admin_api import AdminApi
from encamp_sandbox.cloud.front import Front
from encamp_sandbox.cloud.services.compute.places import LIMIT
from encamp_sandbox.cloud.services.compute.service import compute
from encamp_sandbox.cloud.services.container.service import container
from encamp_sandbox.cloud.services.iam.service import credentials, iam
from encamp_sandbox.cloud.services.kms.service import kms
from encamp_sandbox.cloud.services.logging.service import logging
from encamp_sandbox.cloud.services.monitoring.service import monitoring
from encamp_sandbox.cloud.services.project.billing import budgets, cloud_billing, cloud_quotas
from encamp_sandbox.cloud.services.project.resource_manager import resource_manager
from encamp_sandbox.cloud.services.project.service_usage import service_usage
from encamp_sandbox.cloud.services.registry.service import artifact_registry
from encamp_sandbox.cloud.services.storage.proxy import StorageProxy
from encamp_sandbox.cloud.tokens import KeyFile, Tokens

if TYPE_CHECKING:
    import httpx

    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.api import Api
    from encamp_sandbox.layout import Layout


def all_apis(cloud: Cloud, tokens: Tokens) -> tuple[Api, ...]:
    """Return every API but Cloud Storage, whose objects lie in a server of their own."""
    return (
        compute(cloud),
        container(cloud),
        iam(cloud),
        credentials(cloud, tokens),
        resource_manager(cloud),
        service_usage(cloud),
        cloud_billing(cloud),
        budgets(cloud),
        cloud_quotas(cloud, LIMIT),
        kms(cloud),
        artifact_registry(cloud),
        logging(cloud),
        monitoring(cloud),
    )


def make_front(
    cloud: Cloud, layout: Layout, storage_transport: httpx.AsyncBaseTransport | None = None
) -> tuple[Front, StorageProxy]:
    """Return the front over a cloud, and the part of it that has connections to close.

    ``storage_transport`` is a way to the storage server other than the network, for tests.
    """
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    storage = StorageProxy(cloud, f"http://127.0.0.1:{layout.ports.storage}", layout.token, storage_transport)
    services = {api.name: api for api in all_apis(cloud, tokens)}
    more = {"storage": storage, "encamp": AdminApi(cloud, tokens)}
    return Front(cloud.project, tokens, {**services, **more}, cloud.faults), storage
