"""What of a job's record can be run again, and what is refused."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import UsageError
from encamp.redaction import redacted_data
from encamp.run.history.rerun import new_job_id, recorded_job
from encamp.run.results.source import source_of
from encamp.run.store.intent import Intent

if TYPE_CHECKING:
    from pathlib import Path

JOB: dict[str, Any] = {
    "jobId": "digits_1",
    "trainingInput": {"region": "us-central1", "pythonModule": "trainer.task", "args": ["--epochs=3"]},
    "encamp": {"packagePath": "trainer", "packages": ["more.whl"]},
}


def intent(job: dict[str, Any] | None, source: dict[str, Any] | None = None) -> Intent:
    return Intent(
        job_id="digits_1", name="digits-1", environment="e", stack="s", folder="", project="p", cluster="c",
        namespace="n", artifacts_bucket="b", prefix="jobs/digits_1/", labels={}, deadline=4e9,
        max_running_seconds=60, max_wait_seconds=None, replicas=(), machines={}, job=job, source=source,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "task.py").write_text("print(1)\n")
    (tmp_path / "more.whl").touch()
    return tmp_path


def test_a_recorded_job_is_the_same(folder: Path) -> None:
    found = recorded_job(intent(JOB), folder)
    assert (found.data, found.changed) == (JOB, "")


def test_a_record_that_does_not_hold_enough_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not hold this job's file"):
        recorded_job(intent(None), folder)
    secret = {**JOB, "trainingInput": {"args": ["a", "https://x/?token=abcdefgh"]}}
    with pytest.raises(UsageError, match=r"leaves out the secret in trainingInput\.args\[1\]"):
        recorded_job(intent(redacted_data(secret)), folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="its package trainer is not in") as refused:
        recorded_job(intent(JOB), empty)
    assert "--folder" in str(refused.value)


def test_a_trainer_of_another_commit_is_told(folder: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    before = source_of(folder / "trainer")
    assert before is not None
    assert recorded_job(intent(JOB, before), folder).changed == ""
    (folder / "trainer" / "task.py").write_text("print(2)\n")
    told = recorded_job(intent(JOB, before), folder).changed
    assert told.startswith(f"the trainer was {before['commit']}")
    assert "it is now" in told
    assert "with changes" in told


@pytest.mark.parametrize(
    ("before", "after"),
    [("digits_20260101_120000", "digits_new"), ("digits", "digits_new"), ("digits_20260101", "digits_20260101_new")],
)
def test_a_new_id_is_like_the_one_before(before: str, after: str) -> None:
    assert new_job_id(before, "new") == after
