"""``encamp.TrainingJob``: a training job as a component of any Pulumi program."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage
from encamp.components.renamed import keep_renamed
from encamp.components.training_job import PlannedJob
from encamp.errors import UsageError
from encamp.own_cluster import own_kubeconfig
from encamp.packaging.local import local_packages
from encamp.plan.job import plan_job
from encamp.preflight import check_job
from encamp.public_components.environment import Environment
from encamp.public_components.telling import run_errors, tell_job
from encamp.redaction import redacted, texts
from encamp.spec.job import TrainingJobSpec
from encamp.spec.job_id import job_id_from
from encamp.spec.loading import Document, load_document
from encamp.spec.overrides import Overrides, read_overridden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan
    from encamp.public_components.environment import EnvironmentReference
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job_file import JobFile
    from encamp.spec.loading import DataPath

_JOB_DIR = ("trainingInput", "jobDir")


class TrainingJob(PlannedJob):
    """One training job: buckets, identity, node pools and the JobSet, in the order in which they may exist.

    ``pulumi up`` returns when the replicas are asked for; it never waits for the training. ``pulumi destroy``, or an
    ``up`` without the job, takes everything down but what the job wrote. Three limits end a job that nobody takes down:
    its JobSet's deadline, its node pools that scale to zero, and each machine's longest run.

    A program may declare several jobs; each has a logical name of its own.

    Args:
        name: the logical name, put before those of the job's resources.
        job: path of a job file, relative to the program's working directory; or the job itself, typed or as a
            mapping with a job file's keys. Its buckets are plain text: no ``Output`` is taken.
        environment: where it runs. With an ``Environment`` of the same program everything of that comes first.
        job_id: id of the job; the file's own where it is left out, else made of ``name``. A job that has ended keeps
            its id for ever: another run needs another one.
        job_dir: ``gs://`` path that the replicas write to; wins over the file's.
        folder: folder that ``encamp.packagePath`` of a job that is no file is relative to; the working directory
            where it is left out.
        makes: buckets that the same program declares and the job uses, by their names without ``gs://``. The job waits
            for them, and they are not looked for beforehand.
        preflight: look at the job's buckets, packages and rights before anything is made, at previews too, with
            Application Default Credentials. Without it the cloud refuses what is missing while ``up`` runs.
        secret: the job's text is a secret: state and previews hold what of it runs encrypted.
        opts: of the component.

    Attributes:
        job_id: the job's id.
        job_set: name of its JobSet, and of nearly all that it makes in the cloud.
        job_dir: ``gs://`` path that its replicas are told to write to, None where there is none.
        results: ``gs://`` folder of what stays of it in the environment's bucket.
        outputs: the summary that encamp's own stacks export, for ``pulumi.export``.

    Raises:
        pulumi.RunError: everything that is wrong with the job or its data, or it cannot be planned, or it has ended;
            nothing of it was declared.
    """

    job_id: str
    job_set: str
    job_dir: str | None
    results: str

    def __init__(
        self,
        name: str,
        *,
        job: str | os.PathLike[str] | Mapping[str, Any] | TrainingJobSpec,
        environment: Environment | EnvironmentReference,
        job_id: str | None = None,
        job_dir: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        makes: Mapping[str, pulumi.Resource] | None = None,
        preflight: bool = True,
        secret: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        data = _data(job)
        hidden = list(texts(data)) if secret else []
        hide = partial(redacted, values=hidden)
        makes, spec = makes or {}, environment.spec
        with run_errors(hide):
            given: dict[DataPath, Any] = {_JOB_DIR: job_dir} if job_dir is not None else {}
            found = _read(name, job, data, Overrides(given, dict.fromkeys(given, "job_dir")), folder or ".")
            found = found.named(job_id or found.job.job_id or job_id_from(name))
            hidden += texts(_data(found.job)) if secret else ()
            plan = plan_job(found.job, spec, packages=local_packages(found))
            tell_job(plan, hide)
            if preflight:
                for warning in _look_ahead(plan, {*makes, *_made_here(environment)}):
                    pulumi.log.warn(hide(warning))
        keep_renamed()
        # What is in an environment or a bucket's program comes before all that is in the job.
        first = [*makes.values(), *([environment] if isinstance(environment, Environment) else [])]
        super().__init__(
            name,
            plan,
            cluster=environment.cluster,
            kubeconfig=own_kubeconfig(spec.cluster_path) or environment.kubeconfig,
            cluster_path=spec.cluster_path,
            deadline=str(int(time.time()) + plan.limits.expiry_seconds),
            secret=secret,
            prefix=f"{name}-",
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=first)),
        )
        self.job_id = plan.job_id
        self.job_set = plan.name
        self.job_dir = plan.storage.job_dir
        self.results = f"gs://{plan.storage.bucket}/{plan.storage.prefix}"


def _data(job: object) -> Mapping[str, Any] | None:
    """A job as plain data, None where it is a path."""
    if isinstance(job, TrainingJobSpec):
        dumped: dict[str, Any] = job.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
    return None if isinstance(job, (str, os.PathLike)) else dict(job)  # type: ignore[call-overload]


def _read(
    name: str, job: Any, data: Mapping[str, Any] | None, overrides: Overrides, folder: str | os.PathLike[str]
) -> JobFile:
    """The job with every rule applied.

    Raises:
        UsageError: there is no such file.
        SpecError: everything that is wrong with it.
    """
    if data is None:
        path = Path(job)
        return read_overridden(load_document(path), overrides, folder=path.resolve().parent)
    document = Document(f"TrainingJob {name!r}", dict(data))
    return read_overridden(document, overrides, folder=Path(folder).resolve())


def _made_here(environment: Environment | EnvironmentReference) -> set[str]:
    """Return the resources of the environment's own program: its cluster with its pools, and its bucket."""
    if not isinstance(environment, Environment):
        return set()
    spec: EnvironmentSpec = environment.spec
    return {spec.cluster_path, *(() if "artifactsBucket" in spec.adopt else (spec.artifacts_bucket,))}


def _look_ahead(plan: JobPlan, made: set[str]) -> tuple[str, ...]:
    """Look at what would make the job fail; returns what may go wrong nevertheless.

    Raises:
        UsageError: the job has ended, or its data is not as it must be.
        RestError: the cloud cannot be asked.
    """
    client = GoogleClient()
    receipt = f"{plan.storage.prefix}receipt.json"
    if Storage(client).read(plan.storage.bucket, receipt) is not None:
        raise UsageError(
            f"job {plan.job_id} has ended; its receipt is gs://{plan.storage.bucket}/{receipt}",
            where="job_id",
            hint="take the job out of the program, or give another run another job_id",
        )
    return check_job(plan, client, made=made)
