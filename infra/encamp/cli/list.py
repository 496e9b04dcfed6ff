"""``encamp list``: the jobs of an environment."""

from __future__ import annotations

from typing import Any

import click

from encamp.cli.job_input import FORMAT
from encamp.cli.known import looking
from encamp.cli.out import say, say_json
from encamp.cli.stack import ENVIRONMENT

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
    from datetime import UTC, datetime  # noqa: PLC0415 - `encamp list --help` needs none of it

    from encamp.run.job_resource import summary  # noqa: PLC0415
    from encamp.text import aligned  # noqa: PLC0415

    with looking(environment) as jobs:
        now = datetime.now(UTC)
        found = [summary(job, now) for job in jobs.catalogue.jobs() if state is None or job.state == state]
    if output == "json":
        say_json(found)
    elif not found:
        say("no job")
    else:
        # A column that most environments have nothing for.
        tuning = any(job["trials"] is not None for job in found)
        headings = (*_HEADINGS[:_AFTER_STATE], "TRIALS", *_HEADINGS[_AFTER_STATE:]) if tuning else _HEADINGS
        for line in aligned([headings, *(_row(job, tuning=tuning) for job in found)]):
            say(line)


def _row(job: dict[str, Any], *, tuning: bool) -> tuple[str, ...]:
    seconds, trials, restarts = job["runningSeconds"], job["trials"], job["restarts"]
    created = (job["createTime"] or "-").partition(".")[0].replace("T", " ")
    return (
        job["jobId"],
        job["state"] if restarts is None else f"{job['state']}, {restarts['text']}",
        *((f"{trials['ended']}/{trials['most']}" if trials else "-",) if tuning else ()),
        created,
        "-" if seconds is None else f"{seconds:.0f} s",
        _cost(job),
        job["driver"] or (f"waits, place {job['position']}" if job["position"] else "-"),
    )


def _cost(job: dict[str, Any]) -> str:
    """What a job has cost, or has cost so far."""
    if job["costUsd"] is not None:
        return f"{job['costUsd']:.4f} USD"
    return "-" if job["costSoFarUsd"] is None else f"{job['costSoFarUsd']:.4f} USD so far"
