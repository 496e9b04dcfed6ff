"""``encamp describe``: one job as AI Platform showed it."""

from __future__ import annotations

import json

import click

from encamp.cli.job_input import ENVIRONMENT, FORMAT
from encamp.cli.known import JOB, looking


@click.command()
@JOB
@ENVIRONMENT
@FORMAT
def command(job: str, environment: str, output: str) -> None:
    """Show JOB, an id, as AI Platform showed it: state, times, error; and what encamp knows beside that.

    What is not known is left out. Text is YAML.
    """
    import yaml  # noqa: PLC0415 - `encamp describe --help` needs none of it

    from encamp.run.job_resource import job_resource  # noqa: PLC0415

    with looking(environment) as jobs:
        found = jobs.catalogue.job(job)
        resource = job_resource(found, jobs.storage, jobs.spool(found))
    if output == "json":
        click.echo(json.dumps(resource, indent=2))
    else:
        click.echo(yaml.safe_dump(resource, sort_keys=False, allow_unicode=True), nl=False)
