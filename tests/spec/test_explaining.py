"""Fields and rules are found by whatever name somebody has for them."""

from __future__ import annotations

import pytest

from encamp.errors import UsageError
from encamp.spec.explaining import explained_field, explained_rule
from encamp.spec.field_docs import distinct_fields, job_fields
from encamp.spec.rules.registry import rules


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("trainingInput.workerCount", "trainingInput.workerCount"),
        ("training_input.worker_count", "trainingInput.workerCount"),
        ("trainingInput.worker_count", "trainingInput.workerCount"),
        ("worker_count", "trainingInput.workerCount"),
        ("workerCount", "trainingInput.workerCount"),
        ("scheduling.maxWaitTime", "trainingInput.scheduling.maxWaitTime"),
        ("hyperparameters.params[0].minValue", "trainingInput.hyperparameters.params.minValue"),
        ("encamp.machines.worker.tpu", "encamp.machines.worker.tpu"),
        ("labels", "labels"),
        ("encamp", "encamp"),
        ("usd", "encamp.budget.usd"),
    ],
)
def test_a_field_is_found_by_its_name(name: str, path: str) -> None:
    assert explained_field(name).field.path == path


def test_every_field_is_found_by_its_path_in_both_spellings() -> None:
    for path, field in job_fields().items():
        assert explained_field(path).field == field
        assert explained_field(field.snake_path).field == field


def test_a_field_has_its_rules_default_and_source() -> None:
    found = explained_field("scheduling.maxRunningTime")
    assert [rule.id for rule in found.rules] == ["V13", "E08"]
    assert found.field.default == "604800s"
    assert "API's own reference" in found.source
    assert explained_field("encamp.budget").source == "encamp's own field"
    assert [each.path for each in explained_field("encamp.budget").below] == ["encamp.budget.usd"]


def test_a_name_of_several_fields_lists_them() -> None:
    with pytest.raises(UsageError, match="13 fields are called type") as raised:
        explained_field("type")
    assert "encamp.machines.master.gpu.type" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("workrCount", "workerCount"),
        ("sheduling.maxWaitTime", "trainingInput.scheduling.maxWaitTime"),
        ("encamp.machine", "encamp.machines"),
        ("WORKERCOUNT", "workerCount"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}\\?"):
        explained_field(name)


def test_what_is_like_nothing_is_refused_without_a_guess() -> None:
    with pytest.raises(UsageError, match="no field is called 'qqqqq'") as raised:
        explained_field("qqqqq")
    assert "did you mean" not in str(raised.value)


def test_rules_are_found_by_their_id() -> None:
    assert explained_rule("v07") == rules()["V07"]
    assert explained_rule("workerCount") is None
    with pytest.raises(UsageError, match="there is no rule E99"):
        explained_rule("E99")


def test_sections_with_the_same_fields_are_spelled_out_once() -> None:
    paths = {field.path: field for field in distinct_fields()}
    assert paths["trainingInput.workerConfig"].same_as == "trainingInput.masterConfig"
    assert "trainingInput.workerConfig.imageUri" not in paths
    assert "trainingInput.masterConfig.imageUri" in paths


REPLICA = "acceleratorConfig imageUri containerCommand containerArgs tpuTfVersion diskConfig"
FIELDS = {
    "": "jobId trainingInput labels encamp",
    "trainingInput": "scaleTier region packageUris pythonModule runtimeVersion pythonVersion args jobDir masterType "
    "workerType parameterServerType evaluatorType workerCount parameterServerCount evaluatorCount masterConfig "
    "workerConfig parameterServerConfig evaluatorConfig useChiefInTfConfig enableWebAccess serviceAccount network "
    "encryptionConfig scheduling hyperparameters nasJobSpec",
    "trainingInput.masterConfig": REPLICA,
    "trainingInput.evaluatorConfig": REPLICA,
    "trainingInput.workerConfig.acceleratorConfig": "type count",
    "trainingInput.workerConfig.diskConfig": "bootDiskType bootDiskSizeGb",
    "trainingInput.scheduling": "maxRunningTime maxWaitTime priority resilientToWorkerRestart strategy",
    "trainingInput.encryptionConfig": "kmsKeyName",
    "trainingInput.hyperparameters": "goal params maxTrials maxParallelTrials maxFailedTrials hyperparameterMetricTag "
    "algorithm enableTrialEarlyStopping resumePreviousJobId",
    "trainingInput.hyperparameters.params": "parameterName type minValue maxValue categoricalValues discreteValues "
    "scaleType",
}


@pytest.mark.parametrize("section", FIELDS, ids=str)
def test_every_field_that_ai_platform_took_is_there(section: str) -> None:
    there = {path.rpartition(".")[2] for path, field in job_fields().items() if field.parent == section}
    assert there == set(FIELDS[section].split())
