"""``encamp manifests``: the Kubernetes objects of a job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import ENVIRONMENT, FILE, JOB_ID, plan_of

if TYPE_CHECKING:
    from pathlib import Path


@click.command(name="manifests")
@FILE
@ENVIRONMENT
@JOB_ID
def command(file: Path, environment: str, job_id: str | None) -> None:
    """Print the Kubernetes objects of a job as YAML, in the order in which they are created."""
    from encamp.plan.manifests import render_manifests  # noqa: PLC0415 - help pages need no templates

    click.echo(render_manifests(plan_of(file, environment, job_id)).to_yaml(), nl=False)
