"""``encamp drive``: what a pod of the environment's own cluster runs."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import ENVIRONMENT, JOB_ID

if TYPE_CHECKING:
    from encamp.cli.job_input import JobInput


@click.command(cls=JobCommand)
@JOB_ID
@ENVIRONMENT
def command(job: JobInput, job_id: str | None, environment: str) -> None:
    """Drive JOB.yaml to its end, whoever began it: what `encamp submit --in-cluster` lets a pod run.

    Begins the job, or takes it over from a driver that died; where it has ended already, says how. SIGTERM leaves the
    job to the next driver. Exit codes as by `encamp run`.
    """
    from encamp.cli.ended import report  # noqa: PLC0415 - `encamp drive --help` needs none of it
    from encamp.cli.known import looking  # noqa: PLC0415
    from encamp.cli.run import drive  # noqa: PLC0415
    from encamp.cli.target import enter  # noqa: PLC0415
    from encamp.errors import UsageError  # noqa: PLC0415
    from encamp.plan.environment.driver import STARTED_BY  # noqa: PLC0415
    from encamp.run.actor import Actor  # noqa: PLC0415
    from encamp.run.ended import result_of  # noqa: PLC0415
    from encamp.run.in_cluster import go_on  # noqa: PLC0415
    from encamp.run.remote import require_remote  # noqa: PLC0415

    if job_id is None:
        raise UsageError("no id is given", where="--job-id", hint="without one, every try would begin another job")
    # A record or a state of the pod's own would let every later pod begin the job again.
    require_remote(enter(environment).project)
    told = os.environ.get(STARTED_BY)
    with looking(environment) as jobs:
        known = jobs.records.record(job_id)
        if known is None:
            started_by = Actor.from_json(json.loads(told)) if told else None
            drive(job, job_id, environment, keep_local_logs=False, parent=None, detached=True, started_by=started_by)
            return
        if not known.torn_down:
            go_on(jobs.context, jobs.records, environment, job_id)
        result = result_of(jobs.catalogue.job(job_id), jobs.records.record(job_id))
    report(result)
    sys.exit(result.exit_code)
