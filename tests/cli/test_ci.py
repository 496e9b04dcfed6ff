"""Which environments ``encamp ci preview`` asks the engine about."""

from __future__ import annotations

import pytest

from encamp.cli.ci import _enter
from encamp.errors import SandboxError


def test_an_environment_of_another_project_is_not_asked_about_in_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "sandbox-encamp")
    monkeypatch.delenv("ENCAMP_SANDBOX_PROXY", raising=False)
    _enter("production")
    monkeypatch.setenv("ENCAMP_SANDBOX_PROXY", "http://127.0.0.1:1")
    with pytest.raises(SandboxError, match="serves the project sandbox-encamp, not acme-ml"):
        _enter("production")
