"""The whole service over a record of its own, with callers that tests name, and a real server for clients of one.

Nothing is begun: whoever begins jobs is a list of what it was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from encamp.api.access import Access
from encamp.api.addresses import Addresses
from encamp.api.app import make_app
from encamp.api.audit import AuditLog
from encamp.api.caller import Caller
from encamp.api.calls import Parts
from encamp.api.connections import Limits
from encamp.api.documents import routes
from encamp.api.gate import Gate
from encamp.api.id_tokens import unauthenticated
from encamp.api.identity import bearer_of
from encamp.api.index import Index
from encamp.api.jobs import Jobs
from encamp.api.listening import listen
from encamp.api.logs import LogEntries, RecordedJobs
from encamp.api.methods import LOG_ENTRIES
from encamp.api.places import PlaceLimits, Places
from encamp.api.planning import Planner
from encamp.api.policies import Policies
from encamp.api.project import Locations, Project
from encamp.api.server import Server
from encamp.run.store.encryption import Cipher
from encamp.run.store.records import Records
from encamp.run.store.submissions import Submissions
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from encamp.api.audit_left_out import LeftOut
    from encamp.api.caller import Authenticator
    from encamp.api.logs import Logs
    from encamp.api.queue_limits import QueueLimits
    from encamp.plan.model import JobPlan

PROJECT = "sandbox-encamp"
ENVIRONMENT = "sandbox"
#: Tokens: an administrator, who may create jobs and who may only look.
ADMIN, DEVELOPER, VIEWER = "admin-token", "developer-token", "viewer-token"
CALLERS = {
    ADMIN: Caller("ada@example.com", frozenset({"user:ada@example.com"}), admin=True),
    DEVELOPER: Caller("dev@example.com", frozenset({"user:dev@example.com"})),
    VIEWER: Caller("vic@example.com", frozenset({"user:vic@example.com"})),
}
_TEAMS = [
    {"name": "makers", "members": ["user:dev@example.com"], "roles": ["ml.developer"]},
    {"name": "lookers", "members": ["user:vic@example.com"], "roles": ["ml.viewer"]},
]


class Tokens:
    """Knows the callers of the tests."""

    async def caller(self, authorization: str | None, address: str = "") -> Caller:
        del address
        found = CALLERS.get(bearer_of(authorization))
        if found is None:
            raise unauthenticated("nobody has it")
        return found


class Told:
    """Begins nothing."""

    def __init__(self) -> None:
        self.woken = 0
        self.adopted: list[str] = []

    def wake(self) -> None:
        self.woken += 1

    def adopt(self, job_id: str) -> None:
        self.adopted.append(job_id)


class World:
    """A service.

    ``look`` is what looks at a job's data before it is created; ``plan_seconds``, how long that may take;
    ``authenticator``, who tells callers where it is not the tests' own tokens; ``logs``, where those of jobs are;
    ``places``, how many requests are at work; ``trusted``, networks of gateways;
    ``left_out`` decides which calls have no audit entry of their own; ``queue``, how many jobs may wait;
    ``audit``, where the audit log lies.
    """

    def __init__(
        self,
        folder: Path,
        *,
        look: Callable[[JobPlan], None] = lambda _: None,
        plan_seconds: float = 30.0,
        authenticator: Authenticator | None = None,
        logs: Logs | None = None,
        places: PlaceLimits | None = None,
        trusted: tuple[str, ...] = (),
        left_out: LeftOut | None = None,
        queue: QueueLimits | None = None,
        audit: Path | None = None,
    ) -> None:
        data = {
            "name": ENVIRONMENT,
            "region": "us-central1",
            "artifactsBucket": "sandbox-encamp-artifacts",
            "access": {"teams": _TEAMS},
        }
        spec = parse_environment(data, project=PROJECT, source="the tests")
        self.folder = folder
        self.records = Records.open(None, folder)
        self.submissions = Submissions(self.records, Cipher.open(folder))
        self.index = Index(self.records, ENVIRONMENT, lambda: self.submissions.positions(ENVIRONMENT))
        self.told = Told()
        access = self.access = Access(spec)
        project = Project(PROJECT, 123456789, "agent@sandbox-encamp.iam.gserviceaccount.com")
        entries = LogEntries(PROJECT, RecordedJobs(self.records, self.index), logs, access) if logs else None
        jobs = Jobs(
            project,
            ENVIRONMENT,
            records=self.records,
            submissions=self.submissions,
            index=self.index,
            planner=Planner(spec, look),
            access=access,
            wake=self.told.wake,
            adopt=self.told.adopt,
            queue=queue,
            **({"keeps_end": entries.unread} if entries else {}),
        )
        self.audit = AuditLog(audit or folder / "audit.jsonl", left_out=left_out)
        self.parts = Parts(
            project,
            jobs,
            Policies(jobs, self.records, self.index, access),
            Locations(spec),
            authenticator or Tokens(),
            self.audit,
            extras={LOG_ENTRIES: entries.list} if entries else {},
            routes=routes(),
            plan_seconds=plan_seconds,
            places=Places(places),
            addresses=Addresses(trusted),
        )
        self.app: ASGIApp = make_app(self.parts)

    def close(self) -> None:
        self.index.close()
        self.records.close()
        self.audit.close()


@contextlib.contextmanager
def world(folder: Path, **options: Any) -> Iterator[World]:
    """A service in a folder; ``options`` are those of ``World``."""
    found = World(folder, **options)
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def served(app: ASGIApp, **limits: Any) -> Iterator[str]:
    """A real server of an app, in a thread; its URL with a slash at its end."""
    all_limits = Limits(**limits)
    gate = Gate(app, ready=lambda: None, open_to_this_machine=False)
    started = threading.Event()
    listening = listen("127.0.0.1", 0, credentials=True)
    server = Server(gate, all_limits, started.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=list(listening.sockets))))
    thread.start()
    try:
        assert started.wait(30)
        yield f"{listening.url}/"
    finally:
        server.end()
        thread.join(30)
        listening.close()


def job(job_id: str, **more: Any) -> dict[str, Any]:
    """A Job that may be created."""
    training = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-8",
        "workerType": "n1-standard-8",
        "workerCount": "2",
        "packageUris": ["gs://my-bucket/trainer-0.1.tar.gz"],
        "pythonModule": "trainer.task",
        "args": ["--epochs", "3"],
        "region": "us-central1",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "scheduling": {"maxRunningTime": "3600s", "priority": 5},
    }
    return {"jobId": job_id, "trainingInput": training, **more}
