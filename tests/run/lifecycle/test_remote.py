from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from encamp.cli.reap import command
from encamp.errors import ExitCode, UsageError
from encamp.run.lifecycle.remote import require_remote

if TYPE_CHECKING:
    from pathlib import Path

RECORD = "postgresql+psycopg://record/encamp"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An engine that is logged in to a folder of this machine."""
    cli = tmp_path / "pulumi"
    cli.write_text('#!/bin/sh\ncase "$*" in *version*) echo v3.259.0;; *) echo \'{"url": "file://~"}\';; esac\n')
    cli.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.parametrize(
    ("project", "record", "backend", "why"),
    [
        ("sandbox-encamp", RECORD, "gs://state", "a sandbox is of this machine"),
        ("lab", "", "gs://state", "the record is a file of this machine"),
        ("lab", "sqlite:////records", "gs://state", "the record is a file of this machine"),
        ("lab", RECORD, "file:///state", "the engine's backend is a folder of this machine"),
        ("lab", RECORD, "", "the engine's backend is a folder of this machine"),
    ],
)
@pytest.mark.usefixtures("engine")
def test_what_dies_with_a_pod_is_refused(
    project: str, record: str, backend: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENCAMP_RECORD_URL", record)
    monkeypatch.setenv("PULUMI_BACKEND_URL", backend)
    with pytest.raises(UsageError, match=why) as refused:
        require_remote(project)
    assert refused.value.exit_code == ExitCode.BAD_INPUT


def test_a_backend_and_a_record_elsewhere_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENCAMP_RECORD_URL", RECORD)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://state")
    require_remote("lab")


def test_a_dry_run_neither_waits_nor_watches() -> None:
    for flag in ("--wait", "--watch"):
        result = CliRunner().invoke(command, ["--dry-run", flag])
        assert isinstance(result.exception, UsageError)
