"""``encamp plan``: what a job file becomes, decided without engine, cloud or network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import FORMAT, JOB_ID, plan_of
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT
from encamp.redaction import redacted, redacted_data

if TYPE_CHECKING:
    from encamp.cli.job_input import JobInput


@click.command(name="plan", cls=JobCommand)
@ENVIRONMENT
@JOB_ID
@FORMAT
@click.option("--full", is_flag=True, help="Write out TF_CONFIG of every replica, however many there are.")
def command(job: JobInput, environment: str, job_id: str | None, output: str, full: bool) -> None:
    """Show what a job file becomes: replicas, machines, commands, identity, storage and limits.

    Signatures of signed URLs and passwords in URLs are left out; the replicas get them.
    """
    plan = plan_of(job, environment, job_id)
    if output == "json":
        from encamp.plan.document import job_document  # noqa: PLC0415

        say_json(redacted_data(job_document(plan, full=full)))
    else:
        from encamp.plan.table import job_table  # noqa: PLC0415

        say(redacted(job_table(plan, full=full)))
    if output == "json":
        for warning in plan.warnings:
            say(f"warning: {warning}", err=True)
