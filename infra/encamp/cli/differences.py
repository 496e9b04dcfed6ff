"""Where the sandbox runs a job otherwise than its images would, told before it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec


def sandbox_differences(plan: JobPlan, environment: EnvironmentSpec) -> list[str]:
    """How the Python of replicas differs from that of their images, a line each; none outside of the sandbox."""
    if not environment.is_sandbox:
        return []
    from encamp.sandbox.pythons.choice import difference  # noqa: PLC0415 - production needs no sandbox

    images = dict.fromkeys(group.image for group in plan.groups if group.interpreter is not None)
    return [line for line in dict.fromkeys(map(difference, images)) if line]
