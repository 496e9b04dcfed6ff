"""Probes by the engine: a stack that nothing has changed previews as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.acceptance.answers import NotAskedError, expect
from encamp.acceptance.probe import of_environment, of_job

if TYPE_CHECKING:
    from encamp.acceptance.cases import EnvironmentCase, JobCase
    from encamp.ci.preview import Previewed


def _quiet(preview: Previewed) -> str:
    """Return how many resources stay as they are, in words.

    Raises:
        BrokenBeliefError: something would be done to one; says what.
        NotAskedError: there is no preview.
    """
    if preview.errors:
        raise NotAskedError(f"the preview failed: {'; '.join(preview.errors)}")
    steps = [
        f"{step.does} {step.type} {step.name} ({', '.join(one.path for one in step.differences) or 'whole'})"
        for step in preview.steps
    ]
    expect(not steps, f"nothing has changed, and this would be done: {'; '.join(steps)}")
    return f"{preview.unchanged} resources stay as they are"


def _made_here(case: EnvironmentCase) -> None:
    if not case.made_here:
        raise NotAskedError("the environment was there before, and its config may have changed since")


@of_environment("preview-of-environment-is-quiet")
def environment_is_quiet(case: EnvironmentCase) -> str:
    """Preview the environment right after it was brought up."""
    _made_here(case)
    return _quiet(case.previews["again"])


@of_environment("refresh-finds-no-drift")
def refresh_is_quiet(case: EnvironmentCase) -> str:
    """Preview the environment against the cloud."""
    _made_here(case)
    return _quiet(case.previews["refreshed"])


@of_job("preview-of-job-is-quiet", "cpu")
def job_is_quiet(case: JobCase) -> str:
    """Preview a job's stack while it trains."""
    if case.preview is None:
        raise NotAskedError("the job was never seen running")
    return _quiet(case.preview)
