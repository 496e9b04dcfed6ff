"""``encamp list``: the jobs of an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from encamp import jobs
from encamp.cli.job_input import FORMAT
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from encamp.jobs import JobSummary

_STATES = (
    "QUEUED",
    "PREPARING",
    "RUNNING",
    "SUCCEEDED",
    "FAILED",
    "CANCELLING",
    "CANCELLED",
    "STATE_UNSPECIFIED",
)
_HEADINGS = ("JOB", "STATE", "CREATED", "RUNNING TIME", "COST", "DRIVER")
_AFTER_STATE = 2


@click.command()
@ENVIRONMENT
@click.option("--state", type=click.Choice(_STATES, case_sensitive=False), help="Only jobs in this state.")
@FORMAT
def command(environment: str, state: str | None, output: str) -> None:
    """List the jobs of an environment, newest first: those that live and those that have ended, on any machine.

    STATE_UNSPECIFIED: something of the job is in the bucket, and neither a record here nor a receipt says more; it may
    be running on another machine.
    """
    from encamp.text import aligned  # noqa: PLC0415 - `encamp list --help` needs none of it

    found = jobs.list(environment=environment, state=state)
    if output == "json":
        say_json([job.to_json() for job in found])
    elif not found:
        say("no job")
    else:
        # A column that most environments have nothing for.
        tuning = any(job.trials is not None for job in found)
        headings = (*_HEADINGS[:_AFTER_STATE], "TRIALS", *_HEADINGS[_AFTER_STATE:]) if tuning else _HEADINGS
        for line in aligned([headings, *(_row(job, tuning=tuning) for job in found)]):
            say(line)


def _row(job: JobSummary, *, tuning: bool) -> tuple[str, ...]:
    trials, created = job.trials, job.created
    return (
        job.job_id,
        job.state if job.restarts is None else f"{job.state}, {job.restarts}",
        *((f"{trials['ended']}/{trials['most']}" if trials else "-",) if tuning else ()),
        "-" if created is None else f"{created:%Y-%m-%d %H:%M:%S}",
        "-" if job.running_seconds is None else f"{job.running_seconds:.0f} s",
        _cost(job),
        job.driver or (f"waits, place {job.position}" if job.position else "-"),
    )


def _cost(job: JobSummary) -> str:
    """Return what a job has cost, or has cost so far."""
    if job.cost_usd is not None:
        return f"{job.cost_usd:.4f} USD"
    return "-" if job.cost_so_far_usd is None else f"{job.cost_so_far_usd:.4f} USD so far"
