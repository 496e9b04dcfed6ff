from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import requests
from click.testing import CliRunner

from encamp.cli.main import cli
from encamp.cloud import rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result


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
