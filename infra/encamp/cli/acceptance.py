"""``encamp acceptance``: prove on a real project what encamp believes of Google Cloud."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say
from encamp.cli.stack import stack_option

if TYPE_CHECKING:
    from encamp.acceptance.cost import PlannedLadder
    from encamp.acceptance.progress import Progress
    from encamp.acceptance.run import AcceptanceRequest, AcceptanceResult
    from encamp.run.history.context import Context

#: Seconds between two looks at a job: where nothing is paid by the request, and where a quota counts them.
_LOOK_SANDBOX, _LOOK = 0.5, 5.0


@click.command(name="acceptance")
@stack_option("The committed stack of an environment.", required=True, name="stack")
@click.option(
    "--budget", type=click.FloatRange(min=0), metavar="USD", help="Limit of the run's cost in the worst case."
)
@click.option("--only", multiple=True, metavar="RUNG", help="Run these rungs alone; `environment` runs no job.")
@click.option("--skip", multiple=True, metavar="RUNG", help="Leave these rungs out.")
@click.option("--dry-run", is_flag=True, help="Show the jobs and their cost without running them.")
@click.option("--new", is_flag=True, help="Delete what a killed run has left, and start anew instead of resuming it.")
@click.option("--yes", is_flag=True, help="Do not ask before money is spent.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
    help="Write report.md and report.json there instead of into the run's folder.",
)  # fmt: skip
def command(
    stack: str,
    budget: float | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    output: Path | None,
    *,
    dry_run: bool,
    new: bool,
    yes: bool,
) -> None:
    """Bring STACK's environment up, run small jobs in it, compare what Google does with docs/beliefs.md, and report.

    Deletes what the run has created, however it ends; an environment that was up before stays up. Resumes a killed
    run. Shows the cost and asks first; a ladder that may cost more than the budget is shortened from its end.

    Exit code 0: every belief that could be asked held. 1: a belief is broken. 2: bad input. 3: the environment or a
    rung failed. 4: something may be left. 5: interrupted; everything is taken down.
    """
    from encamp.acceptance.run import run_acceptance  # noqa: PLC0415 - `--help` needs none of it
    from encamp.cli.environment import start_queues  # noqa: PLC0415
    from encamp.cli.lines import Lines  # noqa: PLC0415

    request, before = _request(stack, budget, only, skip, dry_run=dry_run, new=new)
    _show(request.ladder, budget)
    if dry_run:
        return
    if not yes:
        click.confirm("Go on?", abort=True, err=True)
    context = Lines().context()
    progress = _progress(request, before, context)
    start_queues(stack)
    result = run_acceptance(request, context, progress)
    _report(result, request, output)
    sys.exit(result.exit_code)


def _request(
    stack: str, budget: float | None, only: tuple[str, ...], skip: tuple[str, ...], *, dry_run: bool, new: bool
) -> tuple[AcceptanceRequest, Progress | None]:
    """The run that is asked for, planned and priced, and the killed run that it continues.

    Raises:
        UsageError: a rung is not known, there is no budget or too small a one, or another run has the environment.
    """
    from encamp.acceptance.environment import HostEnvironment  # noqa: PLC0415
    from encamp.acceptance.ladder import rungs  # noqa: PLC0415
    from encamp.acceptance.planning import plan_ladder  # noqa: PLC0415
    from encamp.acceptance.progress import unfinished  # noqa: PLC0415
    from encamp.acceptance.run import AcceptanceRequest  # noqa: PLC0415
    from encamp.errors import UsageError  # noqa: PLC0415
    from encamp.jobs.target import enter  # noqa: PLC0415
    from encamp.project import project_folder  # noqa: PLC0415
    from encamp.run.engine.workspace import state_folder  # noqa: PLC0415
    from encamp.run.history.context import Context  # noqa: PLC0415

    wanted = rungs(only, skip)
    if budget is None and not dry_run:
        raise UsageError("the run needs a budget", where="--budget", hint="`--dry-run` shows what it costs")
    spec = enter(stack)
    root = state_folder() / "acceptance"
    before = unfinished(root, stack)
    for progress in before:
        progress.refuse_alive()
    host = HostEnvironment(Context(say, lambda *_: None), spec, stack, project_folder())
    ladder = plan_ladder(spec, host, wanted, budget, [progress.run for progress in before])
    seconds = _LOOK_SANDBOX if spec.is_sandbox else _LOOK
    request = AcceptanceRequest(spec, stack, project_folder(), root, ladder, seconds)
    return request, next((one for one in reversed(before) if not one.ended and not new), None)


def _progress(request: AcceptanceRequest, before: Progress | None, context: Context) -> Progress:
    """The run that is gone on with, or a new one; other runs whose processes are dead are taken down first.

    Raises:
        EncampError: one of those could not be.
    """
    from encamp.acceptance.abandoned import end_abandoned  # noqa: PLC0415
    from encamp.acceptance.progress import Progress  # noqa: PLC0415

    if before is not None:
        context.show(f"going on with run {before.run}")
        before.take_over()
    ended = end_abandoned(context, request.spec, request.stack, checkout=request.checkout, root=request.root)
    for said, error in ended:
        context.show(said)
        if error is not None:
            raise error
    if before is not None:
        return before
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
    return Progress.begin(request.root, request.stack, stamp, time.time())


def _show(ladder: PlannedLadder, budget: float | None) -> None:
    """Say what is going to be run and what it costs."""
    from encamp.acceptance.ladder import ENVIRONMENT  # noqa: PLC0415
    from encamp.duration import Duration  # noqa: PLC0415
    from encamp.text import aligned  # noqa: PLC0415

    cost = ladder.cost
    rows = [
        ("RUNG", "EXPECTED", "AT WORST", "SHOWS"),
        *(
            (one.rung.name, f"{one.cost.expected:.2f}", f"{one.cost.worst_case:.2f}", one.rung.shows)
            for one in ladder.rungs
        ),
        (ENVIRONMENT, f"{cost.environment_hourly:.2f} an hour", "", "what stands while no job runs"),
    ]
    for line in aligned(rows):
        say(line)
    for name, why in ladder.left_out:
        say(f"left out: {name}: {why}")
    say(
        f"in all {cost.expected:.2f} USD expected in {Duration.of(cost.expected_seconds).words}, "
        f"at worst {cost.worst:.2f} USD in {Duration.of(cost.worst_seconds).words}"
        f"{'' if budget is None else f', budget {budget:.2f} USD'}"
    )


def _report(result: AcceptanceResult, request: AcceptanceRequest, output: Path | None) -> None:
    """Write the report, and say the gist of it."""
    from encamp.acceptance.report import write_report  # noqa: PLC0415

    markdown, data = write_report(result, request.ladder, request.spec.project, output or result.progress.folder)
    for answer in result.broken:
        say(f"broken: {answer.belief} ({answer.place}): {answer.saw}")
    for error in (result.error, result.teardown_error):
        if error is not None:
            say(f"error: {error}", err=True)
    say(f"report       {markdown}\n             {data}")
