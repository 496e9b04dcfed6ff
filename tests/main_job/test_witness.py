"""What a job file says arrives in the process byte for byte, and a replica that is killed comes back as itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

ARGUMENTS = [
    *("", " ", "-", "--", "-x", "--job=1", "\ttab\t", "line one\nline two\n", "\r\n", "ends with space "),
    *("'single' \"double\" `id` \\n \\", "$HOME ${HOME} $(HOME) $(id)", "$(ENCAMP_REPLICA_INDEX)", "$$(X) $$ $ $("),
    *("{{ plan }} {{ 7*7 }}", "{% raw %}{# no #}", "!!python/object:os.system {}", "key: value # no comment", "&a *a"),
    *("null", "yes", "0x1F", "1e3", "2020-01-01", "[1, 2]", '{"a": 1}', "%s %d {0}", "*?[a-z]", "~", "<&amp;>"),
    *("😀 ü 漢字", "\u202eright to left\u200f", "\x85\u2028\u2029\ufeff", "\x01\x1b[31m\x7f", "e\u0301 \u00e9"),
    *("long " + "ab$(X)'\"\n" * 455, "€" * 1366),
]
FOLDER = "jobs/witness/output/odd/$(X) ${HOME} 'q' \"d\" {{ x }} {% y %} `id` #?%20&+ \\ 漢字 😀/out"
KEY = "projects/p/locations/us-central1/keyRings/'$(X)\"{{y}}/cryptoKeys/😀"


@pytest.fixture(scope="module")
def told(shared_camp: Camp, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What each start of each replica wrote, by its name and the number of the start; and the file's own words."""
    folder = tmp_path_factory.mktemp("witness")
    shutil.copytree(Path(__file__).with_name("witness"), folder, dirs_exist_ok=True)
    job = {
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "region": "us-central1",
            "masterType": "n1-standard-4",
            "workerType": "n1-standard-4",
            "workerCount": "2",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "pythonModule": "trainer.task",
            "args": ARGUMENTS,
            "encryptionConfig": {"kmsKeyName": KEY},
            "jobDir": f"gs://sandbox-encamp-artifacts/{FOLDER}",
        },
        "encamp": {"packagePath": "trainer"},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job, default_style='"'))
    said = shared_camp.encamp("run", str(folder / "job.yaml"), "--job-id", "witness")
    assert "the job is SUCCEEDED" in said
    with pytest.MonkeyPatch.context() as patch:
        shared_camp.enter(patch)
        storage = shared_camp.storage()
        found = {}
        for name in ("chief-0-0", "worker-0-0", "worker-1-0", "worker-1-1"):
            content = storage.read("sandbox-encamp-artifacts", f"{FOLDER}/{name}.json")
            assert content is not None, name
            found[name] = json.loads(content)
    return found


def test_arguments_arrive_byte_for_byte(told: dict[str, dict[str, Any]]) -> None:
    for name, given in told.items():
        assert given["argv"] == [*ARGUMENTS, "--job-dir", f"gs://sandbox-encamp-artifacts/{FOLDER}"], name


def test_the_job_in_the_environment_is_the_files(told: dict[str, dict[str, Any]]) -> None:
    for given in told.values():
        job = json.loads(given["environ"]["CLOUD_ML_JOB"])
        assert job["args"] == ARGUMENTS
        assert job["job_dir"] == f"gs://sandbox-encamp-artifacts/{FOLDER}"
        assert job["encryption_config"] == {"kms_key_name": KEY}
        assert json.loads(json.loads(given["environ"]["TF_CONFIG"])["job"]) == job


def test_a_killed_replica_comes_back_as_itself(told: dict[str, dict[str, Any]]) -> None:
    before, after = told["worker-1-0"], told["worker-1-1"]
    assert json.loads(before["environ"]["TF_CONFIG"]) == json.loads(after["environ"]["TF_CONFIG"])
    assert json.loads(after["environ"]["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert before["host"] == after["host"]
    cluster = json.loads(after["environ"]["TF_CONFIG"])["cluster"]["worker"]
    assert cluster[1].startswith(f"{after['host']}.")


def test_nothing_is_left(told: dict[str, dict[str, Any]], camp: Camp) -> None:
    assert told
    assert camp.receipt("witness")["outcome"]["state"] == "SUCCEEDED"
    camp.assert_nothing_left("witness")
