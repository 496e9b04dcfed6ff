"""``encamp environment``: bring up or take down what lives long around jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from encamp.cli.out import confirm, say
from encamp.cli.stack import ENVIRONMENT, FORMER, chosen

if TYPE_CHECKING:
    from encamp.run.engine.job_engine import JobEngine

#: Nothing of an environment takes as long to delete: the provider gives a cluster 40 minutes.
_SILENT_SECONDS = 7200.0


@click.group(name="environment")
def command() -> None:
    """Create or delete environments: the stacks with encamp:environment in their config."""


@command.command()
@ENVIRONMENT
@FORMER
@click.pass_context
def up(ctx: click.Context, environment: str, former: str | None) -> None:
    """Create or update an environment. The same as `pulumi up -s STACK`."""
    stack = chosen(ctx, environment, former)
    engine = open_engine(stack)
    start_queues(stack)
    engine.create(stack)
    engine.up(stack)
    outputs = engine.environment(stack)
    say(f"environment {stack} is up: cluster {outputs.cluster}, results in gs://{outputs.artifacts_bucket}")


@command.command()
@ENVIRONMENT
@FORMER
@click.option("--yes", is_flag=True, help="Delete it without asking.")
@click.pass_context
def down(ctx: click.Context, environment: str, former: str | None, *, yes: bool) -> None:
    """Delete an environment. Refused while a resource of it is protected or its buckets hold anything.

    Prints every few seconds what it waits for. An engine that prints nothing for two hours is killed; run the command
    again then.
    """
    stack = chosen(ctx, environment, former)
    if not yes:
        confirm(f"Destroy the environment {stack}?")
    engine = open_engine(stack, stall=_SILENT_SECONDS)
    _refuse_protected(engine, stack)
    _refuse_full(engine, stack)
    engine.destroy(stack)
    say(f"environment {stack} is gone")


def _refuse_protected(engine: JobEngine, stack: str) -> None:
    """The engine would first delete all that is not protected, and leave half an environment.

    Raises:
        UsageError: something is protected.
    """
    from encamp.errors import UsageError  # noqa: PLC0415 - `--help` starts without it

    protected = engine.state(stack).protected
    if protected:
        hint = f"write `protect: false` there, `encamp environment up -s {stack}`, and then this"
        message = f"environment {stack} is protected: {', '.join(protected)}"
        raise UsageError(message, where=f"stacks/Pulumi.{stack}.yaml", hint=hint)


def _refuse_full(engine: JobEngine, stack: str) -> None:
    """A bucket goes last and only when it is empty: the rest would be gone by then.

    Raises:
        UsageError: a bucket holds something.
    """
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415 - `--help` starts without it
    from encamp.cloud.storage import Storage  # noqa: PLC0415
    from encamp.errors import UsageError  # noqa: PLC0415

    found = engine.state(stack).buckets
    storage = Storage(GoogleClient())
    full = [name for name in sorted(found) if not storage.is_empty(name)]
    if full:
        hint = (
            f"`gcloud storage rm --recursive --all-versions 'gs://{full[0]}/**'` empties it; "
            f"`pulumi state delete --target-dependents '{found[full[0]]}' -s {stack}` leaves it as it is, for good"
        )
        raise UsageError(f"buckets of environment {stack} hold something: {', '.join(full)}", where=stack, hint=hint)


def start_queues(stack: str) -> None:
    """A sandbox comes up without Kueue; the first environment that has queues starts it."""
    from encamp.project import project_folder  # noqa: PLC0415 - `--help` starts without it
    from encamp.spec.environment import load_environment  # noqa: PLC0415

    spec = load_environment(stack, project_folder())
    if spec.queues is None or not spec.is_sandbox:
        return
    from encamp.cli.sandbox import listener  # noqa: PLC0415 - production needs no sandbox
    from encamp.sandbox import Sandbox  # noqa: PLC0415

    Sandbox.opened().start_queues(listener(time.monotonic()))


def open_engine(stack: str, *, stall: float | None = None) -> JobEngine:
    """The engine for a committed environment, pointed to its cloud; ``stall`` as for ``JobEngine``.

    Raises:
        UsageError: there is no project, or no such environment.
    """
    from encamp.jobs.target import enter  # noqa: PLC0415 - `--help` starts without it
    from encamp.project import project_folder  # noqa: PLC0415
    from encamp.run.engine.job_engine import JobEngine  # noqa: PLC0415

    folder = project_folder()
    enter(stack)
    return JobEngine(folder, say, stall=stall)
