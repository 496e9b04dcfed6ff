"""``encamp manifests``: the Kubernetes objects of a job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import JOB_ID, plan_of
from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from encamp.cli.job_input import JobInput


@click.command(name="manifests", cls=JobCommand)
@ENVIRONMENT
@JOB_ID
def command(job: JobInput, environment: str, job_id: str | None) -> None:
    """Print the Kubernetes objects of a job as YAML, in the order in which they are created."""
    from encamp.plan.manifests.job import render_manifests  # noqa: PLC0415 - help pages need no templates

    say(render_manifests(plan_of(job, environment, job_id)).to_yaml(), nl=False)
