"""What the verbs that read a job file share: the file, its id, its package and its environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.resources import repository

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

FILE = click.argument("file", metavar="JOB.yaml", type=click.Path(path_type=Path))
ENVIRONMENT = click.option(
    "--environment",
    metavar="NAME",
    default="sandbox",
    envvar="ENCAMP_ENVIRONMENT",
    show_default=True,
    show_envvar=True,
    help="Environment to plan for: the stack config stacks/Pulumi.NAME.yaml.",
)
JOB_ID = click.option("--job-id", metavar="ID", help="Id of the job; wins over the file's own.")
FORMAT = click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people or JSON for programs.",
)


def environment_named(name: str) -> EnvironmentSpec:
    """The environment of a stack config: in the checkout, else in the working directory's project.

    Raises:
        UsageError: there is no such environment.
    """
    from encamp.spec.environment import load_environment  # noqa: PLC0415 - help pages need no models

    return load_environment(name, repository() or Path.cwd())


def plan_of(file: Path, environment: str, job_id: str | None) -> JobPlan:
    """The plan of a job file.

    Raises:
        SpecError: the file is wrong.
        PlanError: no plan can be made of it.
        UsageError: file, environment or id are not there or not usable.
    """
    from encamp.packaging.local import local_packages  # noqa: PLC0415
    from encamp.plan.job import plan_job  # noqa: PLC0415
    from encamp.spec.job_file import load_job  # noqa: PLC0415

    job_file = load_job(file).named(job_id)
    return plan_job(job_file.job, environment_named(environment), packages=local_packages(job_file))
