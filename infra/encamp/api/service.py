"""The service of one environment, put together: record, dispatcher, methods, logs, callers and audit log."""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import text

from encamp.api.access import Access
from encamp.api.addresses import Addresses
from encamp.api.adopting import Adopter
from encamp.api.app import make_app
from encamp.api.audit import AuditLog
from encamp.api.calls import Parts
from encamp.api.dispatcher import Dispatcher
from encamp.api.documents import routes
from encamp.api.identity import NoIdentity, identity_for
from encamp.api.index import Index
from encamp.api.jobs import Jobs
from encamp.api.launchers import ClusterLauncher, LocalLauncher
from encamp.api.live_access import LiveAccess
from encamp.api.logs import LogEntries, RecordedJobs
from encamp.api.methods import LOG_ENTRIES
from encamp.api.planning import Planner
from encamp.api.policies import Policies
from encamp.api.project import Locations, Project
from encamp.api.queue_limits import QueueLimits
from encamp.api.server import Service
from encamp.cloud.kubernetes import Cluster
from encamp.cloud.pod_kubeconfig import pod_kubeconfig
from encamp.cloud.projects import Projects
from encamp.cloud.storage import Storage
from encamp.errors import EncampError, UsageError
from encamp.plan.environment.driver import require_driver
from encamp.plan.environment.planning import plan_environment
from encamp.run.history.catalogue import Catalogue
from encamp.run.history.log_source import LogSource
from encamp.run.lifecycle.driver import look_ahead
from encamp.run.lifecycle.target import shared_record
from encamp.run.store.actor import Actor
from encamp.run.store.encryption import KEY_VARIABLE, Cipher
from encamp.run.store.submissions import Submissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from encamp.api.dispatcher import Launcher
    from encamp.api.identity import GoogleIdentity, IdentityOptions
    from encamp.api.live_access import AccessFile
    from encamp.run.history.context import Context
    from encamp.run.store.records import Records
    from encamp.spec.environment import EnvironmentSpec

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServiceOptions:
    """Options of the service.

    Attributes:
        environment: name of the environment's stack.
        drivers: how many jobs are driven at once.
        identity: the accepted credentials; None: none are required.
        audit: where every call is written down.
        in_cluster: whether drivers are pods of the environment's cluster, which this process is a pod of.
        teams: where teams are written, which is read again when it changes; None: they stay as they are.
    """

    environment: str
    drivers: int
    identity: IdentityOptions | None
    audit: Path | BinaryIO
    in_cluster: bool = False
    teams: AccessFile | None = None


@contextlib.contextmanager
def opened_service(spec: EnvironmentSpec, context: Context, options: ServiceOptions) -> Iterator[Service]:
    """Yield the service of an environment; its dispatcher begins jobs for as long as the context lasts.

    ``spec`` is what is committed of the environment, ``context`` gets what is said while jobs are looked at.

    Raises:
        UsageError: the options do not fit each other, the environment or this machine.
        EngineError: record, key or cluster are not to be had.
    """
    with contextlib.ExitStack() as stack:
        audit = stack.enter_context(contextlib.closing(AuditLog(options.audit)))
        authenticator = _authenticator(spec, options)
        if options.in_cluster:
            _require_lasting()
        records = stack.enter_context(contextlib.closing(context.records()))
        cipher = Cipher.open(context.folder)
        submissions = Submissions(records, cipher)
        drivers = _drivers(spec, context, options, records, cipher)
        stack.callback(drivers.close)
        index = Index(records, options.environment, lambda: submissions.positions(options.environment))
        stack.callback(index.close)
        dispatcher = Dispatcher(submissions, records, drivers.launcher, options.environment, drivers=options.drivers)
        stack.callback(dispatcher.close)
        storage = Storage(context.client)
        catalogue = Catalogue(records, storage, environment=options.environment, bucket=spec.artifacts_bucket)
        logs = LogSource(records, catalogue, storage, context.job_folder, _cluster(context, options))
        stack.callback(logs.close)
        access = _access(spec, options, stack)
        entries = LogEntries(spec.project, RecordedJobs(records, index), logs, access)
        project = Project(spec.project, _number(spec, context), drivers.account)
        quiet = replace(context, show=_LOG.info)
        jobs = Jobs(
            project,
            options.environment,
            records=records,
            submissions=submissions,
            index=index,
            planner=Planner(spec, lambda plan: look_ahead(plan, quiet)),
            access=access,
            wake=dispatcher.wake,
            adopt=drivers.adopt,
            keeps_end=entries.unread,
            queue=_queue(spec),
        )
        parts = Parts(
            project,
            jobs,
            Policies(jobs, records, index, access),
            Locations(spec),
            authenticator,
            audit,
            extras={LOG_ENTRIES: entries.list},
            routes=routes(),
            addresses=Addresses(spec.api.trusted_proxies if spec.api is not None else ()),
        )
        # An unusable record is reported here, not to the first caller.
        index.refresh()
        dispatcher.start()

        def ready() -> None:
            parts.places.work.check()
            records.transactions.read(lambda connection: connection.execute(text("SELECT 1")).scalar())

        yield Service(
            make_app(parts),
            ready=ready,
            credentials=options.identity is not None,
            close=authenticator.close,
        )


def _access(spec: EnvironmentSpec, options: ServiceOptions, stack: contextlib.ExitStack) -> Access:
    access = Access(spec)
    if options.teams is not None:
        live = LiveAccess(access, options.teams)
        # An invalid file is reported here, not later in a log.
        live.look()
        stack.enter_context(live)
    return access


def _authenticator(spec: EnvironmentSpec, options: ServiceOptions) -> GoogleIdentity | NoIdentity:
    if options.identity is not None:
        return identity_for(spec, options.identity)
    me = Actor.myself()
    return NoIdentity(me.account or f"{me.user}@{me.host}")


def _queue(spec: EnvironmentSpec) -> QueueLimits:
    block = spec.api
    return QueueLimits() if block is None else QueueLimits(block.waiting_jobs, block.waiting_jobs_of_caller)


@dataclass(frozen=True)
class _Drivers:
    """The drivers of the service.

    Attributes:
        account: that they have at Google, None if nothing here says it.
        adopt: sees to a begun job that has lost its own.
        close: closes connections; drivers go on.
    """

    launcher: Launcher
    account: str | None
    adopt: Callable[[str], None]
    close: Callable[[], None]


def _drivers(
    spec: EnvironmentSpec, context: Context, options: ServiceOptions, records: Records, cipher: Cipher
) -> _Drivers:
    if not options.in_cluster:
        adopter = Adopter(records, context, options.environment)
        local = LocalLauncher(options.environment, context.folder)
        return _Drivers(local, Actor.myself().account, adopter, lambda: None)
    driver = require_driver(plan_environment(spec).driver, options.environment)
    connect = _cluster(context, options)
    pods = ClusterLauncher(options.environment, spec, driver, records=records, cipher=cipher, connect=connect)
    # A lost pod is begun anew by its Kubernetes Job, and what nobody drives the environment's reaper ends.
    return _Drivers(pods, driver.email, lambda _: None, pods.close)


def _cluster(context: Context, options: ServiceOptions) -> Callable[[], Cluster]:
    """Return a function that reaches the environment's cluster."""
    if options.in_cluster:
        return lambda: Cluster(pod_kubeconfig())
    return lambda: context.cluster(context.environment(options.environment))


def _require_lasting() -> None:
    """Refuse to keep anything in a pod, which is forgotten with all of its files."""
    if not shared_record():
        raise UsageError(
            "the record would be a file of this pod",
            where="ENCAMP_RECORD_URL",
            hint="set it to a database that every pod and driver writes to, such as postgresql+psycopg://...",
        )
    if not os.environ.get(KEY_VARIABLE):
        raise UsageError(
            "the key of jobs that wait would be a file of this pod",
            where=KEY_VARIABLE,
            hint="give it to every pod, by the Secret that also holds ENCAMP_RECORD_URL",
        )


def _number(spec: EnvironmentSpec, context: Context) -> int | None:
    """Return the project's number, by which clients may name it; None if it cannot be read."""
    try:
        return int(Projects(context.client).project(spec.project)["projectNumber"])
    except (EncampError, KeyError, ValueError) as error:
        _LOG.warning("the project's number is not known, so it is answered by its id alone: %s", error)
        return None
