"""A service of jobs with a record, and requests to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.api.world import ADMIN, PROJECT, World, job, world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOBS = f"/v1/projects/{PROJECT}/jobs"


TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """For tests that leave nothing behind."""
    with world(tmp_path_factory.mktemp("standing")) as found:
        yield found


@pytest.fixture(scope="module")
def sent(standing: World) -> Iterator[TestClient]:
    with client(standing) as found:
        created(found, "kept", labels={"a": "b"})
        yield found


@pytest.fixture
def http(service: World) -> Iterator[TestClient]:
    with client(service) as found:
        yield found


def client(service: World, token: str = ADMIN) -> TestClient:
    headers = {"authorization": f"Bearer {token}"}
    return TestClient(service.app, headers=headers, raise_server_exceptions=False)


def created(http: TestClient, job_id: str, **more: Any) -> dict[str, Any]:
    answer = http.post(JOBS, json=job(job_id, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: Any, code: int, status: str) -> str:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (code, code, status)
    return str(error["message"])


def violations(answer: Any) -> dict[str, str]:
    (details,) = answer.json()["error"]["details"]
    assert details["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    return {one["field"]: one["description"] for one in details["fieldViolations"]}
