from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plan.planned import small_environment, trainer_package

from encamp.plan.job import plan_job
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan, LocalPackage
    from encamp.spec.environment import EnvironmentSpec

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def environment() -> EnvironmentSpec:
    return small_environment()


@pytest.fixture
def package() -> LocalPackage:
    return trainer_package()


@pytest.fixture
def plan_input(environment: EnvironmentSpec) -> Callable[..., JobPlan]:
    """Plans a TrainingInput given by its fields, with what every job needs filled in, an image for TPUs among it."""
    place = environment.model_copy(update={"runtime_images": {"2.11-tpu": "gcr.io/ours/runtime:2.11-tpu"}})

    def build(job_id: str = "job", **fields: Any) -> JobPlan:
        given = {
            "region": "us-central1",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "packageUris": ["gs://packages/trainer.tar.gz"],
            "pythonModule": "trainer.task",
        }
        if "masterConfig" in fields and "imageUri" in fields["masterConfig"]:
            given = {"region": "us-central1"}
        job = parse_job({"jobId": job_id, "trainingInput": given | fields}, source="test").job
        return plan_job(job, place)

    return build
