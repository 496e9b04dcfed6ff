"""A cloud in this process, and one in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.sandbox.cloud.desk import Desk

from encamp_sandbox.access import write_access
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.cloud.storage_server import storage_argv
from encamp_sandbox.gcp_provider.client import Rest
from encamp_sandbox.gcp_provider.model import Context
from encamp_sandbox.gcp_provider.session import GcpSession
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates
from encamp_sandbox.storage.api import StorageServer

if TYPE_CHECKING:
    from collections.abc import Iterator

INFRA = Path(__file__).parents[3] / "infra"


@pytest.fixture(scope="package")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A sandbox's folder with certificates and keys, in which nothing runs."""
    made = Layout.create(tmp_path_factory.mktemp("cloud") / "sb")
    issue_certificates(made)
    write_access(made, {}, path="")
    return made


@pytest.fixture
def cloud(tmp_path: Path, layout: Layout) -> Iterator[Cloud]:
    made = Cloud.open(tmp_path / "cloud.sqlite3", "sandbox-encamp", layout)
    yield made
    made.close()


@pytest.fixture
def storage(tmp_path: Path, layout: Layout) -> Iterator[StorageServer]:
    server = StorageServer(tmp_path / "storage", layout.token)
    yield server
    server.close()


@pytest.fixture
def desk(cloud: Cloud, layout: Layout, storage: StorageServer) -> Desk:
    """Asks the REST APIs of a cloud in this process."""
    return Desk(cloud, layout, storage)


@pytest.fixture
def session(cloud: Cloud, layout: Layout, storage: StorageServer) -> GcpSession:
    """A session of the provider over a front and a storage server in this process."""
    return session_over(cloud, layout, storage)


def session_over(cloud: Cloud, layout: Layout, storage: StorageServer) -> GcpSession:
    """A session of the provider over a cloud in this process."""
    front, _ = make_front(cloud, layout, httpx.ASGITransport(app=storage))
    context = Context(rest=Rest.inside(front, layout.token), project=cloud.project, region="us-central1")
    return GcpSession(context)


@dataclass
class Processes:
    """The storage server and the cloud of a sandbox, as the supervisor runs them."""

    layout: Layout
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def front(self) -> str:
        return f"http://127.0.0.1:{self.layout.ports.front}"

    def start(self, *names: str) -> None:
        """Start processes, and wait until they answer."""
        commands = {
            "storage": (storage_argv(self.layout), self.layout.ports.storage),
            "cloud": ([sys.executable, "-m", "encamp_sandbox.cloud"], self.layout.ports.front),
        }
        environment = {**os.environ, "ENCAMP_SANDBOX_DIR": str(self.layout.root), "PYTHONPATH": str(INFRA)}
        for name in names:
            with self.layout.log(name).open("ab") as log:
                self.running[name] = subprocess.Popen(commands[name][0], env=environment, stderr=log)
        for name in names:
            end = time.monotonic() + 30
            while not _healthy(commands[name][1]):
                assert time.monotonic() < end, self.layout.log(name).read_text()
                time.sleep(0.05)

    def kill(self, name: str) -> None:
        """End a process as a crash does."""
        self.running[name].kill()
        self.running.pop(name).wait()

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"authorization": f"Bearer {token or self.layout.token}"}
        return httpx.Client(base_url=self.front, headers=headers, trust_env=False, timeout=30)


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="package")
def processes(layout: Layout) -> Iterator[Processes]:
    made = Processes(layout)
    made.start("storage", "cloud")
    yield made
    for name in list(made.running):
        made.kill(name)
