"""The end of runs whose process is dead: of their jobs, and of the environment that they had brought up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from encamp.acceptance.environment import HostEnvironment
from encamp.acceptance.progress import Progress, find, unfinished
from encamp.acceptance.run import AcceptanceResult, finish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp.errors import EncampError
    from encamp.run.history.context import Context
    from encamp.spec.environment import EnvironmentSpec


def end_abandoned(
    context: Context, spec: EnvironmentSpec, stack: str, *, checkout: Path, root: Path, dry_run: bool = False
) -> Iterator[tuple[str, EncampError | None]]:
    """Tear down abandoned runs on a stack; yield each action, and its error if there is one.

    A run of this machine is abandoned when its process is dead; one of another machine when the time has passed that it
    had claimed for the environment.
    """
    host = HostEnvironment(context, spec, stack, checkout)
    for progress in [one for one in unfinished(root, stack) if not one.is_alive]:
        if not dry_run:
            progress.take_over()
        yield _end(progress, host, context, spec, dry_run=dry_run)
    claim = host.claim()
    if claim is not None and find(root, stack, claim.run) is None and time.time() > claim.until:
        # A run of another machine: what is left of it is now this one's.
        progress = Progress.made(root, stack, claim.run, time.time())
        progress.claimed = True
        yield _end(progress, host, context, spec, dry_run=dry_run)


def _end(
    progress: Progress, host: HostEnvironment, context: Context, spec: EnvironmentSpec, *, dry_run: bool
) -> tuple[str, EncampError | None]:
    what = f"acceptance run {progress.run}"
    has = f"{'its environment and ' if progress.claimed else ''}{len(progress.jobs)} jobs"
    if dry_run:
        return f"{what}: would be taken down: {has}", None
    result = AcceptanceResult(progress)
    finish(progress, host, spec, context, result)
    done = "taken down" if result.teardown_error is None else "not taken down"
    return f"{what}: {done}: {has}", result.teardown_error
