"""The Job resource: what is kept of a job file, and how a record is shown."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.job_cases import golden_cases, table_cases

from encamp.api.resource import etag, job_resource, kept_job
from encamp.run.store.journal import CANCEL, LABELS, SUBMITTED, Entry, fold
from encamp.run.store.states import Outcome, State
from encamp.spec.job import OUTPUT_ONLY
from encamp.spec.job_file import parse_job

CASES = golden_cases() | table_cases()
AT = datetime(2022, 3, 4, 5, 6, 7, 890123, UTC)


def shown(*entries: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return job_resource(fold("j", "n-j", AT, [Entry(AT, kind, data) for kind, data in entries]))


def submitted(job: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return SUBMITTED, {"environment": "sandbox", "job": job, "by": "ana@example.com", "priority": 0}


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_of_a_job_is_the_job(name: str) -> None:
    job = CASES[name].job_file().named("any_id").job

    kept = kept_job(job)

    again = parse_job(kept, source="kept").job
    assert again == job.model_copy(update=dict.fromkeys(OUTPUT_ONLY))
    assert kept_job(again) == kept


def test_there_are_files_to_try() -> None:
    assert len(CASES) > 20


def test_numbers_of_64_bits_are_texts_and_others_are_not() -> None:
    accelerator = {"acceleratorConfig": {"count": 4, "type": "NVIDIA_TESLA_T4"}}
    training = {
        "workerCount": 3,
        "parameterServerCount": "2",
        "masterConfig": {**accelerator, "diskConfig": {"bootDiskSizeGb": 200}},
        "workerConfig": {"imageUri": "gcr.io/a/b"},
        "scheduling": {"priority": 7},
    }

    found = shown(submitted({"trainingInput": training}))["trainingInput"]

    assert (found["workerCount"], found["parameterServerCount"]) == ("3", "2")
    assert found["masterConfig"]["acceleratorConfig"]["count"] == "4"
    assert found["masterConfig"]["diskConfig"]["bootDiskSizeGb"] == 200
    assert found["workerConfig"] == {"imageUri": "gcr.io/a/b"}
    assert found["scheduling"] == {"priority": 7}


def test_a_job_of_which_little_is_known_is_shown_all_the_same() -> None:
    assert shown() == {
        "jobId": "j",
        "trainingInput": {},
        "createTime": "2022-03-04T05:06:07.890Z",
        "state": "QUEUED",
        "trainingOutput": {},
        "etag": etag("j", 0),
    }


def test_why_it_ended_is_said_once_it_does() -> None:
    outcome = ("outcome", Outcome(State.CANCELLED, "cancelled by the user").to_json())
    asked, ending = (CANCEL, {"by": "bob@example.com"}), ("state", {"state": "CANCELLING"})

    assert "errorMessage" not in shown(asked, outcome)
    found = shown(asked, outcome, ending)
    assert (found["state"], found["errorMessage"]) == ("CANCELLING", "cancelled by the user")
    assert "endTime" not in found
    assert shown(asked, outcome, ending, ("state", {"state": "CANCELLED"}))["endTime"] == "2022-03-04T05:06:07.890Z"
    succeeded = ("outcome", Outcome(State.SUCCEEDED, "fine").to_json())
    assert "errorMessage" not in shown(succeeded, ("state", {"state": "SUCCEEDED"}))


def test_the_latest_labels_count() -> None:
    job = submitted({"labels": {"a": "1"}, "trainingInput": {}})

    assert shown(job)["labels"] == {"a": "1"}
    changed = shown(job, (LABELS, {"labels": {"b": "2"}}))
    assert changed["labels"] == {"b": "2"}
    emptied = shown(job, (LABELS, {"labels": {"b": "2"}}), (LABELS, {"labels": {}}))
    assert "labels" not in emptied
    etags = [one["etag"] for one in (shown(job), changed, emptied)]
    assert len(set(etags)) == 3
    assert all(len(base64.b64decode(one, validate=True)) == 8 for one in etags)


def test_an_algorithm_that_was_built_in_is_said_to_be() -> None:
    image = "gcr.io/cloud-ml-algos/xgboost_training:latest"
    job = submitted({"trainingInput": {"masterConfig": {"imageUri": image}}})

    assert shown(job)["trainingOutput"] == {"isBuiltInAlgorithmJob": True}
