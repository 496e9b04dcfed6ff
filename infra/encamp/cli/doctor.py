"""``encamp doctor``: what a stack needs, looked at before anything of it is made."""

from __future__ import annotations

import click

from encamp.cli.findings import show_findings
from encamp.cli.stack import stack_option


@click.command(name="doctor")
@stack_option("A committed stack: an environment's or a job's.", required=True, name="stack")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(stack: str, form: str) -> None:
    """Check what STACK needs: credentials, APIs, permissions, quota, state, keys and versions.

    Changes nothing. Exit code 3: something is missing without which the stack would fail.
    """
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415
    from encamp.doctor.examine import examine  # noqa: PLC0415
    from encamp.doctor.machine import Machine  # noqa: PLC0415
    from encamp.doctor.stack import load_stack  # noqa: PLC0415
    from encamp.jobs.target import enter_for  # noqa: PLC0415 - `--help` needs none of it
    from encamp.project import project_folder  # noqa: PLC0415
    from encamp.retries import SHORT  # noqa: PLC0415

    repository = project_folder()
    looked_at = load_stack(stack, repository)
    enter_for(looked_at.spec)
    show_findings(examine(looked_at, repository, GoogleClient(policy=SHORT.at_most(2)), Machine()), form)
