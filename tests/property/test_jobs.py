"""Any valid job file keeps the rules, plans, and renders to manifests that read back as the plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from encamp.plan.manifests.job import render_manifests

if TYPE_CHECKING:
    from tests.property.conftest import Property
    from tests.property.manifests import Replica

    from encamp.plan.model import JobPlan

#: Hundreds of jobs, whole.
pytestmark = pytest.mark.slow

CONFIGS = {
    "master": "masterConfig",
    "worker": "workerConfig",
    "ps": "parameterServerConfig",
    "evaluator": "evaluatorConfig",
}
THOROUGH = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@THOROUGH
@given(st.data())
def test_any_job_keeps_the_rules_plans_and_renders_to_what_its_plan_and_its_file_say(
    properties: Property, data: st.DataObject
) -> None:
    check(properties, data.draw(properties.jobs))


def test_a_job_with_rdma_renders_to_what_its_plan_and_its_file_say(properties: Property) -> None:
    """Rarely drawn: several machines of one role with network cards for RDMA, and stock images in it."""
    machines = {"master": {"machineType": "a2-highgpu-1g"}, "parameterServer": {"machineType": "a3-ultragpu-8g"}}
    given_input = {
        "region": "us-central1",
        "scaleTier": "CUSTOM",
        "parameterServerCount": 2,
        "masterConfig": {"imageUri": "gcr.io/p/trainer:1"},
        "pythonModule": "trainer.task",
    }
    check(properties, {"jobId": "A", "trainingInput": given_input, "encamp": {"machines": machines}})


def check(properties: Property, written: dict[str, Any]) -> None:
    """Assert that a job's manifests read back as its plan, and that its replicas are told what its file says."""
    plan = properties.plan(written)
    manifests = render_manifests(plan)
    text = manifests.to_yaml()
    assert list(properties.load(text)) == list(manifests)
    found = properties.read(text)
    assert found == properties.meant(plan)
    for group in found.groups:
        for replica in group.replicas:
            assert_told(replica, written["trainingInput"], group.role, plan)


def assert_told(replica: Replica, given_input: dict[str, Any], role: str, plan: JobPlan) -> None:
    """What the file says reaches the process to the letter."""
    command, args = replica.words
    job = replica.environment["CLOUD_ML_JOB"]
    assert job == json.loads(replica.environment["TF_CONFIG"]["job"])
    assert all(replica.environment["TF_CONFIG"]["cluster"].values()), "a role without replicas"
    assert job.get("job_dir") == plan.storage.job_dir
    assert {name: value for name, value in job.items() if name != "job_dir"} == snake_case(
        {name: value for name, value in given_input.items() if name != "jobDir"}
    )
    last = told_words(given_input, role, plan)
    assert (args or [])[len(args or []) - len(last) :] == last
    own = given_input.get(CONFIGS[role], {}).get("containerCommand")
    assert not own or command == own


def told_words(given_input: dict[str, Any], role: str, plan: JobPlan) -> list[str]:
    """The last words of a replica's process, by the file."""
    config = given_input.get(CONFIGS[role], {})
    if config.get("containerCommand") or config.get("containerArgs"):
        return list(config.get("containerArgs") or [])
    words = given_input.get("args") or []
    return [*words, *(["--job-dir", plan.storage.job_dir] if plan.storage.job_dir is not None else [])]


def snake_case(data: Any) -> Any:
    """The same data with the keys that TF_CONFIG's job has."""
    if isinstance(data, list):
        return [snake_case(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key): snake_case(value)
        for key, value in data.items()
    }
