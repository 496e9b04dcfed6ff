"""Every file that `encamp new` writes is valid and can be planned; every other choice is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from encamp.errors import UsageError
from encamp.plan.job import plan_job
from encamp.plan.model import LocalPackage
from encamp.spec.encamp import GpuType, TpuVersion
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import examine_job
from encamp.spec.loading import parse_document
from encamp.spec.new_job import ACCELERATORS, FRAMEWORKS, Choices, new_job, render
from encamp.spec.training import ScaleTier

WORKERS = (0, 1, 2, 4)
PACKAGE = LocalPackage("trainer-0.0.0-py3-none-any.whl", "0" * 64, Path("trainer-0.0.0-py3-none-any.whl"))


@pytest.fixture(scope="module")
def environment() -> EnvironmentSpec:
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "sandbox-encamp-artifacts"}
    return parse_environment(data, project="sandbox-encamp", source="test")


def text_of(choices: Choices) -> str:
    return render(new_job(choices, file="job.yaml", schema="job.schema.json"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.slow
def test_the_whole_product_of_choices_is_planned_or_refused(framework: str, environment: EnvironmentSpec) -> None:
    planned = 0
    for tier, accelerator, workers in itertools.product([None, *ScaleTier], [None, *ACCELERATORS], WORKERS):
        choices = Choices(tier, accelerator, framework, workers)
        try:
            text = text_of(choices)
        except UsageError:
            continue
        job, problems, warnings = examine_job(parse_document(text.encode(), source="job.yaml"))
        assert (problems, warnings) == ([], []), choices
        plan = plan_job(job.model_copy(update={"job_id": "new"}), environment, packages=(PACKAGE,))
        assert sum(group.count for group in plan.groups) >= workers + 1
        assert text.startswith("# yaml-language-server: $schema=job.schema.json\n")
        planned += 1
    assert planned >= 3


def test_every_accelerator_can_be_had() -> None:
    for accelerator in ACCELERATORS:
        assert accelerator.value in text_of(Choices(accelerator=accelerator, framework="pytorch"))


@pytest.mark.parametrize(
    ("accelerator", "image"),
    [
        (GpuType.NVIDIA_L4, None),
        (GpuType.NVIDIA_H100_80GB, "tensorflow/tensorflow:2.19.0-gpu"),
        (TpuVersion.V5E, "python:3.11"),
    ],
)
def test_an_image_is_named_where_the_stock_image_does_not_run(
    accelerator: GpuType | TpuVersion, image: str | None
) -> None:
    job = new_job(Choices(accelerator=accelerator), file="job.yaml", schema="job.schema.json")
    assert job.image == image


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices(ScaleTier.BASIC, workers=2), "BASIC comes with machines of its own"),
        (Choices(accelerator=ACCELERATORS[0], framework="scikit-learn"), "CPUs of one machine"),
        (Choices(accelerator=TpuVersion.V5E, framework="xgboost"), "XGBoost runs on no TPU"),
        (Choices(ScaleTier.BASIC_TPU), "have no TPU support"),
        (Choices(workers=-1), "-1 workers"),
        (Choices(accelerator=GpuType.NVIDIA_B200), "TensorFlow is not built for NVIDIA_B200"),
        (Choices(accelerator=TpuVersion.V6E), "TensorFlow is not built for v6e"),
        (Choices(accelerator=ACCELERATORS[-1], framework="pytorch", workers=3), "no slice of TPU 7x has 3 hosts"),
    ],
    ids=str,
)
def test_choices_that_do_not_go_together_are_refused(choices: Choices, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        text_of(choices)
    assert raised.value.hint


def test_comments_explain_what_stands_there() -> None:
    lines = text_of(Choices()).splitlines()
    fields = [index for index, line in enumerate(lines) if line.startswith("  ") and line[2] not in " #"]
    explained = [index for index in fields if "#" in lines[index - 1] or lines[index - 1].strip()]
    assert len(explained) == len(fields)


@pytest.mark.parametrize(
    ("accelerator", "provisioning"),
    [
        (GpuType.NVIDIA_L4, None),
        (GpuType.NVIDIA_H100_80GB, "SPOT"),
        (GpuType.NVIDIA_H200_141GB, "SPOT"),
        (GpuType.NVIDIA_GB200, "RESERVATION"),
        (TpuVersion.V5E, None),
    ],
)
def test_machines_that_are_not_given_on_demand_come_with_another_way(
    accelerator: GpuType | TpuVersion, provisioning: str | None
) -> None:
    choices = Choices(accelerator=accelerator, framework="pytorch")
    assert new_job(choices, file="job.yaml", schema="job.schema.json").provisioning == provisioning
