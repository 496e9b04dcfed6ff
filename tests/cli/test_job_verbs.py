"""``encamp validate``, ``plan`` and ``manifests`` as a user calls them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.job_cases import invalid_files, job_case

from encamp.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "job.yaml"


@dataclass
class Ran:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def encamp(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """The command line in this process: words in, exit code and output out."""
    monkeypatch.delenv("ENCAMP_ENVIRONMENT", raising=False)

    def run(*words: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["encamp", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Ran(code, *capsys.readouterr())

    return run


def test_a_right_file_is_valid(encamp: Callable[..., Ran]) -> None:
    run = encamp("validate", DIGITS, "--format", "json")
    assert (run.returncode, json.loads(run.stdout)) == (0, {"valid": True, "problems": [], "warnings": []})


def test_every_problem_is_listed_with_its_keys(encamp: Callable[..., Ran], tmp_path: Path) -> None:
    run = encamp("validate", invalid_files()["machines"].write(tmp_path), "--format", "json")
    said = json.loads(run.stdout)
    assert (run.returncode, said["valid"]) == (2, False)
    assert {"V02", "V04", "V05"} == {problem["rule"] for problem in said["problems"]}
    assert all(list(problem) == ["rule", "path", "line", "message", "hint"] for problem in said["problems"])


def test_problems_are_lines_that_editors_find(encamp: Callable[..., Ran], tmp_path: Path) -> None:
    path = invalid_files()["scheduling"].write(tmp_path)
    run = encamp("validate", path)
    assert f"{path}:4: error [V13] trainingInput.scheduling.maxWaitTime: 60s is too short" in run.stdout
    assert run.returncode == 2


def test_substitutions_are_warnings(encamp: Callable[..., Ran], tmp_path: Path) -> None:
    run = encamp("validate", job_case("tier-basic-gpu").write(tmp_path), "--format", "json")
    (warning,) = json.loads(run.stdout)["warnings"]
    assert "NVIDIA_TESLA_K80" in warning["message"]
    assert "NVIDIA_TESLA_T4" in warning["message"]


@pytest.mark.parametrize("verb", ["validate", "plan", "manifests"])
@pytest.mark.parametrize("content", [b"", b"\0", b"[" * 100_000, b"a: !!python/name:os.system ''", b"- 1", b"\xff\xfe"])
def test_no_file_ends_in_a_traceback(encamp: Callable[..., Ran], tmp_path: Path, verb: str, content: bytes) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(content)
    run = encamp(verb, path)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert str(path) in run.stdout + run.stderr


def test_a_plan_in_json_is_its_document(encamp: Callable[..., Ran]) -> None:
    run = encamp("plan", DIGITS, "--format", "json", "--job-id", "mine")
    document = json.loads(run.stdout)
    assert (run.returncode, document["jobId"], len(document["replicas"])) == (0, "mine", 3)
    assert document["storage"]["jobDir"] == "gs://sandbox-encamp-artifacts/jobs/mine/output"


def test_a_plan_in_text_fits_a_terminal(encamp: Callable[..., Ran], tmp_path: Path) -> None:
    run = encamp("plan", job_case("custom-all-roles-snake-case").write(tmp_path))
    assert run.returncode == 0
    assert max(map(len, run.stdout.splitlines())) <= 120
    for word in ("Census_Wide_Deep_0042", "evaluator", "nvidia-tesla-v100", "7201 s", "1800 s"):
        assert word in run.stdout


def test_manifests_are_the_objects_of_the_job(encamp: Callable[..., Ran]) -> None:
    run = encamp("manifests", DIGITS)
    kinds = [each["kind"] for each in yaml.safe_load_all(run.stdout)]
    assert (run.returncode, kinds) == (0, ["ServiceAccount", "ConfigMap", "NetworkPolicy", "JobSet"])


def test_an_unknown_environment_is_named(encamp: Callable[..., Ran]) -> None:
    run = encamp("plan", DIGITS, "--environment", "moon")
    assert run.returncode == 2
    assert "moon" in run.stderr


def test_planning_starts_fast() -> None:
    slow = ("pulumi", "grpc", "lightkube", "tensorflow", "jinja2", "httpx", "rich")
    code = (
        "import sys; from encamp.cli.main import cli; "
        f"cli.main(['plan', {str(DIGITS)!r}], standalone_mode=False); "
        f"print([name for name in {slow!r} if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "infra")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.stdout.splitlines()[-1] == "[]"
    # CPU time, since a busy machine stretches the clock; 0.4 s with compiled modules, 0.6 s without.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5


def test_a_driver_in_the_cluster_is_told_its_jobs_id(encamp: Callable[..., Ran]) -> None:
    ran = encamp("drive", DIGITS)
    assert (ran.returncode, "every try would begin another job" in ran.stderr) == (2, True)
