"""A job file on this machine: planned as for the cloud, then every replica told of addresses and folders of here.

The trainer runs from its sources, other packages from a folder of the run's own. What encamp would have kept in a
bucket of its own lies below the working directory; a bucket that the job itself names is used from here.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.plan.job import plan_job
from encamp.plan.storage import encamp_owns
from encamp.run.local.checks import check_job_dir, check_module, package_root
from encamp.run.local.devices import divide, local_gpus
from encamp.run.local.packages import check_requirements, fetch, install
from encamp.run.local.planned import addresses, capped, check_runs_here, planned_replicas, with_job_dir
from encamp.run.local.ports import reserve
from encamp.run.local.prepare import check_number, roles, with_devices
from encamp.run.local.tf_config import Host
from encamp.spec.environment import EnvironmentSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from encamp.plan.model import Accelerator, JobPlan
    from encamp.run.local.interpreter import Interpreter
    from encamp.run.local.model import LocalReplica
    from encamp.run.local.prepare import Machine, Prepared
    from encamp.spec.job_file import JobFile

#: Folder below the working directory for results of jobs without a place of their own.
RESULTS = "encamp-local"
_REMOTE = "gs://"
#: Fields of encamp's block that a run on this machine has no use for.
_OF_THE_CLOUD = ("package_path", "packages", "provisioning", "reservation", "zone", "placement")


@dataclass(frozen=True)
class LocalJobRequest:
    """Options of a job file's local run.

    Attributes:
        job_dir: replaces the job's own.
        environment: the environment that it is planned for, None for one that stands for no cloud.
    """

    job_dir: str | None = None
    max_replicas: int | None = None
    start_port: int | None = None
    environment: EnvironmentSpec | None = None


@dataclass(frozen=True)
class LocalJob:
    """A job that can run here.

    Attributes:
        plan: as it runs here.
        host: what all replicas have of this machine.
        gpus: of this machine.
        notes: what the user is told.
    """

    plan: JobPlan
    host: Host
    gpus: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be started: its plan as it runs here, and its replicas."""

    plan: JobPlan
    prepared: Prepared


def prepared(job: LocalJob, request: LocalJobRequest, resources: ExitStack) -> PreparedJob:
    """Return the replicas of a job that can run here.

    Raises:
        EngineError: there are no free ports.
    """
    ports = resources.enter_context(reserve(addresses(job.plan), request.start_port)).numbers
    replicas = planned_replicas(job.plan, job.host, ports)
    devices = divide(job.gpus, roles(replicas), asked_accelerators(job.plan, replicas))
    return PreparedJob(job.plan, with_devices(replicas, devices, job.notes))


def asked_accelerators(plan: JobPlan, replicas: Sequence[LocalReplica]) -> dict[str, Accelerator]:
    """Return each replica's requested accelerators; replicas without are left out."""
    asked = {group.role: group.accelerator for group in plan.groups if group.accelerator is not None}
    return {replica.name: asked[replica.role] for replica in replicas if replica.role in asked}


def local_job(found: JobFile, request: LocalJobRequest, machine: Machine, resources: ExitStack) -> LocalJob:
    """Return a job file, planned and looked at; nothing is started.

    Raises:
        SpecError: the environment cannot hold the job.
        PlanError: no plan can be made of it, or it cannot run here.
        UsageError: something that it needs is missing.
    """
    python = machine.interpreter()
    plan, notes = _plan(found, request, machine)
    check_number(sum(group.count for group in plan.groups))
    check_runs_here(plan)
    root = _root(found)
    check_job_dir(plan.storage.job_dir, machine.working)
    check_requirements(plan.requirements, python)
    target = _packages(found, plan, python, resources)
    search = None if python.search is None else (*([target] if target else []), *python.search)
    if plan.training_input.get("python_module") is not None:
        check_module(plan.training_input["python_module"], root, search, where="trainingInput.pythonModule")
    env = dict(machine.environ)
    if target is not None:
        env["PYTHONPATH"] = f"{target}:{env['PYTHONPATH']}" if env.get("PYTHONPATH") else str(target)
    return LocalJob(plan, Host(python.program, root, env), local_gpus(machine.environ), notes)


def _plan(found: JobFile, request: LocalJobRequest, machine: Machine) -> tuple[JobPlan, tuple[str, ...]]:
    """Return the plan as it runs here, and what differs from the cloud."""
    # Packages of this machine are used where they lie: the plan needs no uploads. Where machines come from is nothing
    # to this one.
    block = found.job.encamp.model_copy(update=dict.fromkeys(_OF_THE_CLOUD))
    job = found.job.model_copy(update={"encamp": block})
    environment = request.environment or _nowhere(job.training_input.region)
    # An organisation's rules are about its cloud, not about machines of people.
    plan = plan_job(job, environment.model_copy(update={"policy": None}))
    notes: tuple[str, ...] = ()
    if request.max_replicas is not None:
        plan, notes = capped(plan, request.max_replicas)
    job_dir = request.job_dir
    if job_dir is not None and not job_dir.startswith(_REMOTE):
        # Replicas start in the trainer's folder; a path on the command line is relative to where it was typed.
        job_dir = str(machine.working / job_dir)
    if job_dir is None and encamp_owns(plan.storage):
        job_dir = str(machine.working / RESULTS / plan.job_id)
    plan = with_job_dir(plan, job_dir)
    if plan.storage.job_dir is not None:
        notes += (f"the job dir is {plan.storage.job_dir}",)
    if plan.storage.mounts:
        notes += ("encamp.mounts: of no effect here, there is no /gcs on this machine",)
    return plan, notes


def _nowhere(region: str | None) -> EnvironmentSpec:
    """Return an environment for jobs that go to no cloud; it stands in for every region."""
    return EnvironmentSpec(
        name="local",
        project="sandbox-local",
        region=region or "us-central1",
        artifacts_bucket="sandbox-local-artifacts",
        other_regions="stand-in",
    )


def _root(found: JobFile) -> Path:
    """Return the folder that replicas start in: above the trainer's folder, else the job file's."""
    folder = found.folder or Path.cwd()
    package = found.job.encamp.package_path
    return folder if package is None else package_root(package, folder, where="encamp.packagePath")


def _packages(found: JobFile, plan: JobPlan, python: Interpreter, resources: ExitStack) -> Path | None:
    """Return a folder with the job's packages but the trainer's own, None if it has none."""
    uris: Sequence[str] = plan.groups[0].package_uris
    given = found.job.encamp.packages or ()
    if not uris and not given:
        return None
    archives = [(found.folder or Path.cwd()) / path for path in given]
    for path in archives:
        if not path.is_file():
            raise UsageError(f"there is no file {path.name!r} beside {found.source}", where="encamp.packages")
    folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="encamp-local-")))
    target = folder / "packages"
    target.mkdir()
    install([*fetch(uris, folder / "fetched"), *archives], target, python)
    return target
