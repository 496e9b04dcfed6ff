"""``encamp reap``: bring jobs without a living driver to their end."""

from __future__ import annotations

import sys

import click

from encamp.cli.job_input import ENVIRONMENT


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and why.")
@click.option("--wait", is_flag=True, help="Supervise what still trains to its end.")
@ENVIRONMENT
def command(environment: str, *, dry_run: bool, wait: bool) -> None:
    """Bring jobs without a living driver to their end: settle the outcome, seal the logs, take everything down.

    Looks at the records, at the engine's stacks and at what the cloud lists. A job that a living driver holds, or
    that still trains within its deadline, is left alone.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `encamp reap --help` needs none of it
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.run.reap import reap, worst  # noqa: PLC0415

    enter(environment)
    findings = reap(Lines().context(), dry_run=dry_run, wait=wait)
    for finding in findings:
        click.echo(f"{finding.job}: {finding.verdict}: {finding.why}")
    if not findings:
        click.echo("no job needs an end")
    error = worst(findings)
    if error is not None:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
