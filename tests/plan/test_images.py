from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError, UsageError
from encamp.plan.images import containerfile, python_warning, runtime_build, runtime_image
from encamp.plan.job import plan_job
from encamp.spec.ai_platform import ai_platform
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

PAIRS = [(version, python) for version, found in ai_platform().runtime_versions.items() for python in found.pythons]


@pytest.mark.parametrize(("version", "python"), PAIRS)
@pytest.mark.parametrize("gpu", [False, True])
def test_every_runtime_version_has_an_image_and_a_way_to_build_one(version: str, python: str, *, gpu: bool) -> None:
    image = runtime_image(version, python, gpu=gpu)
    assert ("-gpu" in image.image) == gpu
    build = runtime_build(version, python, gpu=gpu)
    text = containerfile(build)
    assert build.base == image.image
    assert f"ARG PYTHON={python}\n" in text
    assert f"=={ai_platform().runtime_versions[version].tensorflow}.*" in text
    assert "'" not in next(line for line in text.splitlines() if line.startswith("ARG PACKAGES"))


def test_the_containerfile_of_one_version() -> None:
    old = runtime_build("1.14", "2.7", gpu=True)
    assert old.packages[0] == "tensorflow-gpu==1.14.*"
    assert "h5py<3" in old.packages
    new = runtime_build("2.1", None, gpu=True)
    assert (new.python, new.packages[0]) == ("3.7", "tensorflow==2.1.*")
    assert "scikit-learn==0.22.1" in new.packages
    assert "scikit-learn" not in new.packages


def test_versions_and_pythons_that_never_were_are_refused_with_those_that_were() -> None:
    with pytest.raises(UsageError, match=r"no runtime version '3\.0'") as caught:
        runtime_build("3.0", None, gpu=False)
    assert "2.11" in str(caught.value)
    with pytest.raises(UsageError, match=r"it had 3\.7"):
        runtime_build("2.11", "3.9", gpu=False)
    with pytest.raises(PlanError, match="runtimeImages"):
        runtime_image("3.0", "3.7", gpu=False)


def test_an_environment_has_images_of_its_own_for_runtime_versions() -> None:
    own = "us-central1-docker.pkg.dev/ours/encamp/runtime:2.11-py3.7"
    environment = parse_environment(
        {
            "name": "sandbox",
            "region": "us-central1",
            "artifactsBucket": "artifacts",
            "runtimeImages": {"2.11": own},
        },
        project="sandbox-encamp",
        source="test",
    )

    def planned(version: str) -> JobPlan:
        training_input = {
            "region": "us-central1",
            "runtimeVersion": version,
            "pythonVersion": "3.7",
            "packageUris": ["gs://packages/trainer.tar.gz"],
            "pythonModule": "trainer.task",
        }
        return plan_job(parse_job({"jobId": "job", "trainingInput": training_input}, source="test").job, environment)

    assert [group.image for group in planned("2.11").groups] == [own]
    assert planned("2.11").warnings == ()
    assert [group.image for group in planned("2.10").groups] == ["tensorflow/tensorflow:2.10.0"]


def test_a_warning_names_both_pythons_where_they_differ() -> None:
    found = runtime_image("2.11", "3.7", gpu=False)
    warning = python_warning(found, "2.11", "3.7")
    assert warning is not None
    assert "3.7" in warning
    assert "3.8" in warning
    assert python_warning(runtime_image("1.4", "3.5", gpu=False), "1.4", "3.5") is None
