"""The golden cases: each one's job file, and the environment that it is planned for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from encamp.spec.environment import EnvironmentSpec

REPOSITORY = Path(__file__).resolve().parents[1]
GOLDEN = REPOSITORY / "tests" / "golden"
#: ``example-<folder>`` for its job.yaml, ``example-<folder>-<rest>`` for its job-<rest>.yaml.
EXAMPLES = {
    f"example-{path.parent.name}{path.stem.removeprefix('job')}": path
    for path in (REPOSITORY / "examples").glob("*/job*.yaml")
}


def job_path(case: str) -> Path:
    own = GOLDEN / case / "job.yaml"
    return own if own.exists() else EXAMPLES[case]


def environment_of(case: str, environment: EnvironmentSpec) -> EnvironmentSpec:
    """The environment of all cases, with what the case's own file says of it."""
    own = GOLDEN / case / "environment.yaml"
    if not own.exists():
        return environment
    data = environment.model_dump(exclude_none=True, exclude_defaults=True) | yaml.safe_load(own.read_text())
    return parse_environment(data, project=environment.project, source=own.name)
