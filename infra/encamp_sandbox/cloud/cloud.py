"""The state of the sandbox's Google Cloud: resources, policies, operations, faults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp_sandbox.cloud.database import open_database
from encamp_sandbox.cloud.faults import Faults
from encamp_sandbox.cloud.iam.access import Access
from encamp_sandbox.cloud.iam.policies import Policies
from encamp_sandbox.cloud.operations import Operations
from encamp_sandbox.cloud.store import CloudStore
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp_sandbox.database import Database
    from encamp_sandbox.layout import Layout

#: Seconds that every operation takes, so that the sandbox can feel like a cloud.
LATENCY_VARIABLE = "ENCAMP_SANDBOX_LATENCY_SECONDS"
#: Seconds for which IAM does not know a new service account yet.
IAM_DELAY_VARIABLE = "ENCAMP_SANDBOX_IAM_SECONDS"


@dataclass(frozen=True)
class Cloud:
    """All state of the cloud.

    Attributes:
        project: id of the one project.
        number: its number.
        control_plane: gives address and port of the API server, and the certificate of the sandbox's CA.
    """

    project: str
    number: str
    database: Database
    store: CloudStore
    policies: Policies
    operations: Operations
    faults: Faults
    access: Access
    control_plane: Callable[[], tuple[str, bytes]]

    @classmethod
    def open(cls, path: Path, project: str, layout: Layout) -> Cloud:
        """Open the file, or make it, for a project; the layout says where the control plane is."""
        database = open_database(path)
        store, policies = CloudStore(database), Policies(database)
        delay = float(os.environ.get(IAM_DELAY_VARIABLE) or 0)
        return cls(
            project=project,
            number=project_number(project),
            database=database,
            store=store,
            policies=policies,
            operations=Operations(database, float(os.environ.get(LATENCY_VARIABLE) or 0)),
            faults=Faults(database),
            access=Access(project, store, policies, delay),
            control_plane=lambda: (f"127.0.0.1:{layout.ports.apiserver}", layout.ca_certificate.read_bytes()),
        )

    def close(self) -> None:
        """Close the file."""
        self.database.close()
