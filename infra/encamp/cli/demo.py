"""``encamp demo``: the first five minutes. What it does, a user can do by hand with the commands that it names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from encamp.errors import EngineError, UsageError
from encamp.resources import repository

if TYPE_CHECKING:
    from pathlib import Path

    from encamp.sandbox.layout import Layout

EXAMPLE = "examples/digits"


@click.command()
@click.option("--keep-sandbox", is_flag=True, help="Leave the sandbox up afterwards.")
def command(*, keep_sandbox: bool) -> None:
    """Run an example job through the sandbox: from job file to trained model to nothing left."""
    from encamp.sandbox.layout import Layout  # noqa: PLC0415 - `--help` starts without it
    from encamp.sandbox.status import RUNNING, STARTING, sandbox_status  # noqa: PLC0415

    checkout = repository()
    if checkout is None:
        raise UsageError("the demo runs from a checkout", hint="clone the repository and run `make demo` there")
    layout = Layout.create()
    was_up = sandbox_status(layout).state in (RUNNING, STARTING)
    try:
        _demo(checkout, layout)
    finally:
        if not (was_up or keep_sandbox):
            _step("sandbox", "encamp sandbox down")
            _encamp("sandbox", "down")


def _demo(checkout: Path, layout: Layout) -> None:
    job_id = f"digits_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}"
    _step("1 of 4: a Google Cloud of this machine's own", "encamp sandbox up")
    _encamp("sandbox", "up")
    _step("2 of 4: what lives long around jobs", "encamp environment up")
    _encamp("environment", "up")
    _step("3 of 4: the job", f"encamp run {EXAMPLE}/job.yaml --job-id {job_id}")
    _encamp("run", str(checkout / EXAMPLE / "job.yaml"), "--job-id", job_id)
    _step("4 of 4: the model, loaded from its bucket", f"python {EXAMPLE}/evaluate.py")
    _evaluate(checkout, layout, job_id)


def _step(title: str, by_hand: str) -> None:
    click.secho(f"\n── {title} ", bold=True, nl=False)
    click.echo(f"({by_hand})")


def _encamp(*arguments: str) -> None:
    """One verb, as a user would type it; one that fails ends the demo with its exit code."""
    from encamp.cli.main import cli  # noqa: PLC0415 - main loads this verb

    try:
        cli.main(args=list(arguments), prog_name="encamp", standalone_mode=False)
    except SystemExit as ended:
        if ended.code:
            raise


def _evaluate(checkout: Path, layout: Layout, job_id: str) -> None:
    """Load the saved model through gs:// in a process of its own, as a user would, and print its accuracy."""
    from encamp.sandbox.environment import trainer_variables, variables  # noqa: PLC0415
    from encamp.spec.environment import load_environment  # noqa: PLC0415

    bucket = load_environment("sandbox", checkout).artifacts_bucket
    model = f"gs://{bucket}/jobs/{job_id}/output/model"
    click.echo(f"loading {model}")
    script = checkout / EXAMPLE / "evaluate.py"
    ended = subprocess.run(
        [sys.executable, str(script), model],
        env={**os.environ, **variables(layout), **trainer_variables(layout)},
        check=False,
    )
    if ended.returncode != 0:
        raise EngineError(f"the model could not be evaluated (exit code {ended.returncode})", where=model)
