"""Each rule by its id: files that break that rule alone, and what `encamp validate` says of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from encamp.cli.validate import command
from encamp.spec import rules as rules_room
from encamp.spec.field_docs import job_fields
from encamp.spec.rules.registry import rules, rules_about

RUNTIME: dict[str, Any] = {
    "region": "us-central1",
    "runtimeVersion": "2.1",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/t.tar.gz"],
    "pythonModule": "trainer.task",
}
IMAGE: dict[str, Any] = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}
CUSTOM: dict[str, Any] = RUNTIME | {"scaleTier": "CUSTOM", "masterType": "n1-standard-8"}
UNTYPED: dict[str, Any] = RUNTIME | {"scaleTier": "CUSTOM"}
TPU_WORKER = CUSTOM | {"workerType": "cloud_tpu", "workerCount": 1}
GPU = CUSTOM | {"masterConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 1}}}
WEEK_AND_MORE = {"scheduling": {"maxRunningTime": "604801s"}}

Job = dict[str, Any]


def job(training_input: Job, **more: Any) -> Job:
    return {"trainingInput": training_input, **more}


def ours(training_input: Job, **block: Any) -> Job:
    return {"trainingInput": training_input, "encamp": block}


def tuned(*parameters: Job, **study: Any) -> Job:
    named = [{"parameterName": f"p{index}", **parameter} for index, parameter in enumerate(parameters)]
    return job(RUNTIME | {"hyperparameters": {"params": named, **study}})


def machines(training_input: Job = UNTYPED, **roles: Any) -> Job:
    names = {"parameter_server": "parameterServer"}
    return ours(training_input, machines={names.get(role, role): machine for role, machine in roles.items()})


DOUBLE = {"type": "DOUBLE", "minValue": 0, "maxValue": 1, "scaleType": "UNIT_LINEAR_SCALE"}
INTEGER = {"type": "INTEGER", "minValue": 1, "maxValue": 4, "scaleType": "UNIT_LINEAR_SCALE"}
L4 = {"gpu": {"type": "NVIDIA_L4"}}

CASES: dict[str, list[Job]] = {
    "V01": [job(RUNTIME, jobId="1a"), job(RUNTIME, jobId=7)],
    "V02": [job(UNTYPED), machines(UNTYPED | {"masterType": None}, master={"bootDisk": {"sizeGb": 50}})],
    "V03": [job(RUNTIME | {"workerCount": 1}), job(RUNTIME | {"masterConfig": {"acceleratorConfig": {}}})],
    "V04": [
        job(CUSTOM | {"workerCount": 2}),
        job(CUSTOM | {"evaluatorCount": -1}),
        job(CUSTOM | {"workerType": "n1-standard-4"}),
        machines(CUSTOM, worker={"machineType": "n1-standard-4"}),
    ],
    "V05": [
        job(CUSTOM | {"workerType": "standard", "workerCount": 1}),
        job(CUSTOM | {"masterType": "g2-standard-4"}),
        job(CUSTOM | {"masterType": "e2-standard-4"}),
    ],
    "V06": [
        job(GPU | {"masterType": "standard"}),
        machines(UNTYPED | {"masterConfig": GPU["masterConfig"]}, master=L4),
    ],
    "V07": [
        job(GPU | {"masterConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 3}}}),
        job(GPU | {"masterConfig": {"acceleratorConfig": {"type": "NVIDIA_L4", "count": 1}}}),
    ],
    "V08": [
        job(RUNTIME | {"runtimeVersion": "2.0"}),
        job(IMAGE | {"runtimeVersion": "2.1"}),
        job({key: value for key, value in RUNTIME.items() if key != "runtimeVersion"}),
        job(IMAGE | {"masterConfig": {"imageUri": "a b"}}),
    ],
    "V09": [job(RUNTIME | {"pythonVersion": "2.7"}), job(IMAGE | {"pythonVersion": "3.7"})],
    "V10": [
        job(RUNTIME | {"packageUris": []}),
        job(RUNTIME | {"packageUris": ["trainer.tar.gz"]}),
        job(RUNTIME | {"packageUris": [f"gs://packages/{index}.whl" for index in range(101)]}),
        job({key: value for key, value in RUNTIME.items() if key != "pythonModule"}),
    ],
    "V11": [job(IMAGE | {"args": ["x"], "workerConfig": {"containerArgs": ["y"]}})],
    "V12": [job(RUNTIME | {"masterConfig": {"containerCommand": ["sh"]}})],
    "V13": [
        job(RUNTIME | {"scheduling": {"maxRunningTime": 3600}}),
        job(RUNTIME | {"scheduling": {"maxWaitTime": "1799s"}}),
    ],
    "V14": [job(RUNTIME | {"scheduling": {"priority": 1001}})],
    "V15": [
        job(RUNTIME | {"network": "projects/p/global/networks/default"}),
        job(RUNTIME | {"network": "projects/1/global/networks/Default"}),
    ],
    "V16": [
        job(RUNTIME | {"encryptionConfig": {"kmsKeyName": "k"}}),
        job(
            RUNTIME | {"encryptionConfig": {"kmsKeyName": "projects/p/locations/us-east1/keyRings/r/cryptoKeys/k"}},
        ),
    ],
    "V17": [
        job(CUSTOM | {"masterConfig": {"tpuTfVersion": "2.1"}}),
        job(IMAGE | {"scaleTier": "BASIC_TPU"}),
        job(TPU_WORKER | IMAGE | {"runtimeVersion": None, "pythonVersion": None}),
    ],
    "V18": [job(TPU_WORKER | {"workerCount": 2}), job(CUSTOM | {"masterType": "cloud_tpu"})],
    "V19": [job(RUNTIME | {"jobDir": "gs://Bucket"}), job(RUNTIME | {"jobDir": "/data/out"})],
    "V20": [job(RUNTIME | {"serviceAccount": "me"})],
    "V21": [
        job(RUNTIME | {"hyperparameters": {}}),
        tuned(DOUBLE, hyperparameterMetricTag="global_step"),
        tuned(DOUBLE, resumePreviousJobId="../other"),
        tuned(DOUBLE, resumePreviousJobId="mine") | {"jobId": "mine"},
        tuned(DOUBLE | {"discreteValues": [1]}),
        tuned({"type": "CATEGORICAL", "categoricalValues": ["a"], "discreteValues": [1]}),
        tuned({"type": "DISCRETE", "discreteValues": [1, 2], "minValue": 0}),
        job(tuned(DOUBLE)["trainingInput"] | {"args": ["--p0=3"]}),
        job(tuned(DOUBLE)["trainingInput"] | {"args": ["--p0", "3"]}),
    ],
    "V22": [
        job(RUNTIME | {"region": "us-central1-a"}),
        job(RUNTIME | {"region": "us-south1"}),
        job(GPU | {"region": "us-west2"}),
    ],
    "V23": [job(RUNTIME, labels={"Team": "a"}), job(RUNTIME, labels={"team": "A"})],
    "H01": [
        tuned(DOUBLE, DOUBLE | {"parameterName": "p0"}),
        *(tuned(DOUBLE | {"parameterName": name}) for name in ("", "--rate", "a b", "a=b", "a\tb", "a\n", "p" * 129)),
        job(tuned(DOUBLE | {"parameterName": "job-dir"})["trainingInput"] | {"jobDir": "gs://abc/x"}),
        ours(tuned(DOUBLE | {"parameterName": "job_dir"})["trainingInput"], storage={"kind": "ENVIRONMENT"}),
    ],
    "H02": [tuned({}), tuned(DOUBLE | {"type": "FLOAT"})],
    "H03": [tuned({"type": "DOUBLE", "maxValue": 1, "scaleType": "UNIT_LINEAR_SCALE"})],
    "H04": [tuned(INTEGER | {"maxValue": 1.5}), tuned(INTEGER | {"maxValue": 2**54})],
    "H05": [tuned(DOUBLE | {"minValue": 2}), tuned(DOUBLE | {"minValue": -1e308, "maxValue": 1e308})],
    "H06": [
        tuned({"type": "CATEGORICAL"}),
        tuned({"type": "CATEGORICAL", "categoricalValues": ["a"], "maxValue": 1}),
        tuned({"type": "CATEGORICAL", "categoricalValues": ["a", "a"]}),
    ],
    "H07": [tuned({"type": "DISCRETE", "discreteValues": [2, 1]}), tuned({"type": "DISCRETE"})],
    "H08": [
        tuned(DOUBLE | {"scaleType": "UNIT_LOG_SCALE"}),
        tuned({"type": "DISCRETE", "discreteValues": [0, 1], "scaleType": "UNIT_LOG_SCALE"}),
    ],
    "H09": [
        tuned(DOUBLE, algorithm="GRID_SEARCH"),
        tuned(INTEGER, {"type": "DISCRETE", "discreteValues": [1, 2]}, algorithm="GRID_SEARCH", maxTrials=9),
    ],
    "H10": [tuned({"type": "INTEGER", "minValue": 1, "maxValue": 2})],
    "H11": [
        tuned(DOUBLE, maxTrials=0),
        tuned(DOUBLE, maxTrials=2**31),
        tuned(DOUBLE, maxParallelTrials=0),
        tuned(DOUBLE, maxFailedTrials="-1"),
        tuned(DOUBLE, maxTrials=2, maxParallelTrials=3),
    ],
    "E01": [ours(RUNTIME | {"jobDir": "gs://abc/x"}, storage={"kind": "ENVIRONMENT"})],
    "E02": [machines(RUNTIME, master={"machineType": "n1-standard-4"}), ours(CUSTOM, machines=["n1"])],
    "E03": [
        machines(master=L4 | {"tpu": {"version": "v5e", "topology": "1x1"}}),
        machines(master={"gpu": {}}),
        machines(master={"tpu": {"topology": "1x1"}}),
        machines(master={"gpu": {"type": "NVIDIA_L40"}}),
    ],
    "E04": [
        machines(master={"gpu": {"type": "NVIDIA_L4", "count": 3}}),
        machines(master={"gpu": {"type": "NVIDIA_H200_141GB"}}),
        machines(master={"gpu": {"type": "NVIDIA_L4", "count": 2}, "machineType": "g2-standard-48"}),
        machines(master={"gpu": {"type": "NVIDIA_TESLA_T4"}, "machineType": "n1-standard-64"}),
        machines(master=L4 | {"machineType": "e2-standard-4"}),
    ],
    "E05": [
        machines(master={"tpu": {"version": "v5e", "topology": "2x2x2"}}),
        machines(master={"tpu": {"version": "v5e", "chips": 3}}),
        machines(master={"tpu": {"version": "v5e", "chips": 4, "topology": "2x2"}}),
        machines(master={"tpu": {"version": "v5e"}}),
        machines(master={"machineType": "ct5lp-hightpu-4t"}),
        machines(master={"machineType": "ct6e-standard-4t", "tpu": {"version": "v5e", "topology": "2x2"}}),
    ],
    "E06": [
        machines(master={"tpu": {"version": "v5e", "topology": "4x4"}}),
        machines(CUSTOM | {"workerCount": 2}, worker={"tpu": {"version": "v5e", "topology": "4x4"}}),
        machines(CUSTOM, worker={"tpu": {"version": "v5e", "topology": "1x1"}}),
        machines(CUSTOM | {"evaluatorCount": 1}, evaluator={"tpu": {"version": "v5e", "topology": "1x1"}}),
        machines(CUSTOM | {"parameterServerCount": 1}, parameter_server={"tpu": {"version": "v5e", "topology": "1x1"}}),
    ],
    "E07": [
        ours(GPU, provisioning="RESERVATION"),
        ours(GPU, reservation="mine"),
        ours(GPU, provisioning="RESERVATION", reservation="projects/p/mine"),
        ours(RUNTIME, provisioning="FLEX_START"),
        ours(GPU | {"scheduling": {"strategy": "LOW_COST"}}, provisioning="QUEUED"),
        ours(GPU, provisioning="SPOTTY"),
    ],
    "E08": [
        ours(GPU | WEEK_AND_MORE, provisioning="FLEX_START"),
        ours(GPU | WEEK_AND_MORE, provisioning="QUEUED"),
    ],
    "E09": [ours(RUNTIME, budget={"usd": 0}), ours(RUNTIME, budget={}), ours(RUNTIME, budget={"usd": "25"})],
    "E10": [ours(RUNTIME, retention={"resultsDays": 0}), ours(RUNTIME, retention={})],
    "E11": [
        ours(RUNTIME, storage={}),
        ours(RUNTIME, storage={"kind": "GIVEN_BUCKET"}),
        ours(RUNTIME, storage={"kind": "OWN_BUCKET", "bucket": "abc"}),
        ours(RUNTIME, storage={"kind": "ENVIRONMENT", "prefix": "abc"}),
        ours(RUNTIME, storage={"kind": "GIVEN_BUCKET", "bucket": "gs://abc"}),
        ours(RUNTIME, storage={"kind": "GIVEN_BUCKET", "bucket": "abc", "prefix": "/a"}),
        ours(RUNTIME, storage={"kind": "GIVEN_BUCKET", "bucket": "abc", "prefix": "a/../b"}),
        ours(RUNTIME, storage={"kind": "GIVEN_BUCKET", "bucket": "abc", "prefix": "ü" * 257}),
        ours(RUNTIME, storage="OWN_BUCKET"),
    ],
    "E12": [
        ours(RUNTIME, packagePath="../trainer"),
        ours(RUNTIME, packagePath="my-trainer"),
        ours(RUNTIME, packages=["/a.whl"]),
        ours(RUNTIME, packages=["a.tar"]),
        ours(RUNTIME, packages=["a.whl", "b/a.whl"]),
        ours(RUNTIME, packages=["t.tar.gz"]),
        ours(RUNTIME, stagingBucket="gs://Bucket"),
    ],
    "E13": [ours(RUNTIME, requirements=[text]) for text in ("-r all.txt", "--index-url=x", "a b", "a\nb", "", "a>>1")],
    "E14": [
        ours(RUNTIME | {"serviceAccount": "123"}, identity={"mode": "DIRECT"}),
        ours(RUNTIME, identity={"mode": "direct"}),
    ],
    "E16": [ours(RUNTIME, queue="Research"), ours(RUNTIME, queue=""), ours(RUNTIME, priority="100")],
    "E15": [
        machines(master={"machineType": "n1-standart-4"}),
        machines(master={"machineType": "a4-highgpu-8g", "bootDisk": {"type": "pd-ssd"}}),
        machines(master={"gpu": {"type": "NVIDIA_L4"}, "bootDisk": {"type": "pd-standard"}}),
        machines(master={"machineType": "n1-standard-4", "bootDisk": {"sizeGb": 5}}),
        machines(UNTYPED | {"masterConfig": {"diskConfig": {"bootDiskType": "pd-standard"}}}, master=L4),
    ],
    "E17": [
        ours(RUNTIME, expectedTime="1h"),
        ours(RUNTIME, expectedTime="0s"),
        ours(RUNTIME | {"scheduling": {"maxRunningTime": "3600s"}}, expectedTime="3601s"),
    ],
    "E20": [
        ours(RUNTIME, mounts=[{}]),
        ours(RUNTIME, mounts=["gs://abc"]),
        ours(RUNTIME, mounts=[{"bucket": "gs://abc/data"}]),
        ours(RUNTIME, mounts=[{"bucket": "abc", "prefix": "a//b"}]),
        ours(RUNTIME, mounts=[{"bucket": "abc", "prefix": ""}]),
        ours(RUNTIME, mounts=[{"bucket": "abc", "prefix": "a:b"}]),
        ours(RUNTIME, mounts=[{"bucket": "abc"}, {"bucket": "abc", "prefix": "a"}]),
        ours(RUNTIME, mounts=[{"jobDir": True}]),
        ours(RUNTIME | {"jobDir": "gs://abc/x"}, mounts=[{"jobDir": True, "bucket": "abc"}]),
        ours(RUNTIME | {"jobDir": "gs://abc/x"}, mounts=[{"jobDir": True, "write": True}]),
        ours(RUNTIME, mounts=[{"bucket": "abc", "options": ["only-dir=a"]}]),
        ours(RUNTIME, mounts=[{"bucket": "abc", "options": ["uid=1,gid=1"]}]),
    ],
    "E21": [ours(RUNTIME, zone="us-central1"), ours(RUNTIME, zone="europe-west4-a")],
    "E22": [ours(GPU, placement="COMPACT", provisioning="QUEUED"), ours(GPU, placement="compact")],
    "E24": [
        ours(RUNTIME, egress=["10.4.0.0"] * 2),
        ours(RUNTIME, egress=["10.4.0.1/16"]),
        ours(RUNTIME, egress=["db.example.com"]),
        ours(RUNTIME, egress=["fd00::/8"]),
        ours(RUNTIME, egress=[f"10.0.{number}.0/24" for number in range(21)]),
    ],
    "E25": [
        ours(RUNTIME, notices=[{}]),
        ours(RUNTIME, notices=[{"target": "https://hooks.example.com/services/T0/B0/token"}]),
        ours(RUNTIME, notices=[{"target": "Team"}]),
        ours(RUNTIME, notices=[{"target": "team"}, {"target": "team", "states": ["FAILED"]}]),
        ours(RUNTIME, notices=[{"target": "team", "states": []}]),
        ours(RUNTIME, notices=[{"target": f"team-{number}"} for number in range(11)]),
    ],
    "E30": [
        job(RUNTIME | {"args": ["x" * 65_536]}),
        job(RUNTIME | {"args": ["é"] * 22_000}),
        job(IMAGE | {"masterConfig": IMAGE["masterConfig"] | {"containerArgs": ["x" * 999] * 66}}),
    ],
    "E23": [ours(GPU | tuned(DOUBLE)["trainingInput"], provisioning="QUEUED")],
}

KEPT: list[Job] = [
    job(RUNTIME | {"args": ["x" * 65_535]}),
    tuned(DOUBLE, INTEGER, {"type": "CATEGORICAL", "categoricalValues": [""]}, maxTrials="9", maxParallelTrials=9),
    tuned(INTEGER, {"type": "DISCRETE", "discreteValues": [1, 2]}, algorithm="GRID_SEARCH", maxTrials=8),
    tuned({"type": "DISCRETE", "discreteValues": [0.5, 1], "scaleType": "UNIT_LOG_SCALE"}, algorithm="GRID_SEARCH"),
    tuned(*(INTEGER | {"parameterName": name} for name in ("job-dir", "first-layer.units", "größe", "a:b", 'x"<'))),
    job(tuned(DOUBLE, resumePreviousJobId="earlier_1")["trainingInput"] | {"args": ["p0", "-p0", "--p00=1"]}),
    ours(RUNTIME, queue="research", priority="high"),
    ours(RUNTIME, egress=["10.4.0.0/16", "10.5.0.7/32"]),
    ours(RUNTIME, notices=[{"target": "team-chat"}, {"target": "a", "states": ["FAILED", "CANCELLED"]}]),
    ours(RUNTIME | {"scheduling": {"maxRunningTime": "3600s"}}, expectedTime="3600s"),
    machines(master=L4),
    machines(master={"gpu": {"type": "NVIDIA_TESLA_T4", "count": 4}, "machineType": "n1-standard-96"}),
    machines(master={"tpu": {"version": "v6e", "topology": "2x4"}, "machineType": "ct6e-standard-8t"}),
    machines(CUSTOM | {"workerCount": 4}, worker={"tpu": {"version": "v5e", "chips": "16"}}),
    machines(CUSTOM | {"workerCount": "2"}, worker={"tpu": {"version": "7x", "topology": "2x2x2"}}),
    machines(UNTYPED | {"workerCount": 1}, master=L4, worker={"machineType": "a2-highgpu-8g"}),
    machines(UNTYPED | {"region": "us-central2"}, master={"tpu": {"version": "v4", "topology": "2x2x1"}}),
    ours(GPU, provisioning="RESERVATION", reservation="mine"),
    ours(CUSTOM | {"masterType": "standard_gpu"}, provisioning="QUEUED"),
    ours(RUNTIME | {"scaleTier": "BASIC_GPU"}, provisioning="FLEX_START"),
    ours(RUNTIME | {"scheduling": {"strategy": "LOW_COST"}}, provisioning="SPOT"),
    ours(GPU | {"scheduling": {"maxRunningTime": "604800s"}}, provisioning="FLEX_START"),
    ours(RUNTIME, storage={"kind": "GIVEN_BUCKET", "bucket": "abc", "prefix": "a/b"}, budget={"usd": 0.5}),
    ours({key: value for key, value in RUNTIME.items() if key != "packageUris"}, packages=["dist/a-1.whl"]),
    ours(RUNTIME, requirements=["pandas[excel]>=2,<3; python_version>'3.7'", "a @ https://example.com/a.whl"]),
    ours(RUNTIME | {"serviceAccount": "123"}, identity={"mode": "SERVICE_ACCOUNT"}, retention={"resultsDays": "1"}),
    ours(GPU, placement="COMPACT", zone="us-central1-b", runAs="NON_ROOT"),
    ours(
        RUNTIME,
        storage={"kind": "OWN_BUCKET"},
        mounts=[
            {"jobDir": True},
            {"bucket": "abc", "prefix": "a/b", "write": True, "options": ["metadata-cache:ttl-secs:-1"]},
        ],
    ),
]


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return value


def said(given: Job, tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(without_none(given), allow_unicode=True), encoding="utf-8")
    return CliRunner().invoke(command, [str(file)], catch_exceptions=False).output


@pytest.mark.parametrize(
    ("rule", "given"),
    [(rule, given) for rule, cases in CASES.items() for given in cases],
    ids=[f"{rule}-{index}" for rule, cases in CASES.items() for index in range(len(cases))],
)
def test_a_file_that_breaks_one_rule_is_told_its_id(rule: str, given: Job, tmp_path: Path) -> None:
    output = said(given, tmp_path)
    assert set(re.findall(r"(?:error|warning) \[(\w+)\]", output)) == {rule}
    assert not re.search(r"(error|warning) (?!\[)", output)


@pytest.mark.parametrize("given", KEPT, ids=str)
def test_what_the_rules_allow_is_valid(given: Job, tmp_path: Path) -> None:
    output = said(given, tmp_path)
    assert "error" not in output
    assert re.search(r": valid(, \d+ warnings?)?$", output.strip())


def test_every_rule_of_the_registry_is_tested() -> None:
    assert set(CASES) == set(rules())


def test_the_registry_has_every_rule_of_the_code() -> None:
    room = Path(rules_room.__file__).parent
    sources = [*room.glob("*.py"), room.parent / "reading.py"]
    in_code = {found for path in sources for found in re.findall(r'"([VHE]\d\d)"', path.read_text(encoding="utf-8"))}
    assert in_code == set(rules())


def test_the_registry_is_about_fields_that_there_are() -> None:
    for rule in rules().values():
        assert rule.sentence.endswith(".")
        for pattern in rule.fields:
            about = [path for path in job_fields() if type(rule)(rule.id, "", (pattern,), "").is_about(path)]
            assert about, f"{rule.id}: {pattern}"


def test_rules_of_a_field() -> None:
    assert [rule.id for rule in rules_about("trainingInput.evaluatorConfig.acceleratorConfig.count")] == ["V07"]
    assert [rule.id for rule in rules_about("encamp.storage")] == ["E01", "E11"]


def test_nothing_that_is_wrong_hides_something_else(tmp_path: Path) -> None:
    everything = {
        "trainingInput": UNTYPED | {"scheduling": {"maxRunningTime": "700000s"}, "jobDir": "gs://abc"},
        "encamp": {
            "machines": {"master": {"gpu": {"type": "NVIDIA_L4", "count": 3}}, "worker": {"machineType": "x"}},
            "provisioning": "QUEUED",
            "reservation": "R",
            "budget": {"usd": -1},
            "retention": {"resultsDays": 0},
            "requirements": ["-r x"],
            "packages": ["x"],
            "identity": {"mode": "DIRECTLY"},
            "storage": {"kind": "OWN_BUCKET", "bucket": "b"},
        },
    }
    found = re.findall(r"error \[(\w+)\]", said(everything, tmp_path))
    assert set(found) == {"E01", "E04", "E07", "E08", "E09", "E10", "E11", "E12", "E13", "E14", "E15"}
