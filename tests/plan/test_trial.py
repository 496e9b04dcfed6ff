"""A trial is what its study's template becomes, and its JobSet and its plan say the same."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plan.started import ARGUMENT, NASTY, started

from encamp.errors import PlanError
from encamp.plan.job import plan_job
from encamp.plan.machines.quotas import quotas
from encamp.plan.manifests.job import LONGEST_STRING, render_manifests
from encamp.plan.manifests.words import RUN_MOUNT, VALUES_MARK
from encamp.plan.names import LARGEST_TRIAL
from encamp.plan.study import METRIC_FILE, StudyPlan
from encamp.plan.summary import job_summary
from encamp.plan.tf_config import cluster_spec, tf_config
from encamp.plan.trial import trial_job_set, trial_plan
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job
from encamp.spec.tuning import Algorithm, Goal

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan

    Plan = Callable[..., JobPlan]

STUDY: dict[str, Any] = {
    "params": [
        {"parameterName": "rate", "type": "DOUBLE", "minValue": 0.001, "maxValue": 1, "scaleType": "UNIT_LOG_SCALE"},
        {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
    ],
    "maxTrials": 6,
    "maxParallelTrials": 3,
    "hyperparameterMetricTag": "val $(X) accuracy",
}
CLUSTER: dict[str, Any] = {
    "scaleTier": "CUSTOM",
    "masterType": "n1-standard-4",
    "workerType": "n1-standard-4",
    "workerCount": 2,
    "parameterServerType": "n1-standard-4",
    "parameterServerCount": 1,
    "evaluatorType": "n1-standard-4",
    "evaluatorCount": 1,
}
IMAGE = {"imageUri": "gcr.io/p/i"}
TEXT = ARGUMENT | st.lists(NASTY, max_size=6).map("".join)


def template_of(plan: JobPlan) -> dict[str, Any]:
    study = render_manifests(plan).study
    assert study is not None
    data: dict[str, Any] = json.loads(study["data"]["trial.json"])
    return data


def job_set_of(plan: JobPlan, number: int, arguments: dict[str, str], **more: Any) -> dict[str, Any]:
    return trial_job_set(
        template_of(plan), number, arguments, owner_name=plan.name, owner_uid="u-1", seconds=90, **more
    )


def assert_same(job_set: dict[str, Any], planned: JobPlan) -> None:
    """Every replica of a JobSet is started as the plan says."""
    for group in planned.groups:
        for index in range(group.count):
            words, variables = started(job_set, group.role.value, index)
            planned_words = [*(group.command or ()), *(group.args or ())]
            assert words[len(words) - len(planned_words) :] == planned_words
            assert json.loads(variables["TF_CONFIG"]) == tf_config(planned, group, index)
            assert {name: variables[name] for name in group.env} == dict(group.env)
            assert ("CLUSTER_SPEC" in variables) == group.custom_container
            if group.custom_container:
                assert json.loads(variables["CLUSTER_SPEC"]) == cluster_spec(planned, group, index)


@pytest.mark.parametrize("image", [{}, {"masterConfig": IMAGE}], ids=["runtime", "image"])
@pytest.mark.parametrize("parent", [None, 4])
def test_a_trials_job_set_and_its_plan_say_the_same(
    plan_input: Plan, image: dict[str, Any], parent: int | None
) -> None:
    plan = plan_input(hyperparameters=STUDY, args=["--epochs=3"], jobDir="gs://bucket/out", **CLUSTER, **image)
    values = {"rate": "0.01", "kind": "adam"}
    planned = trial_plan(plan, 12, values, parent)
    assert_same(job_set_of(plan, 12, values, parent=parent), planned)
    config = tf_config(planned, planned.groups[1], 1)
    assert config["task"] == {"type": "worker", "index": 1, "trial": "12"}
    assert config["cluster"]["worker"][1] == f"{plan.name}-12-worker-0-1.{plan.name}-12:2222"
    assert planned.groups[0].env["CLOUD_ML_TRIAL_ID"] == "12"
    assert planned.groups[0].env["CLOUD_ML_HP_METRIC_TAG"] == "val $(X) accuracy"
    assert planned.groups[0].env.get("ENCAMP_PARENT_TRIAL_ID") == (None if parent is None else "4")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(st.lists(TEXT, max_size=4), st.lists(TEXT, min_size=1, max_size=3), TEXT.filter(bool), st.booleans())
def test_hostile_text_reaches_every_trial_as_it_is(
    plan_input: Plan, args: list[str], categories: list[str], tag: str, custom: bool
) -> None:
    parameter = {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": [*categories, VALUES_MARK]}
    study = {"params": [parameter], "hyperparameterMetricTag": tag}
    plan = plan_input(
        hyperparameters=study,
        args=[*args, VALUES_MARK, "\x01index\x01"],
        **({"masterConfig": IMAGE} if custom else {}),
    )
    for category in parameter["categoricalValues"]:
        values = {"kind": str(category)}
        assert_same(job_set_of(plan, 1, values), trial_plan(plan, 1, values))


@pytest.mark.parametrize(
    ("fields", "command", "args"),
    [
        ({"args": ["a"]}, ["python3.7", "-m", "trainer.task"], ["a", "--rate=1", "--job-dir", "gs://bucket/out"]),
        ({"masterConfig": IMAGE}, None, ["--rate=1", "--job-dir", "gs://bucket/out"]),
        ({"masterConfig": {**IMAGE, "containerCommand": ["run"]}}, ["run"], ["--rate=1"]),
        ({"masterConfig": {**IMAGE, "containerArgs": ["x"]}}, None, ["x", "--rate=1"]),
    ],
)
def test_values_come_after_the_users_words_and_before_the_job_dir(
    plan_input: Plan, fields: dict[str, Any], command: list[str] | None, args: list[str]
) -> None:
    plan = plan_input(hyperparameters=STUDY, jobDir="gs://bucket/out", **fields)
    (group,) = trial_plan(plan, 1, {"rate": "1"}).groups
    assert list(group.args or ()) == args
    if fields.get("masterConfig"):
        assert group.command == (None if command is None else tuple(command))
    assert_same(job_set_of(plan, 1, {"rate": "1"}), trial_plan(plan, 1, {"rate": "1"}))


def test_a_trial_belongs_to_its_study_and_ends_by_itself(plan_input: Plan) -> None:
    plan = plan_input(hyperparameters=STUDY, **CLUSTER)
    template = template_of(plan)
    before = json.dumps(template)
    found = trial_job_set(
        template, 7, {"rate": "1"}, owner_name=plan.name, owner_uid="u-1", seconds=-3, deadline="1700000000"
    )
    assert json.dumps(template) == before
    labels = {**plan.labels, "encamp-trial": "7", "encamp-deadline": "1700000000"}
    assert found["metadata"]["name"] == found["spec"]["network"]["subdomain"] == f"{plan.name}-7"
    assert found["metadata"]["labels"] == labels
    assert found["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": plan.name, "uid": "u-1", "blockOwnerDeletion": True}
    ]
    for group in found["spec"]["replicatedJobs"]:
        job = group["template"]
        assert job["spec"]["activeDeadlineSeconds"] == 1
        assert job["metadata"]["labels"] == {**labels, "encamp-role": group["name"]}
        assert job["spec"]["template"]["metadata"]["labels"] == {**labels, "encamp-role": group["name"]}


def test_the_study_object_holds_the_study(plan_input: Plan) -> None:
    plan = plan_input(hyperparameters=STUDY)
    study = render_manifests(plan).study
    assert study is not None
    assert study["metadata"]["name"] == plan.name
    assert StudyPlan.from_json(json.loads(study["data"]["study.json"])) == plan.study
    assert METRIC_FILE.startswith(f"{RUN_MOUNT}/")


def test_an_image_that_runs_as_it_is_leaves_its_metrics_as_its_last_message(plan_input: Plan) -> None:
    def path(plan: JobPlan) -> str:
        (group,) = render_manifests(plan).job_set["spec"]["replicatedJobs"]
        (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
        return str(container["terminationMessagePath"])

    assert path(plan_input(hyperparameters=STUDY, masterConfig=IMAGE)) == METRIC_FILE
    assert path(plan_input(hyperparameters=STUDY)) == path(plan_input(masterConfig=IMAGE)) != METRIC_FILE


@pytest.mark.parametrize(
    ("workers", "fields", "message"),
    [
        (1540, {}, None),
        (1560, {}, "a variable or argument of the master has 13[12][0-9]{3} bytes"),
        (
            1180,
            {"masterConfig": IMAGE, "args": ["x" * 30_000]},
            "would hold 10[0-9]{5} bytes; Kubernetes takes 1048576",
        ),
    ],
)
def test_what_no_trial_could_be_given_is_refused(
    plan_input: Plan, workers: int, fields: dict[str, Any], message: str | None
) -> None:
    study = STUDY | {"maxParallelTrials": 1}
    plan = plan_input(hyperparameters=study, **CLUSTER | {"workerCount": workers} | fields)
    if message is None:
        job_set = job_set_of(plan, LARGEST_TRIAL, {"rate": "1", "kind": "adam"})
        _, variables = started(job_set, "worker", workers - 1)
        assert max(map(len, variables.values())) < LONGEST_STRING
    else:
        with pytest.raises(PlanError, match=message):
            render_manifests(plan)


def test_the_template_says_nothing_of_when_it_was_made(plan_input: Plan) -> None:
    """Else every preview of a running study would show a change."""
    plan = plan_input(hyperparameters=STUDY, **CLUSTER)
    assert render_manifests(plan).study == render_manifests(plan).study
    assert "encamp-deadline" not in json.dumps(template_of(plan)["metadata"])


def test_trials_wait_in_the_queue_of_their_job(environment: EnvironmentSpec) -> None:
    queues = {"teams": {"research": {"quotas": [{"cpu": 400, "memoryGib": 2000}]}}}
    data = environment.model_dump(exclude_none=True, exclude_defaults=True) | {"queues": queues}
    place = parse_environment(data, project=environment.project, source="test")
    asked = {
        "jobId": "job",
        "trainingInput": {"region": "us-central1", "masterConfig": IMAGE, "hyperparameters": STUDY},
        "encamp": {"queue": "research"},
    }
    plan = plan_job(parse_job(asked, source="test").job, place)
    labels = job_set_of(plan, 2, {"rate": "1"})["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "research"


@pytest.mark.parametrize("secret", [False, True])
def test_the_summary_says_what_is_searched_for_unless_the_job_is_secret(plan_input: Plan, *, secret: bool) -> None:
    plan = plan_input(hyperparameters=STUDY)
    assert plan.study is not None
    found = StudyPlan.from_json(job_summary(plan, secret=secret).study or {})
    assert found == (replace(plan.study, metric="", parameters=()) if secret else plan.study)
    assert "study" not in job_summary(plan_input()).to_json()


def test_a_study_is_what_the_file_says(plan_input: Plan) -> None:
    parameters = [
        *STUDY["params"],
        {"parameterName": "units", "type": "INTEGER", "minValue": 1, "maxValue": 8, "scaleType": "NONE"},
        {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [8, 16], "minValue": 3},
        {"parameterName": "twice", "type": "CATEGORICAL", "categoricalValues": ["a", "b", "a"]},
    ]
    plan = plan_input(hyperparameters={"params": parameters, "maxTrials": 2, "maxParallelTrials": 9})
    study = plan.study
    assert study is not None
    assert (study.goal, study.metric, study.algorithm) == (
        Goal.MAXIMIZE,
        "training/hptuning/metric",
        Algorithm.ALGORITHM_UNSPECIFIED,
    )
    assert (study.max_trials, study.max_parallel_trials, study.max_failed_trials) == (2, 2, 0)
    assert [(one.name, one.low, one.high, one.values, one.scale.value) for one in study.parameters] == [
        ("rate", 0.001, 1.0, (), "UNIT_LOG_SCALE"),
        ("kind", None, None, ("adam", "sgd"), "UNIT_LINEAR_SCALE"),
        ("units", 1.0, 8.0, (), "UNIT_LINEAR_SCALE"),
        ("batch", None, None, (8.0, 16.0), "UNIT_LINEAR_SCALE"),
        ("twice", None, None, ("a", "b"), "UNIT_LINEAR_SCALE"),
    ]
    assert plan.cost is not None
    assert {pool.max_nodes for pool in plan.node_pools} == {part.count for part in plan.cost.parts} == {2}
    assert [need.amount for need in quotas(plan) if need.name == "INSTANCES"] == [2]
    again, other = plan_input(hyperparameters=STUDY).study, plan_input("other", hyperparameters=STUDY).study
    assert again is not None
    assert other is not None
    assert study.seed == again.seed != other.seed
