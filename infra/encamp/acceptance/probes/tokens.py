"""Probes of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import requests

from encamp.acceptance.answers import expect
from encamp.acceptance.probe import of_environment
from encamp.cloud.endpoints import Service

if TYPE_CHECKING:
    from encamp.acceptance.cases import EnvironmentCase

_UNAUTHORIZED = 401
_SECONDS = 30


@of_environment("token-is-needed")
def is_needed(case: EnvironmentCase) -> str:
    """Call without a token."""
    url = case.client.url(Service.CONTAINER, f"/v1/{case.outputs.cluster_path}")
    answer = requests.get(url, timeout=_SECONDS)
    challenge = answer.headers.get("WWW-Authenticate", "")
    saw = f"without a token the answer is {answer.status_code}, WWW-Authenticate: {challenge or 'none'}"
    expect(answer.status_code == _UNAUTHORIZED and challenge.startswith("Bearer"), saw)
    return saw
