"""``encamp drive``: what a pod of the environment's own cluster runs, and what begins a job that was handed in."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import click

from encamp.cli.job_flags import JobCommand
from encamp.cli.job_input import JOB_ID
from encamp.cli.stack import ENVIRONMENT
from encamp.errors import UsageError

if TYPE_CHECKING:
    from encamp.cli.job_input import JobInput


class _DriveCommand(JobCommand):
    """A verb about one job that a file and flags make, or that is on record."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the verb; of a job on record nothing more may be said."""
        if ctx.params["submitted"] is None:
            return super().invoke(ctx)
        kept = {name: ctx.params.pop(name) for name in ("submitted", "environment")}
        if any(value not in {None, ()} for value in ctx.params.values()):
            raise UsageError("names a job that is on record", where="--submitted", hint="leave file and flags out")
        ctx.params = {**kept, "job": None, "job_id": None}
        return click.Command.invoke(self, ctx)


@click.command(cls=_DriveCommand)
@JOB_ID
@ENVIRONMENT
@click.option("--submitted", metavar="JOB", help="Start this submitted job, instead of a file's.")
def command(job: JobInput | None, job_id: str | None, environment: str, *, submitted: str | None) -> None:
    """Drive JOB.yaml until it has ended; the command of the pods that `encamp submit --in-cluster` creates.

    Starts the job, or adopts it from a driver that died; prints the outcome of a job that has ended. SIGTERM leaves the
    job to the next driver. Exit codes are those of `encamp run`.
    """
    if job is None:
        _submitted(str(submitted), environment)
    _handed_over(job, job_id, environment)


def _handed_over(job: JobInput, job_id: str | None, environment: str) -> None:
    """Drive the job of a file, whichever try this is."""
    from encamp.cli.ended import report  # noqa: PLC0415 - `encamp drive --help` needs none of it
    from encamp.cli.known import looking  # noqa: PLC0415
    from encamp.cli.run import drive  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.run.lifecycle.ended import result_of  # noqa: PLC0415
    from encamp.run.lifecycle.in_cluster import go_on, handed_over_by  # noqa: PLC0415
    from encamp.run.lifecycle.remote import require_remote  # noqa: PLC0415
    from encamp.run.lifecycle.submitted import beginning, waited  # noqa: PLC0415

    if job_id is None:
        raise UsageError("no id is given", where="--job-id", hint="without one, every try would begin another job")
    # A record or a state of the pod's own would let every later pod begin the job again.
    require_remote(enter(environment).project)
    with looking(environment) as jobs:
        known = jobs.records.record(job_id)
        if known is None or known.waiting:
            started_by = handed_over_by(os.environ)
            with nullcontext() if known is None else beginning(jobs.records, job_id):
                drive(
                    job,
                    job_id,
                    environment,
                    keep_local_logs=False,
                    parent=None,
                    detached=True,
                    started_by=started_by,
                    submitted=known is not None,
                    waited=0.0 if known is None else waited(known),
                    name=None if known is None else known.name,
                )
            return
        if not known.torn_down:
            go_on(jobs.context, jobs.records, environment, job_id)
        result = result_of(jobs.catalogue.job(job_id), jobs.records.record(job_id))
    report(result)
    sys.exit(result.exit_code)


def _submitted(job_id: str, environment: str) -> NoReturn:
    """Begin a job that waits, and drive it to its end.

    Raises:
        UsageError: it does not wait, or cannot be begun as it is and is FAILED now.
        EngineError: it cannot be begun now.
    """
    from encamp.cli.ended import report  # noqa: PLC0415 - `encamp drive --help` needs none of it
    from encamp.cli.lines import Lines  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.run.lifecycle.driver import run_job  # noqa: PLC0415
    from encamp.run.lifecycle.submitted import beginning, sent_request  # noqa: PLC0415
    from encamp.run.store.encryption import Cipher  # noqa: PLC0415

    spec = enter(environment)
    context = Lines().context()
    records = context.records()
    try:
        with beginning(records, job_id):
            request = sent_request(records, Cipher.open(context.folder), job_id, spec, environment)
            for warning in request.plan.warnings:
                context.show(f"warning: {warning}")
            result = run_job(request, context)
    finally:
        records.close()
    report(result)
    sys.exit(result.exit_code)
