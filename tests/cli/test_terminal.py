"""No command writes to a terminal what would steer it, whoever wrote it: a job file, a name, a cloud, a replica."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.cli.main import VERBS, main
from encamp.redaction import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from click.testing import Result

#: A window's title, a cleared screen, C1 controls, the other direction of writing, a line that is written over.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066evil\u2069\r\x08\x7f\u2028"
VALID = {
    "jobId": "digits",
    "labels": {"team": "vision"},
    "trainingInput": {
        "region": "us-central1",
        "scaleTier": "BASIC",
        "runtimeVersion": "2.11",
        "pythonVersion": "3.7",
        "packageUris": ["gs://bucket/p.tar.gz"],
        "pythonModule": "trainer.task",
        "args": [f"--name={HOSTILE}"],
    },
}
BROKEN = {
    "jobId": HOSTILE,
    HOSTILE: 1,
    "labels": {HOSTILE: HOSTILE},
    "trainingInput": {
        "region": HOSTILE,
        "scaleTier": HOSTILE,
        "masterType": HOSTILE,
        "runtimeVersion": HOSTILE,
        "packageUris": [HOSTILE],
        "pythonModule": HOSTILE,
        "jobDir": f"gs://{HOSTILE}",
        "hyperparameters": {"params": [{"parameterName": HOSTILE, "type": HOSTILE}]},
    },
}
#: Each verb with words that bring a hostile text to it; FILE is a job file.
WORDS: dict[str, Sequence[str]] = {
    "validate": ("FILE",),
    "explain": (HOSTILE,),
    "new": (HOSTILE,),
    "schema": (HOSTILE,),
    "plan": ("FILE",),
    "prices": (HOSTILE,),
    "manifests": ("FILE",),
    "containerfile": ("--runtime-version", HOSTILE),
    "local": ("train", "FILE"),
    "run": ("FILE", "--environment", HOSTILE),
    "rerun": (HOSTILE, "--environment", HOSTILE),
    "submit": ("FILE", "--environment", HOSTILE),
    "drive": (HOSTILE,),
    "serve": ("--environment", HOSTILE),
    "attach": (HOSTILE, "--environment", HOSTILE),
    "cancel": (HOSTILE, "--environment", HOSTILE),
    "list": ("--environment", HOSTILE),
    "describe": (HOSTILE, "--environment", HOSTILE),
    "trials": (HOSTILE, "--environment", HOSTILE),
    "logs": (HOSTILE, "--environment", HOSTILE),
    "results": (HOSTILE, HOSTILE, "--environment", HOSTILE),
    "receipts": ("--environment", HOSTILE),
    "reap": ("--environment", HOSTILE),
    "ci": ("preview", "--base", HOSTILE),
    "doctor": ("--stack", HOSTILE),
    "acceptance": ("-s", HOSTILE, "--budget", "1", "--yes"),
    "access": ("who", HOSTILE, "--environment", HOSTILE),
    "init": (HOSTILE,),
    "sandbox": (HOSTILE,),
    "environment": ("up", HOSTILE),
    "demo": (HOSTILE,),
}


def steers(text: str) -> list[str]:
    """Lines that do something to a terminal but for being read."""
    return [line for line in text.split("\n") if not line.replace("\t", "").isprintable()]


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """The command line in this process: words in, everything that it and its children wrote out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("ENCAMP_SANDBOX_DIR", str(tmp_path / "sandbox"))
    monkeypatch.delenv("ENCAMP_ENVIRONMENT", raising=False)

    def run(*words: str, only: str = "") -> str:
        monkeypatch.setattr(sys, "argv", ["encamp", *words])
        with contextlib.suppress(SystemExit):
            main()
        out, err = capfd.readouterr()
        return out if only else out + err

    return run


def job_file(folder: Path, job: dict[str, Any]) -> str:
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return str(path)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("job", [VALID, BROKEN], ids=["valid", "broken"])
def test_what_a_command_says_of_a_hostile_file_or_name(
    said: Callable[..., str], tmp_path: Path, verb: str, job: dict[str, Any]
) -> None:
    file = job_file(tmp_path, job)
    found = said(verb, *(file if word == "FILE" else word for word in WORDS[verb]))
    assert found
    assert steers(found) == []
    assert "Traceback" not in found


def test_a_hostile_verb_is_no_verb(said: Callable[..., str]) -> None:
    found = said(HOSTILE)
    assert "owned" in found
    assert steers(found) == []


@pytest.mark.parametrize("form", ["plan", "manifests", "validate"])
def test_a_document_for_programs_means_what_was_written(said: Callable[..., str], tmp_path: Path, form: str) -> None:
    words = () if form == "manifests" else ("--format", "json")
    found = said(form, job_file(tmp_path, VALID), *words, only="out")
    assert steers(found) == []
    documents = list(yaml.safe_load_all(found)) if form == "manifests" else json.loads(found)
    assert form == "validate" or any(f"--name={HOSTILE}" in text for text in texts(documents))


def test_what_a_receipt_and_a_log_hold_is_shown_without_effect(encamp: Callable[..., Result], google: Any) -> None:
    receipt = {
        "jobId": "digits_1",
        "name": "digits-1-abc",
        "outcome": {"state": "FAILED", "message": HOSTILE},
        "times": {"QUEUED": "2026-05-02T10:00:00.000+00:00", "FAILED": "2026-05-02T10:02:30.000+00:00"},
        "environment": "sandbox",
        "nodeSeconds": {HOSTILE: 3.0},
        "cost": {"currency": HOSTILE, "amount": 0.25, "unpriced": [HOSTILE]},
        "left": [HOSTILE],
    }
    entry = {"replica": "master-replica-0", "object": None, "sha256": None, "complete": False, "reason": HOSTILE}
    for name, data in {"receipt.json": receipt, "logs/manifest.json": {"version": 1, "replicas": [entry]}}.items():
        google.objects["sandbox-encamp-artifacts", f"jobs/digits_1/{name}"] = json.dumps(data).encode()
    for words in (
        ("list",), ("describe", "digits_1"), ("logs", "digits_1"), ("receipts",), ("trials", "digits_1"),
        ("list", "--format", "json"), ("describe", "digits_1", "--format", "json"), ("receipts", "--format", "json"),
    ):  # fmt: skip
        run = encamp(*words)
        assert steers(run.output) == [], words
