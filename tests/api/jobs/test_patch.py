"""projects.jobs.patch: labels, etags, and updates that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from starlette.testclient import TestClient

from tests.api.jobs.service import JOBS, created, refused, violations

pytestmark = pytest.mark.slow


def test_labels_change_and_nothing_else(http: TestClient) -> None:
    made = created(http, "patched", labels={"team": "vision", "old": "1"})
    url = f"{JOBS}/patched?updateMask=labels"

    changed = http.patch(url, json={"labels": {"team": "speech"}, "state": "SUCCEEDED", "jobId": "other"}).json()

    assert changed["labels"] == {"team": "speech"}
    assert changed["etag"] != made["etag"]
    assert {key for key in made if made[key] != changed[key]} == {"labels", "etag"}
    assert http.get(f"{JOBS}/patched").json() == changed
    assert "labels" not in http.patch(url, json={"labels": {}}).json()
    assert http.patch(f"{JOBS}/patched?updateMask=labels", json={"labels": {"b": "c"}}).json()["labels"] == {"b": "c"}
    assert "labels" not in http.patch(url, json={}).json()


def test_an_update_of_what_others_changed_is_refused(http: TestClient) -> None:
    made = created(http, "raced")
    mask = {"updateMask": "labels,etag"}
    first = http.patch(f"{JOBS}/raced", params=mask, json={"labels": {"a": "1"}, "etag": made["etag"]})

    second = http.patch(f"{JOBS}/raced", params=mask, json={"labels": {"a": "2"}, "etag": made["etag"]})

    assert first.json()["labels"] == {"a": "1"}
    refused(second, 409, "ABORTED")
    assert http.get(f"{JOBS}/raced").json() == first.json()
    kept = http.patch(f"{JOBS}/raced", params={"updateMask": "etag"}, json={"etag": first.json()["etag"]})
    assert kept.json() == first.json()


@pytest.mark.parametrize(
    ("mask", "body", "field"),
    [
        (None, {"labels": {}}, "update_mask"),
        ("", {"labels": {}}, "update_mask"),
        ("*", {"labels": {}}, "update_mask"),
        ("labels,state", {"labels": {}}, "update_mask"),
        ("trainingInput.region", {}, "update_mask"),
        ("labels.a", {"labels": {"a": "b"}}, "update_mask"),
        ("labels", {"labels": ["a"]}, "labels"),
        ("labels", {"labels": {"Big": "b"}}, "labels.Big"),
        ("labels", {"labels": {str(n): "b" for n in range(65)}}, "labels"),
        ("labels", {"labels": {}, "colour": "red"}, "colour"),
        ("labels", {"labels": {}, "etag": "not base64!"}, "etag"),
        ("labels", {"labels": {}, "etag": 5}, "etag"),
        ("labels,etag", {"labels": {}}, "etag"),
    ],
)
def test_an_update_that_is_wrong_changes_nothing(
    sent: TestClient, mask: str | None, body: dict[str, Any], field: str
) -> None:
    before = sent.get(f"{JOBS}/kept").json()

    answer = sent.patch(f"{JOBS}/kept", params={} if mask is None else {"updateMask": mask}, json=body)

    refused(answer, 400, "INVALID_ARGUMENT")
    assert list(violations(answer))[:1] == [field]
    assert sent.get(f"{JOBS}/kept").json() == before
