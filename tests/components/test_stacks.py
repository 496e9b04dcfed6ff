"""The resources of each committed stack: tokens, names and inputs are state identity, so a golden holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pytest
import yaml
from recording import Recorder, record

from encamp.components.environment import Environment
from encamp.components.training_job import TrainingJob
from encamp.plan.environment import plan_environment
from encamp.plan.job import plan_job
from encamp.plan.model import DEADLINE_LABEL
from encamp.plan.package_files import local_package
from encamp.spec.environment import load_environment
from encamp.spec.job_stack import read_job_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.plan.model import JobPlan

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden"
DEADLINE = "1800000000"
ANSWERS = {
    "gcp:container/cluster:Cluster": {"endpoint": "10.0.0.2", "masterAuth": {"clusterCaCertificate": "Q0E="}},
    "gcp:serviceaccount/account:Account": {"email": "job@sandbox-encamp.iam.gserviceaccount.com"},
}


def committed(stack: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    return config


def environment_resources(stack: str) -> Mapping[str, Any]:
    def declare() -> None:
        plan = plan_environment(load_environment(stack, REPOSITORY))
        for name, value in Environment(plan.name, plan).outputs.items():
            pulumi.export(name, value)

    return record(declare, Recorder(answers=ANSWERS)).resources


def planned_job(stack: str) -> JobPlan:
    config = committed(stack)
    found = read_job_stack(config["encamp:job"], repository=REPOSITORY, stack=stack)
    environment = load_environment(config["encamp:environmentStack"], REPOSITORY)
    return plan_job(found.job, environment, package=local_package(found))


def job_resources(stack: str) -> Mapping[str, Any]:
    plan = planned_job(stack)

    def declare() -> None:
        TrainingJob(
            plan.name,
            plan,
            cluster="encamp",
            kubeconfig="{}",
            deadline=DEADLINE,
            package=Path("trainer.whl"),
        )

    return record(declare, Recorder(answers=ANSWERS)).resources


def check_golden(case: str, resources: Mapping[str, Any], *, rewrite: bool) -> None:
    file = GOLDEN / case / "resources.yaml"
    written = yaml.safe_dump(dict(resources), sort_keys=True, width=110, allow_unicode=True)
    if rewrite:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(written)
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(written)


def test_the_sandbox_environment(*, rewrite_goldens: bool) -> None:
    check_golden("stack-sandbox", environment_resources("sandbox"), rewrite=rewrite_goldens)


def test_the_digits_job(*, rewrite_goldens: bool) -> None:
    resources = dict(job_resources("digits"))
    # The scripts and the JobSet stand in the manifests' own golden.
    config_map = next(key for key in resources if key.startswith("kubernetes:core/v1:ConfigMap"))
    assert set(resources[config_map].pop("data")) == {"bootstrap.py", "bootstrap.json"}
    job_set = next(key for key in resources if "JobSet" in key)
    assert resources[job_set].pop("spec")["replicatedJobs"]
    package = next(key for key in resources if key.startswith("gcp:storage/bucketObject"))
    assert resources[package].pop("source").path == "trainer.whl"
    check_golden("stack-digits", resources, rewrite=rewrite_goldens)


def test_every_labelled_resource_of_a_job_says_whose_it_is_and_until_when() -> None:
    plan = planned_job("digits")
    expected = {**plan.labels, DEADLINE_LABEL: DEADLINE}
    labelled = {}
    for key, inputs in job_resources("digits").items():
        for labels in (
            inputs.get("labels"),
            inputs.get("nodeConfig", {}).get("resourceLabels"),
            inputs.get("metadata", {}).get("labels"),
        ):
            if labels is not None:
                labelled[key] = {name: labels.get(name) for name in expected}
    kinds = {key.partition(" ")[0] for key in labelled}
    assert kinds == {
        "gcp:storage/bucket:Bucket",
        "gcp:container/nodePool:NodePool",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
    }
    assert all(labels == expected for labels in labelled.values())


@pytest.mark.parametrize("path", sorted((REPOSITORY / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_every_stack_config_loads_and_plans(path: Path) -> None:
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    if "encamp:job" in committed(stack):
        assert planned_job(stack).node_pools
    else:
        assert plan_environment(load_environment(stack, REPOSITORY)).artifacts_bucket
