"""A case, planned: what tables and goldens are compared with."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.packaging.wheel import pack
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.plan.model import LocalPackage
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import examine_job

if TYPE_CHECKING:
    from tests.job_cases import JobCase

    from encamp.errors import Problem
    from encamp.plan.manifests.job import Manifests
    from encamp.plan.model import JobPlan


@dataclass(frozen=True)
class PlannedCase:
    """The plan of a case, its Kubernetes objects, and all warnings as lines."""

    plan: JobPlan
    manifests: Manifests
    warnings: list[str]


@cache
def small_environment() -> EnvironmentSpec:
    """The environment of all cases, but for what they change."""
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "sandbox-encamp-artifacts"}
    return parse_environment(data, project="sandbox-encamp", source="test")


@cache
def trainer_package() -> LocalPackage:
    """A packed trainer that stands for any package of this machine."""
    name, content = pack("trainer", {"__init__.py": b"", "task.py": b"print('trained')\n"})
    return LocalPackage(name, hashlib.sha256(content).hexdigest(), Path(name))


def plan_case(case: JobCase) -> PlannedCase:
    """Plan a case in the small environment."""
    _, problems, warnings = examine_job(case.document())
    assert problems == [], case.name
    job = case.job_file().job
    trainer = trainer_package()
    named = [replace(trainer, file_name=Path(path).name) for path in job.encamp.packages or ()]
    packages = [*named, *([trainer] if job.encamp.package_path else [])]
    plan = plan_job(job, case.environment_in(small_environment()), packages=packages)
    return PlannedCase(plan, render_manifests(plan), [*(problem_line(one) for one in warnings), *plan.warnings])


def problem_line(problem: Problem) -> str:
    """A problem in one line: its path, its rule, the message, and what to try."""
    rule = f"[{problem.rule}] " if problem.rule else ""
    hint = f" (try: {problem.hint})" if problem.hint else ""
    return f"{problem.path}: {rule}{problem.message}{hint}"
