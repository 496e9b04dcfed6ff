"""Where the sandbox runs a job otherwise than its images would, told before it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.sandbox import image_difference

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec


def sandbox_differences(plan: JobPlan, environment: EnvironmentSpec) -> list[str]:
    """How the Python of replicas differs from that of their images, a line each; none outside of the sandbox."""
    if not environment.is_sandbox:
        return []
    images = dict.fromkeys(group.image for group in plan.groups if group.interpreter is not None)
    return [line for line in dict.fromkeys(map(image_difference, images)) if line]
