from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError, UsageError
from encamp.plan.image_facts import ImageFacts, image_facts, installs_tpu_support, newest_stock_cuda
from encamp.plan.images import (
    containerfile,
    python_warning,
    runtime_build,
    runtime_image,
    tpu_build,
    tpu_containerfile,
)
from encamp.plan.job import plan_job
from encamp.plan.storage import NO_OUTPUT
from encamp.spec.ai_platform import ai_platform
from encamp.spec.data_files import data_file
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

PAIRS = [(version, python) for version, found in ai_platform().runtime_versions.items() for python in found.pythons]


@pytest.mark.parametrize(("version", "python"), PAIRS)
@pytest.mark.parametrize("gpu", [False, True])
def test_every_runtime_version_has_an_image_and_a_way_to_build_one(version: str, python: str, *, gpu: bool) -> None:
    image = runtime_image(version, "3", gpu=gpu)
    assert ("-gpu" in image.image) == gpu
    build = runtime_build(version, python, gpu=gpu)
    text = containerfile(build)
    # The image of Python 3 also for Python 2: python3 sets a replica up.
    assert build.base == image.image
    assert f"ARG PYTHON={python}\n" in text
    assert f"=={ai_platform().runtime_versions[version].tensorflow}.*" in text
    assert "'" not in next(line for line in text.splitlines() if line.startswith("ARG PACKAGES"))


@pytest.mark.parametrize(("version", "python"), [pair for pair in PAIRS if pair[1].startswith("2")])
def test_a_stock_image_for_python_2_is_refused_before_machines_are_bought(version: str, python: str) -> None:
    with pytest.raises(PlanError, match=r"no stock image has Python 2\.7") as caught:
        runtime_image(version, python)
    assert caught.value.where == "trainingInput.pythonVersion"
    assert f"encamp containerfile {version} --python 2.7" in str(caught.value.hint)
    own = runtime_image(version, python, given={version: "ours:1"})
    assert (own.image, own.interpreter) == ("ours:1", "python2")


def test_an_environments_image_for_tpus_is_for_tpus_alone() -> None:
    given = {"2.11": "ours:cpu", "2.11-tpu": "ours:tpu"}
    assert runtime_image("2.11", "3.7", tpu=True, given=given).image == "ours:tpu"
    assert runtime_image("2.11", "3.7", tpu=True, given=given).for_tpus
    assert runtime_image("2.11", "3.7", given=given).image == "ours:cpu"
    assert runtime_image("2.11", "3.7", tpu=True, given={"2.11": "ours:all"}).image == "ours:all"


@pytest.mark.parametrize(
    ("image", "facts"),
    [
        ("tensorflow/tensorflow:2.11.0-gpu", ImageFacts("11.2", ("amd64",), tpus=False)),
        ("tensorflow/tensorflow:1.4.1-gpu-py3", ImageFacts("8.0", ("amd64",), tpus=False)),
        ("tensorflow/tensorflow:2.11.0", ImageFacts(None, ("amd64",), tpus=False)),
        ("tensorflow/tensorflow:2.19.0-gpu", ImageFacts(None, None, tpus=False)),
        ("pytorch/pytorch:2.8.0-cuda12.6-cudnn9-runtime", ImageFacts("12.6", None, tpus=False)),
        ("docker.io/nvidia/cuda:12.4.1-runtime-ubuntu22.04", ImageFacts("12.4", ("amd64", "arm64"), tpus=False)),
        ("us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/tpu:jax0.8.1-rev1", ImageFacts(tpus=True)),
        ("us-central1-docker.pkg.dev/p/r/trainer@sha256:0123", ImageFacts()),
        ("trainer", ImageFacts()),
    ],
)
def test_what_is_known_of_an_image(image: str, facts: ImageFacts) -> None:
    assert image_facts(image) == facts


@pytest.mark.parametrize(
    ("requirements", "brings"),
    [
        (["jax[tpu]>=0.8"], True),
        (["torch>=2", "torch-xla [tpu]>=2"], True),
        (["tensorflow-tpu"], True),
        (["tensorflow-tpu-extras"], False),
        (["jax", "numpy"], False),
    ],
)
def test_requirements_may_bring_tpu_support(requirements: list[str], *, brings: bool) -> None:
    assert installs_tpu_support(requirements) == brings


def test_gpus_need_a_cuda_that_knows_them() -> None:
    """Each GPU by its compute capability: libraries have code for its major number from some CUDA on."""
    least = {"6": "8.0", "7": "9.0", "8": "11.0", "9": "11.8", "10": "12.8"}
    for name, entry in data_file("gpus").items():
        if entry["offered"]:
            assert entry["leastCuda"] == least[entry["computeCapability"].partition(".")[0]], name
    assert newest_stock_cuda() == "11.2"


def test_the_containerfile_for_tpus_has_googles_own_build() -> None:
    text = tpu_containerfile(tpu_build("2.11", None))
    assert "tf-2.11.0/tensorflow-2.11.0-cp38-cp38-linux_x86_64.whl" in text
    assert "libtpu/1.5.0/libtpu.so /lib/libtpu.so" in text
    assert 'runtimeImages: {"2.11-tpu"' in text
    with pytest.raises(UsageError, match=r"no TensorFlow for TPUs is known of runtime version 2\.4"):
        tpu_build("2.4", None)
    with pytest.raises(UsageError, match=r"for Python 3\.8"):
        tpu_build("2.11", "3.7")


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
    assert planned("2.11").warnings == (NO_OUTPUT,)
    assert [group.image for group in planned("2.10").groups] == ["tensorflow/tensorflow:2.10.0"]


def test_a_warning_names_both_pythons_where_they_differ() -> None:
    found = runtime_image("2.11", "3.7", gpu=False)
    warning = python_warning(found, "2.11", "3.7")
    assert warning is not None
    assert "3.7" in warning
    assert "3.8" in warning
    assert python_warning(runtime_image("1.4", "3.5", gpu=False), "1.4", "3.5") is None
