"""``encamp plan``: what a job file becomes, decided without engine, cloud or network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from encamp.cli.job_input import ENVIRONMENT, FILE, FORMAT, JOB_ID, plan_of

if TYPE_CHECKING:
    from pathlib import Path


@click.command(name="plan")
@FILE
@ENVIRONMENT
@JOB_ID
@FORMAT
@click.option("--full", is_flag=True, help="Write out TF_CONFIG of every replica, however many there are.")
def command(file: Path, environment: str, job_id: str | None, output: str, full: bool) -> None:
    """Show what a job file becomes: replicas, machines, commands, identity, storage and limits."""
    plan = plan_of(file, environment, job_id)
    if output == "json":
        from encamp.plan.document import job_document  # noqa: PLC0415

        click.echo(json.dumps(job_document(plan, full=full), indent=2, ensure_ascii=False))
    else:
        from encamp.plan.table import job_table  # noqa: PLC0415

        click.echo(job_table(plan, full=full))
    if output == "json":
        for warning in plan.warnings:
            click.echo(f"warning: {warning}", err=True)
