"""``encamp reap``: bring jobs without a living driver to their end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say
from encamp.cli.stack import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.errors import EncampError
    from encamp.run.history.context import Context
    from encamp.run.lifecycle.finding import Finding
    from encamp.spec.environment import EnvironmentSpec

_SHORTEST_SECONDS = 1.0


@click.command()
@click.option("--dry-run", is_flag=True, help="Report actions, reasons and resources without performing them.")
@click.option("--wait", is_flag=True, help="Supervise jobs that still train, until none is left.")
@click.option("--watch", is_flag=True, help="Run for ever: supervise jobs that train, adopt jobs whose drivers die.")
@click.option(
    "--interval", type=click.FloatRange(min=_SHORTEST_SECONDS), default=30.0, show_default=True, metavar="SECONDS",
    help="Time between two searches of --watch.",
)  # fmt: skip
@click.option("--job", metavar="JOB", help="Only this job, by its id or its cloud name.")
@click.option("--quiet", is_flag=True, help="Print nothing if there is nothing to do, as for cron.")
@click.option(
    "--remote", is_flag=True, help="Refuse a backend or record on this machine, for runners whose disk is not kept."
)
@ENVIRONMENT
def command(
    environment: str,
    *,
    dry_run: bool,
    wait: bool,
    watch: bool,
    interval: float,
    job: str | None,
    quiet: bool,
    remote: bool,
) -> None:
    """Finish jobs that have no living driver: settle the outcome, seal the logs, delete their resources.

    Compares the record, the engine's stacks and the cloud's listing. Jobs with a living driver are left alone. A job
    that still trains within its limits is left to train; with --wait and --watch it is supervised until it ends.
    SIGTERM and Ctrl-C end the supervision, never a job.

    Exit code 0: success. 2: bad input. 3: a job, a stack or a listing could not be read. 4: a resource that should
    be deleted may still exist.
    """
    from encamp.cli.lines import Lines  # noqa: PLC0415 - `encamp reap --help` needs none of it
    from encamp.errors import UsageError  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.run.lifecycle.reap import ReapOptions, reap, worst  # noqa: PLC0415
    from encamp.run.lifecycle.remote import require_remote  # noqa: PLC0415

    if dry_run and (wait or watch):
        raise UsageError("--dry-run does nothing, so it can neither --wait nor --watch", hint="leave one of them out")
    spec = enter(environment)
    if remote:
        require_remote(spec.project)

    def tell(finding: Finding) -> None:
        if not (quiet and finding.idle):
            say("\n".join(_lines(finding)))

    options = ReapOptions(
        dry_run=dry_run,
        wait=wait,
        watch=interval if watch else None,
        job=job,
        tell=remote and not dry_run,
        quiet=quiet,
    )
    lines = Lines()
    findings = reap(lines.context(), environment, options, found=tell)
    runs = list(_runs(environment, spec, lines.context(), dry_run=dry_run)) if job is None else []
    if not findings and not runs and not quiet:
        say("no job needs an end")
    error = worst(findings) or next((error for error in runs if error is not None), None)
    if error is not None:
        say(f"error: {error}", err=True)
        sys.exit(error.exit_code)


def _runs(environment: str, spec: EnvironmentSpec, context: Context, *, dry_run: bool) -> Iterator[EncampError | None]:
    """Take down what killed runs of ``encamp acceptance`` have left; gives the error of each, None where all went well.

    A pod does not take down the environment that it runs in.
    """
    from encamp.acceptance.abandoned import end_abandoned  # noqa: PLC0415
    from encamp.cloud.pod_kubeconfig import is_in_pod  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415
    from encamp.run.engine.workspace import state_folder  # noqa: PLC0415

    if is_in_pod():
        return
    root = state_folder() / "acceptance"
    for said, error in end_abandoned(context, spec, environment, checkout=project_folder(), root=root, dry_run=dry_run):
        say(said)
        yield error


def _lines(finding: Finding) -> list[str]:
    return [f"{finding.job}: {finding.verdict}: {finding.why}", *(f"  {one}" for one in finding.resources)]
