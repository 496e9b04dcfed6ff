"""projects.jobs.cancel, of jobs that wait and that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.api.world import ENVIRONMENT, World

if TYPE_CHECKING:
    from starlette.testclient import TestClient

from tests.api.jobs.service import JOBS, created, refused

pytestmark = pytest.mark.slow


def test_a_job_that_waits_is_cancelled_at_once(http: TestClient, service: World) -> None:
    created(http, "waiting")

    assert http.post(f"{JOBS}/waiting:cancel", json={}).content == b"{}"

    read = http.get(f"{JOBS}/waiting").json()
    assert (read["state"], read["errorMessage"]) == ("CANCELLED", "ada@example.com cancelled it before it had begun")
    assert service.submissions.claim(ENVIRONMENT) is None
    message = refused(http.post(f"{JOBS}/waiting:cancel"), 400, "FAILED_PRECONDITION")
    assert message == "The job waiting has ended: it is CANCELLED."


def test_a_job_that_runs_is_asked_to_end(http: TestClient, service: World) -> None:
    created(http, "running")
    name = service.submissions.open(ENVIRONMENT)[0].name
    service.records.begin("running", name, {"environment": ENVIRONMENT}, submitted=True)
    service.records.begin("typed", "n-typed", {"environment": ENVIRONMENT})

    for job_id in ("running", "typed"):
        assert http.post(f"{JOBS}/{job_id}:cancel", json={}).json() == {}
        assert http.post(f"{JOBS}/{job_id}:cancel", json={}).json() == {}
        request = service.records.cancel_requested(job_id)
        assert request is not None
        assert request.by == "ada@example.com"

    # The dispatcher looks after what was handed in; what was not, somebody has to take over.
    assert service.told.adopted == ["typed", "typed"]
    refused(http.post(f"{JOBS}/running:cancel", json={"force": True}), 400, "INVALID_ARGUMENT")
