"""``encamp demo``: the first five minutes. What it does, a user can do by hand with the commands that it names."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from encamp.cli.out import say, say_title
from encamp.errors import EngineError, UsageError
from encamp.resources import repository
from encamp.sandbox import Sandbox

if TYPE_CHECKING:
    from encamp.tuning.model import Trial

EXAMPLE = "examples/digits"
TUNING = "examples/tuning"


@click.command()
@click.option("--tuning", is_flag=True, help="A job that tunes, and one that goes on from it; takes some minutes.")
@click.option("--keep-sandbox", is_flag=True, help="Leave the sandbox up afterwards.")
def command(*, tuning: bool, keep_sandbox: bool) -> None:
    """Run an example job through the sandbox: from job file to trained model to nothing left."""
    checkout = repository()
    if checkout is None:
        raise UsageError(
            "the demo runs from a checkout",
            hint="`encamp init DIR` writes a project with a job to run",
        )
    sandbox = Sandbox.created()
    was_up = sandbox.is_up()
    try:
        _environment("5" if tuning else "4")
        if tuning:
            _demo_tuning(checkout, sandbox)
        else:
            _demo(checkout, sandbox)
    finally:
        if not (was_up or keep_sandbox):
            _step("sandbox", "encamp sandbox down")
            _encamp("sandbox", "down")


def _environment(steps: str) -> None:
    _step(f"1 of {steps}: a Google Cloud of this machine's own", "encamp sandbox up")
    _encamp("sandbox", "up")
    _step(f"2 of {steps}: what lives long around jobs", "encamp environment up")
    _encamp("environment", "up")


def _demo(checkout: Path, sandbox: Sandbox) -> None:
    job_id = f"digits_{_now()}"
    _step("3 of 4: the job", f"encamp run {EXAMPLE}/job.yaml --job-id {job_id}")
    _encamp("run", str(checkout / EXAMPLE / "job.yaml"), "--job-id", job_id)
    _step("4 of 4: the model, loaded from its bucket", f"python {EXAMPLE}/evaluate.py")
    _evaluate(checkout / EXAMPLE, sandbox, f"jobs/{job_id}/output/model")


def _demo_tuning(checkout: Path, sandbox: Sandbox) -> None:
    """Twelve trials, six more that begin with what those have found, and the model of the best of all."""
    job_id = f"digits_tuning_{_now()}"
    more = f"{job_id}_more"
    job, going_on = f"{TUNING}/job.yaml", ("--resume-previous-job-id", job_id, "--max-trials", "6")
    _step("3 of 5: twelve trials, three at a time", f"encamp run {job} --job-id {job_id}")
    _encamp("run", str(checkout / job), "--job-id", job_id)
    _step("4 of 5: six more", f"encamp run {job} --job-id {more} {' '.join(going_on)}")
    _encamp("run", str(checkout / job), "--job-id", more, *going_on)
    page = Path(tempfile.mkdtemp(prefix="encamp-")) / "tuning.html"
    _step("5 of 5: what all have found", f"encamp trials {more} --report {page}")
    _encamp("trials", more, "--report", str(page))
    best = _best(more)
    _evaluate(checkout / TUNING, sandbox, f"jobs/{best.job_id}/output/{best.number}/model.joblib")


def _best(job_id: str) -> Trial:
    """The best trial of a study.

    Raises:
        EngineError: it has none.
    """
    from encamp.cli.known import looking  # noqa: PLC0415
    from encamp.cli.stack import DEFAULT_ENVIRONMENT  # noqa: PLC0415 - `--help` starts without it
    from encamp.run.history.known_study import study_results  # noqa: PLC0415

    with looking(DEFAULT_ENVIRONMENT) as jobs:
        results = study_results(jobs.catalogue.job(job_id), jobs.storage)
    if results is None or results.best is None:
        raise EngineError("the study has no best trial", where=job_id)
    return results.best


def _now() -> str:
    return time.strftime("%Y%m%d_%H%M%S", time.gmtime())


def _step(title: str, by_hand: str) -> None:
    say_title(f"\n── {title} ", nl=False)
    say(f"({by_hand})")


def _encamp(*arguments: str) -> None:
    """One verb, as a user would type it; one that fails ends the demo with its exit code."""
    from encamp.cli.main import cli  # noqa: PLC0415 - main loads this verb

    try:
        cli.main(args=list(arguments), prog_name="encamp", standalone_mode=False)
    except SystemExit as ended:
        if ended.code:
            raise


def _evaluate(example: Path, sandbox: Sandbox, name: str) -> None:
    """Load a saved model through gs:// in a process of its own, as a user would, and print its accuracy."""
    from encamp.spec.environment import load_environment  # noqa: PLC0415

    bucket = load_environment("sandbox", example.parents[1]).artifacts_bucket
    model = f"gs://{bucket}/{name}"
    say(f"loading {model}")
    ended = subprocess.run(
        [sys.executable, str(example / "evaluate.py"), model],
        env={**os.environ, **sandbox.variables(), **sandbox.trainer_variables()},
        check=False,
    )
    if ended.returncode != 0:
        raise EngineError(f"the model could not be evaluated (exit code {ended.returncode})", where=model)
