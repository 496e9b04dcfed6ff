"""``encamp describe``: one job as AI Platform showed it."""

from __future__ import annotations

import click

from encamp import jobs
from encamp.cli.job_input import FORMAT
from encamp.cli.known import JOB
from encamp.cli.out import say_json, say_yaml
from encamp.cli.stack import ENVIRONMENT


@click.command()
@JOB
@ENVIRONMENT
@FORMAT
def command(job: str, environment: str, output: str) -> None:
    """Show JOB, an id, as AI Platform showed it: state, times, error; and what encamp knows beside that.

    What is not known is left out. Text is YAML.
    """
    resource = jobs.describe(job, environment=environment).resource
    if output == "json":
        say_json(dict(resource))
    else:
        say_yaml(dict(resource))
