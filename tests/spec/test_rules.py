"""Every rule by its id: a job that keeps it, and one that breaks it in exactly one place."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.spec.job_file import examine_job
from encamp.spec.loading import Document

RUNTIME: dict[str, Any] = {
    "region": "us-central1",
    "runtimeVersion": "2.1",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/t.tar.gz"],
    "pythonModule": "trainer.task",
}
IMAGE: dict[str, Any] = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}
CUSTOM: dict[str, Any] = RUNTIME | {"scaleTier": "CUSTOM", "masterType": "n1-standard-8"}
TPU = CUSTOM | {"workerType": "cloud_tpu", "workerCount": 1}


def accelerated(machine: str, kind: str | None, count: int | None) -> dict[str, Any]:
    config = {key: value for key, value in (("type", kind), ("count", count)) if value is not None}
    return CUSTOM | {"masterType": machine, "masterConfig": {"acceleratorConfig": config}}


def tuned(**parameter: Any) -> dict[str, Any]:
    return RUNTIME | {"hyperparameters": {"params": [{"parameterName": "p", **parameter}]}}


def found(training_input: dict[str, Any], **job: Any) -> set[tuple[str | None, str]]:
    document = Document("test", {"trainingInput": training_input, **job})
    return {(problem.rule, problem.path.removeprefix("trainingInput.")) for problem in examine_job(document)[1]}


KEPT = {
    "runtime": RUNTIME,
    "image alone": IMAGE,
    "image with every tier": IMAGE | {"scaleTier": "STANDARD_1"},
    "image with packages": IMAGE | {"packageUris": ["gs://a-b/c.whl"], "pythonModule": "m"},
    "counts of zero mean none": RUNTIME | {"workerCount": "0"},
    "legacy types": CUSTOM | {"masterType": "standard", "workerType": "standard_gpu", "workerCount": 3},
    "TPU worker with a legacy master": TPU | {"masterType": "large_model"},
    "TPU worker with Compute Engine": TPU | {"workerConfig": {"acceleratorConfig": {"type": "TPU_V3", "count": 8}}},
    "built-in GPUs need no config": CUSTOM | {"masterType": "a2-highgpu-8g"},
    "unverified family": CUSTOM | {"masterType": "e2-standard-4"},
    "priority bounds": RUNTIME | {"scheduling": {"priority": 1000}},
    "durations": RUNTIME | {"scheduling": {"maxRunningTime": "0.5s", "maxWaitTime": "1800.000000001s"}},
    "network": RUNTIME | {"network": "projects/123/global/networks/default"},
    "key": RUNTIME | {"encryptionConfig": {"kmsKeyName": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"}},
    "job dir is a bucket": RUNTIME | {"jobDir": "gs://abc"},
    "numeric account": RUNTIME | {"serviceAccount": "123456789012345678901"},
    "python 2": RUNTIME | {"runtimeVersion": "1.4", "pythonVersion": "2.7"},
    "log scale": tuned(type="DOUBLE", minValue=1e-5, maxValue=1, scaleType="UNIT_LOG_SCALE"),
    "equal bounds": tuned(type="INTEGER", minValue=2, maxValue=2, scaleType="UNIT_LINEAR_SCALE"),
    "discrete ignores bounds": tuned(type="DISCRETE", discreteValues=[1, 2.5], minValue=7),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_right_job_has_no_problem(case: str) -> None:
    assert found(KEPT[case]) == set()


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    (CUSTOM | {"masterType": None}, "V02", "masterType"),
    (RUNTIME | {"workerCount": 1}, "V03", "workerCount"),
    (RUNTIME | {"masterType": "n1-standard-4"}, "V03", "masterType"),
    (RUNTIME | {"scaleTier": "BASIC_GPU", "evaluatorType": "n1-standard-4"}, "V03", "evaluatorType"),
    (IMAGE | {"workerConfig": {"acceleratorConfig": {}}}, "V03", "workerConfig.acceleratorConfig"),
    (CUSTOM | {"workerCount": "2"}, "V04", "workerType"),
    (CUSTOM | {"parameterServerCount": 2}, "V04", "parameterServerType"),
    (CUSTOM | {"evaluatorCount": 1}, "V04", "evaluatorType"),
    (CUSTOM | {"workerCount": -5}, "V04", "workerCount"),
    (CUSTOM | {"workerType": "standard", "workerCount": 1}, "V05", "workerType"),
    (CUSTOM | {"masterType": "n1-standrad-4"}, "V05", "masterType"),
    (CUSTOM | {"masterType": "n1-standard-1"}, "V05", "masterType"),
    (accelerated("standard", "NVIDIA_TESLA_K80", 1), "V06", "masterConfig.acceleratorConfig"),
    (accelerated("n1-standard-16", "NVIDIA_TESLA_K80", 1), "V07", "masterConfig.acceleratorConfig.count"),
    (accelerated("n1-highmem-2", "NVIDIA_TESLA_T4", 3), "V07", "masterConfig.acceleratorConfig.count"),
    (accelerated("n1-standard-96", "NVIDIA_TESLA_K80", 8), "V07", "masterConfig.acceleratorConfig.type"),
    (accelerated("n1-standard-4", "TPU_V2", 8), "V07", "masterConfig.acceleratorConfig.type"),
    (accelerated("c2-standard-8", "NVIDIA_TESLA_T4", 1), "V07", "masterConfig.acceleratorConfig.type"),
    (accelerated("a2-highgpu-2g", "NVIDIA_TESLA_A100", 4), "V07", "masterConfig.acceleratorConfig.count"),
    (accelerated("n1-standard-4", None, 1), "V07", "masterConfig.acceleratorConfig.type"),
    (accelerated("n1-standard-4", "ACCELERATOR_TYPE_UNSPECIFIED", 1), "V07", "masterConfig.acceleratorConfig.type"),
    (RUNTIME | {"masterConfig": {"imageUri": "gcr.io/p/i"}}, "V08", "runtimeVersion"),
    (RUNTIME | {"runtimeVersion": None}, "V08", "runtimeVersion"),
    (RUNTIME | {"runtimeVersion": "2.0"}, "V08", "runtimeVersion"),
    (RUNTIME | {"pythonVersion": None}, "V09", "pythonVersion"),
    (RUNTIME | {"pythonVersion": "2.7"}, "V09", "pythonVersion"),
    (RUNTIME | {"runtimeVersion": "1.14"}, "V09", "pythonVersion"),
    (RUNTIME | {"packageUris": []}, "V10", "packageUris"),
    (RUNTIME | {"packageUris": ["gs://packages/a.whl"] * 101}, "V10", "packageUris"),
    (RUNTIME | {"packageUris": ["trainer.tar.gz"]}, "V10", "packageUris[0]"),
    (RUNTIME | {"pythonModule": None}, "V10", "pythonModule"),
    (RUNTIME | {"pythonModule": "a b"}, "V10", "pythonModule"),
    (
        IMAGE | {"args": ["x"], "workerConfig": {"containerArgs": ["y"]}},
        "V11",
        "workerConfig.containerArgs",
    ),
    (RUNTIME | {"workerConfig": {"containerCommand": ["y"]}}, "V12", "workerConfig.containerCommand"),
    (RUNTIME | {"scheduling": {"maxRunningTime": "1h"}}, "V13", "scheduling.maxRunningTime"),
    (RUNTIME | {"scheduling": {"maxRunningTime": "1.0000000001s"}}, "V13", "scheduling.maxRunningTime"),
    (RUNTIME | {"scheduling": {"maxWaitTime": "1799.9s"}}, "V13", "scheduling.maxWaitTime"),
    (RUNTIME | {"scheduling": {"priority": -1}}, "V14", "scheduling.priority"),
    (RUNTIME | {"network": "default"}, "V15", "network"),
    (RUNTIME | {"encryptionConfig": {}}, "V16", "encryptionConfig.kmsKeyName"),
    (
        RUNTIME | {"encryptionConfig": {"kmsKeyName": "projects/p/locations/us-east1/keyRings/r/cryptoKeys/k"}},
        "V16",
        "encryptionConfig.kmsKeyName",
    ),
    (CUSTOM | {"masterConfig": {"tpuTfVersion": "2.1"}}, "V17", "masterConfig.tpuTfVersion"),
    (TPU | {"workerCount": 2}, "V18", "workerCount"),
    (TPU | {"workerCount": None}, "V18", "workerCount"),
    (CUSTOM | {"evaluatorType": "cloud_tpu", "evaluatorCount": 1}, "V18", "evaluatorType"),
    (RUNTIME | {"jobDir": "gs://Bucket/x"}, "V19", "jobDir"),
    (RUNTIME | {"jobDir": "gs://ab"}, "V19", "jobDir"),
    (RUNTIME | {"jobDir": f"gs://abc/{'ü' * 513}"}, "V19", "jobDir"),
    (RUNTIME | {"serviceAccount": "a@b"}, "V20", "serviceAccount"),
    (RUNTIME | {"hyperparameters": {}}, "V21", "hyperparameters.params"),
    (RUNTIME | {"region": None}, "V22", "region"),
    (RUNTIME | {"region": "mars-north1"}, "V22", "region"),
    (tuned(), "H02", "hyperparameters.params[0].type"),
    (tuned(type="DOUBLE", maxValue=1), "H03", "hyperparameters.params[0].minValue"),
    (tuned(type="INTEGER", minValue=0, maxValue=1.5), "H04", "hyperparameters.params[0].maxValue"),
    (tuned(type="DOUBLE", minValue=2, maxValue=1), "H05", "hyperparameters.params[0].maxValue"),
    (tuned(type="CATEGORICAL"), "H06", "hyperparameters.params[0].categoricalValues"),
    (tuned(type="DISCRETE", discreteValues=list(range(1001))), "H07", "hyperparameters.params[0].discreteValues"),
    (tuned(type="DISCRETE", discreteValues=[2, 1]), "H07", "hyperparameters.params[0].discreteValues"),
    (
        tuned(type="INTEGER", minValue=0, maxValue=9, scaleType="UNIT_REVERSE_LOG_SCALE"),
        "H08",
        "hyperparameters.params[0].minValue",
    ),
]


@pytest.mark.parametrize(("training_input", "rule", "path"), BROKEN, ids=[f"{r}-{p}" for _, r, p in BROKEN])
def test_one_broken_rule_is_one_problem(training_input: dict[str, Any], rule: str, path: str) -> None:
    given = {key: value for key, value in training_input.items() if value is not None}
    assert found(given) == {(rule, path)}


@pytest.mark.parametrize("job_id", ["1a", "", "a-b", "ä", "a" * 129, "a b", "_a"])
def test_v01_refuses_ids(job_id: str) -> None:
    assert found(RUNTIME, jobId=job_id) == {("V01", "jobId")}


@pytest.mark.parametrize("job_id", ["a", "A_1", "a" * 128])
def test_v01_takes_ids(job_id: str) -> None:
    assert found(RUNTIME, jobId=job_id) == set()


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("team", "", True),
        ("größe_1-a", "ß-1", True),
        ("漢字", "字", True),
        ("a" * 63, "b" * 63, True),
        ("Team", "a", False),
        ("1a", "a", False),
        ("a" * 64, "a", False),
        ("a", "A", False),
        ("a", "b" * 64, False),
        ("a.b", "a", False),
        ("", "a", False),
    ],
)
def test_v23_labels(key: str, value: str, right: bool) -> None:
    assert found(RUNTIME, labels={key: value}) == (set() if right else {("V23", f"labels.{key}")})


def test_v23_counts_labels() -> None:
    assert found(RUNTIME, labels={f"k{index}": "v" for index in range(65)}) == {("V23", "labels")}


def test_every_rule_id_of_the_job_model_is_tested() -> None:
    tested = {rule for _, rule, _ in BROKEN} | {"V01", "V23", "H01", "H09", "H10", "H11"}
    assert tested == {f"V{number:02}" for number in range(1, 24)} | {f"H{number:02}" for number in range(1, 12)}


def test_h01_h09_h11_and_h10() -> None:
    double = {"parameterName": "a", "type": "DOUBLE", "minValue": 0, "maxValue": 1}
    study = {"params": [double, double], "algorithm": "GRID_SEARCH", "maxTrials": "0"}
    document = Document("test", {"trainingInput": RUNTIME | {"hyperparameters": study}})
    _, problems, warnings = examine_job(document)
    assert {problem.rule for problem in problems} == {"H01", "H09", "H11"}
    assert {warning.rule for warning in warnings} == {"H10"}
