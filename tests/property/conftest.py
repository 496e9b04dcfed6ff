"""What properties of jobs need: files to try, their plans, and manifests read back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume

from encamp.errors import PreconditionError
from encamp.plan.job import plan_job
from encamp.plan.model import LocalPackage
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy
    from tests.property.manifests import ReadJob

    from encamp.plan.model import JobPlan

#: Preconditions of machines that are too small, images that are not for a machine, and machines that are got otherwise.
UNFIT = {"G13", "G14", "G15", "G16", "G17"}


@dataclass(frozen=True)
class Property:
    """Valid job files, and what becomes of them."""

    jobs: SearchStrategy[dict[str, Any]]
    load: Callable[[str], Any]
    read: Callable[[str], ReadJob]
    meant: Callable[[JobPlan], ReadJob]
    environment: EnvironmentSpec

    def plan(self, written: dict[str, Any]) -> JobPlan:
        """The plan of a job file's data, its local packages as if they were there.

        Image, machine and the way to get it are drawn apart: what Google refuses of them together is drawn again.
        """
        job = parse_job(written, source="drawn").job
        block = job.encamp
        names = [Path(path).name for path in block.packages or ()]
        names += ["trainer-0-py3-none-any.whl"] if block.package_path else []
        packages = [LocalPackage(name, "0" * 64, Path(name)) for name in names]
        try:
            return plan_job(job, self.environment, packages=packages)
        except PreconditionError as error:
            assume(not {problem.rule for problem in error.problems} <= UNFIT)
            raise


@pytest.fixture(scope="session")
def properties(load_module: Callable[[str, str], Any]) -> Property:
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "sandbox-encamp-artifacts"}
    environment = parse_environment(data, project="sandbox-encamp", source="test")
    manifests = load_module("encamp_test_manifests", "property/manifests.py")
    jobs = load_module("encamp_test_jobs", "property/jobs.py").jobs()
    return Property(jobs, manifests.load, manifests.read, manifests.meant, environment)
