from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests
from click.testing import CliRunner

from encamp.cli.main import cli
from encamp.cloud import rest
from encamp.jobs import target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

BUCKET = "sandbox-encamp-artifacts"


@pytest.fixture
def committed(google: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The committed environment of the sandbox without the sandbox, for commands in this process."""
    google.add_bucket(BUCKET)
    for key, value in google.environ().items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("ENCAMP_STATE_DIR", str(tmp_path))
    for key in ("ENCAMP_RECORD_URL", "ENCAMP_ENVIRONMENT"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr(target, "_enter_sandbox", lambda: None)


@pytest.fixture
def encamp(committed: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:  # noqa: ARG001 - what it sets
    """The command line in this process, in the committed environment."""
    session = requests.Session()
    monkeypatch.setattr(rest, "_default_session", lambda: session)

    def run(*words: str) -> Result:
        result = CliRunner().invoke(cli, words)
        session.close()
        return result

    return run
