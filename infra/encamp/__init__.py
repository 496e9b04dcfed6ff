"""encamp: one training job file in, trained model and empty bill out.

The names below are the public ones, and stable: a change that would break a program that uses them comes with a new
major version and stands in CHANGELOG.md. Every other module is encamp's own. Each is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from encamp.version import __version__

if TYPE_CHECKING:
    from encamp import jobs
    from encamp.errors import EncampError
    from encamp.public_components.environment import Environment, EnvironmentReference
    from encamp.public_components.training_job import TrainingJob
    from encamp.spec.encamp import EncampSpec
    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.training import TrainingInputSpec

__all__ = [
    "EncampError",
    "EncampSpec",
    "Environment",
    "EnvironmentReference",
    "EnvironmentSpec",
    "TrainingInputSpec",
    "TrainingJob",
    "TrainingJobSpec",
    "__version__",
    "jobs",
]

_WHERE = {
    "EncampError": "encamp.errors",
    "EncampSpec": "encamp.spec.encamp",
    "Environment": "encamp.public_components.environment",
    "EnvironmentReference": "encamp.public_components.environment",
    "EnvironmentSpec": "encamp.spec.environment",
    "TrainingInputSpec": "encamp.spec.training",
    "TrainingJob": "encamp.public_components.training_job",
    "TrainingJobSpec": "encamp.spec.job",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use; the components bring the engine's SDK along."""
    if name == "jobs":
        return importlib.import_module("encamp.jobs")
    if name not in _WHERE:
        raise AttributeError(f"module 'encamp' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
