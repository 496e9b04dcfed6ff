"""The sandbox's Google Cloud put together: its state, and the front over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.sandbox.cloud.access import Access
from encamp.sandbox.cloud.admin_api import AdminApi
from encamp.sandbox.cloud.compute_api import ComputeApi
from encamp.sandbox.cloud.container_api import ContainerApi
from encamp.sandbox.cloud.database import open_database
from encamp.sandbox.cloud.faults import Faults
from encamp.sandbox.cloud.front import Front
from encamp.sandbox.cloud.identity_api import IdentityApi
from encamp.sandbox.cloud.logging_api import LoggingApi
from encamp.sandbox.cloud.policies import Policies
from encamp.sandbox.cloud.project_api import ProjectApi
from encamp.sandbox.cloud.storage_proxy import StorageProxy
from encamp.sandbox.cloud.store import CloudStore
from encamp.sandbox.cloud.tokens import KeyFile, Tokens

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.sandbox.database import Database
    from encamp.sandbox.layout import Layout


@dataclass(frozen=True)
class Cloud:
    """All that the cloud keeps."""

    project: str
    database: Database
    store: CloudStore
    policies: Policies
    faults: Faults
    access: Access

    @classmethod
    def open(cls, path: Path, project: str) -> Cloud:
        """Open the file, or make it."""
        database = open_database(path)
        store, policies = CloudStore(database), Policies(database)
        return cls(project, database, store, policies, Faults(database), Access(project, store, policies))

    def close(self) -> None:
        """Close the file."""
        self.database.close()


def storage_url(layout: Layout) -> str:
    """Where the storage server is."""
    return f"http://127.0.0.1:{layout.ports.storage}"


def make_front(cloud: Cloud, layout: Layout) -> tuple[Front, StorageProxy]:
    """The front over a cloud, and the part of it that has connections to close."""
    tokens = Tokens(cloud.database, KeyFile.read(layout.google_credentials), layout.token)
    storage = StorageProxy(cloud.access, storage_url(layout), layout.token)
    identity = IdentityApi(cloud.store, cloud.policies, cloud.access, tokens)
    about = ProjectApi(cloud.store, cloud.access)
    services = {
        "storage": storage,
        "compute": ComputeApi(cloud.store, cloud.access),
        "container": ContainerApi(cloud.store, cloud.access),
        "iam": identity.iam,
        "iamcredentials": identity.credentials,
        "cloudresourcemanager": identity.projects,
        "serviceusage": about.services,
        "cloudbilling": about.billing,
        "cloudquotas": about.quotas,
        "cloudkms": about.keys,
        "logging": LoggingApi(cloud.database, cloud.access),
        "encamp": AdminApi(cloud.project, cloud.store, cloud.faults, tokens),
    }
    return Front(cloud.project, tokens, services, cloud.faults), storage
