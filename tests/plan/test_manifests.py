"""What reaches a process is what the user wrote, by Kubernetes' own rules of expansion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plan.started import ARGUMENT, NASTY, expand, started

from encamp.errors import PlanError
from encamp.plan.manifests.job import render_manifests
from encamp.plan.manifests.words import escaped
from encamp.plan.rendering import to_json
from encamp.plan.tf_config import cluster_spec, tf_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan

    Plan = Callable[..., JobPlan]

IMAGE = {"imageUri": "gcr.io/p/i"}


@pytest.mark.parametrize("custom", [False, True])
def test_every_replica_reads_its_own_tf_config(plan_input: Plan, custom: bool) -> None:
    fields: dict[str, Any] = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "workerType": "n1-standard-4",
        "workerCount": 3,
        "parameterServerType": "n1-standard-4",
        "parameterServerCount": 2,
        "evaluatorType": "n1-standard-4",
        "evaluatorCount": 1,
        "args": ["--text=$(ENCAMP_REPLICA_INDEX) $$"],
    }
    plan = plan_input(**fields, **({"masterConfig": IMAGE} if custom else {}))
    job_set = render_manifests(plan).job_set
    for group in plan.groups:
        for index in range(group.count):
            words, variables = started(job_set, group.role.value, index)
            assert json.loads(variables["TF_CONFIG"]) == tf_config(plan, group, index)
            assert json.loads(variables["CLOUD_ML_JOB"]) == plan.training_input
            assert "--text=$(ENCAMP_REPLICA_INDEX) $$" in words
            assert ("CLUSTER_SPEC" in variables) == custom
            if custom:
                assert json.loads(variables["CLUSTER_SPEC"]) == cluster_spec(plan, group, index)


def test_cluster_spec_always_says_master(plan_input: Plan) -> None:
    plan = plan_input(masterConfig=IMAGE, useChiefInTfConfig=True)
    _, variables = started(render_manifests(plan).job_set, "master", 0)
    assert json.loads(variables["CLUSTER_SPEC"])["task"]["type"] == "master"
    assert isinstance(json.loads(variables["CLUSTER_SPEC"])["job"], dict)
    assert json.loads(variables["TF_CONFIG"])["task"]["type"] == "chief"
    assert isinstance(json.loads(variables["TF_CONFIG"])["job"], str)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(ARGUMENT | st.lists(NASTY, max_size=6).map("".join), max_size=6))
def test_arguments_arrive_byte_for_byte(plan_input: Plan, arguments: list[str]) -> None:
    plan = plan_input(args=arguments)
    words, variables = started(render_manifests(plan).job_set, "master", 0)
    assert words[words.index("-m") + 2 :] == arguments
    job = json.loads(json.loads(variables["TF_CONFIG"])["job"])
    assert job["args"] == arguments


@given(ARGUMENT | st.lists(NASTY, max_size=10).map("".join))
def test_escaping_is_undone_by_expansion(text: str) -> None:
    assert expand(escaped(text), {"X": "wrong"}) == text


@given(st.recursive(ARGUMENT | st.none() | st.booleans() | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_what_templates_write_is_read_back(value: Any) -> None:
    assert yaml.safe_load(f"a: {to_json(value)}\n") == {"a": value}


def test_a_cluster_too_large_for_one_variable_is_refused(plan_input: Plan) -> None:
    machines = {"masterType": "n1-standard-4", "workerType": "n1-standard-4"}
    plan = plan_input(scaleTier="CUSTOM", workerCount=4000, **machines)
    with pytest.raises(PlanError, match="bytes"):
        render_manifests(plan)


def test_the_job_set_ends_with_its_master_and_by_itself(plan_input: Plan) -> None:
    plan = plan_input(scaleTier="STANDARD_1", scheduling={"maxRunningTime": "60s"})
    spec = render_manifests(plan).job_set["spec"]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["master"]}
    assert spec["failurePolicy"]["maxRestarts"] == 3
    for group in spec["replicatedJobs"]:
        job = group["template"]["spec"]
        assert job["activeDeadlineSeconds"] == 3660
        assert job["template"]["spec"]["restartPolicy"] == "Never"
        assert job["template"]["spec"]["automountServiceAccountToken"] is False
        assert (job["backoffLimitPerIndex"], job["maxFailedIndexes"]) == (5, 0)


def codes(rules: list[dict[str, Any]], code: int) -> str:
    """What the pod failure policy does with an exit code."""
    for index, rule in enumerate(rules):
        if code in rule.get("onExitCodes", {}).get("values", []):
            return f"{rule['action']} {index}"
    return "Count"


@pytest.mark.parametrize(
    ("fields", "code", "action"),
    [
        ({}, 1, "FailJob 2"),
        ({}, 124, "FailJob 0"),
        ({}, 127, "FailJob 2"),
        ({}, 134, "FailJob 2"),
        ({}, 139, "FailJob 3"),
        ({}, 137, "Count"),
        ({}, 143, "Count"),
        ({"masterConfig": IMAGE}, 134, "FailJob 3"),
        ({"masterConfig": IMAGE}, 2, "FailJob 2"),
        ({"scheduling": {"resilientToWorkerRestart": True}}, 137, "FailJob 3"),
        ({"scheduling": {"resilientToWorkerRestart": True}}, 134, "FailJob 2"),
    ],
)
def test_exit_codes(plan_input: Plan, fields: dict[str, Any], code: int, action: str) -> None:
    spec = render_manifests(plan_input(**fields)).job_set["spec"]
    rules = spec["replicatedJobs"][0]["template"]["spec"]["podFailurePolicy"]["rules"]
    assert codes(rules, code) == action
    permanent = next(rule for rule in spec["failurePolicy"]["rules"] if rule["name"] == "permanent")
    assert permanent["onJobFailureMessagePatterns"] == [f"matching FailJob rule at index {index}$" for index in (0, 2)]


def test_accelerators_are_selected_and_tolerated(plan_input: Plan) -> None:
    gpu = render_manifests(plan_input(scaleTier="BASIC_GPU")).job_set
    pod = gpu["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["cloud.google.com/gke-accelerator"] == "nvidia-tesla-t4"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    assert pod["containers"][0]["resources"]["limits"] == {"memory": "24696Mi", "nvidia.com/gpu": "1"}
    tpu = render_manifests(plan_input(scaleTier="BASIC_TPU")).job_set
    pod = tpu["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2"
    assert pod["containers"][0]["resources"]["limits"]["google.com/tpu"] == "4"
