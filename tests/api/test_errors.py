from __future__ import annotations

import pytest

from encamp.api.errors import ApiError, field_name, wrong_fields
from encamp.errors import Problem


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("trainingInput.workerCount", "training_input.worker_count"),
        ("trainingInput.hyperparameters.params[1].minValue", "training_input.hyperparameters.params[1].min_value"),
        ("jobId", "job_id"),
        ("labels.teamName", "labels.teamName"),
        ("", ""),
    ],
)
def test_fields_have_the_names_that_the_service_gave_them(path: str, name: str) -> None:
    assert field_name(path) == name


def test_every_wrong_field_is_a_violation_and_the_first_is_the_message() -> None:
    problems = [
        Problem("trainingInput.workerCount", None, "V03", "is for CUSTOM only", "set scaleTier to CUSTOM"),
        Problem("jobId", None, "V01", "is missing"),
    ]

    body = wrong_fields(problems).body()["error"]

    assert (body["code"], body["status"]) == (400, "INVALID_ARGUMENT")
    first = "is for CUSTOM only; try: set scaleTier to CUSTOM"
    assert body["message"] == f"Field: training_input.worker_count Error: {first}"
    (details,) = body["details"]
    assert details["fieldViolations"] == [
        {"field": "training_input.worker_count", "description": first},
        {"field": "job_id", "description": "is missing"},
    ]


def test_an_error_repeats_no_password() -> None:
    error = ApiError("UNAVAILABLE", "https://ana:hunter2@example.com/ does not answer")

    assert "hunter2" not in str(error.body())
