"""Refusals have the bodies of Google: code, message, status and the older reasons; a field mask says what changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.cloud.desk import PROJECT
from tests.sandbox.cloud.examples import EXAMPLES

from encamp_sandbox.cloud.faults import Fault, FaultKind

if TYPE_CHECKING:
    from tests.sandbox.cloud.desk import Answer, Desk

pytestmark = pytest.mark.slow

LOCATION = f"container/v1beta1/{PROJECT}/locations/us-central1"
ACCOUNTS = f"iam/v1/{PROJECT}/serviceAccounts"
NETWORKS = f"compute/v1/{PROJECT}/global/networks"


def summary(answer: Answer) -> tuple[int, str, str]:
    """Code, status and reason, once the body has the form that every client reads."""
    error: dict[str, Any] = answer.body["error"]
    assert error["code"] == answer.status
    assert error["errors"] == [{"message": error["message"], "domain": "global", "reason": answer.reason}]
    return answer.status, error.get("status", ""), answer.reason


@pytest.mark.parametrize(
    "path",
    [
        f"{NETWORKS}/none",
        f"{LOCATION}/clusters/none",
        f"{ACCOUNTS}/none@sandbox-encamp.iam.gserviceaccount.com",
        f"cloudkms/v1/{PROJECT}/locations/us-central1/keyRings/none",
        f"artifactregistry/v1/{PROJECT}/locations/us-central1/repositories/none",
        f"logging/v2/{PROJECT}/metrics/none",
        f"monitoring/v3/{PROJECT}/alertPolicies/none",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_is_missing_is_404(desk: Desk, method: str, path: str) -> None:
    if "keyRings" in path and method == "DELETE":
        path += "/cryptoKeys/none/cryptoKeyVersions/1:destroy"
        method = "POST"
    answer = desk.refused(method, path)
    assert summary(answer) == (404, "NOT_FOUND", "notFound")
    assert answer.belief == "api-missing-is-404"


@pytest.mark.parametrize("collection", ["compute:networks", "iam:serviceAccounts", "cloudkms:keyRings"])
def test_what_exists_is_409(desk: Desk, collection: str) -> None:
    assert EXAMPLES[collection].create(desk).status == 200
    answer = EXAMPLES[collection].create(desk)
    assert summary(answer) == (409, "ALREADY_EXISTS", "alreadyExists")
    assert answer.belief == "api-duplicate-is-409"


def test_who_may_not_is_403(desk: Desk) -> None:
    token = desk.do("POST", "encamp/v1/memberTokens", {"member": "user:ana@example.com"})["accessToken"]
    answer = desk.ask("POST", NETWORKS, {"name": "net"}, token=token)
    assert summary(answer) == (403, "PERMISSION_DENIED", "forbidden")
    assert "compute.networks.create" in answer.message


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (FaultKind.RATE_LIMIT, (429, "RESOURCE_EXHAUSTED", "rateLimitExceeded")),
        (FaultKind.INTERNAL, (500, "INTERNAL", "backendError")),
        (FaultKind.QUOTA, (403, "PERMISSION_DENIED", "quotaExceeded")),
        (FaultKind.CONFLICT, (409, "ABORTED", "operationInProgress")),
        (FaultKind.STOCKOUT, (503, "UNAVAILABLE", "resourceExhausted")),
    ],
)
def test_faults_answer_as_google_does(desk: Desk, kind: FaultKind, expected: tuple[int, str, str]) -> None:
    desk.cloud.faults.add(Fault("compute:networks", "create", kind))
    assert summary(desk.refused("POST", NETWORKS, {"name": "net"})) == expected
    desk.do("POST", NETWORKS, {"name": "net"})


def test_a_mask_names_what_changes_and_an_empty_one_is_refused(desk: Desk) -> None:
    EXAMPLES["iam:serviceAccounts"].create(desk)
    path = EXAMPLES["iam:serviceAccounts"].path
    both = {"serviceAccount": {"displayName": "Coach", "description": "of jobs"}}
    shown = desk.do("PATCH", path, {**both, "updateMask": "display_name"})
    assert (shown["displayName"], shown.get("description")) == ("Coach", None)
    assert desk.do("PATCH", path, {"serviceAccount": {}, "updateMask": "displayName"}).get("displayName") is None
    answer = desk.refused("PATCH", path, {**both, "updateMask": ""})
    assert summary(answer) == (400, "INVALID_ARGUMENT", "badRequest")
    assert answer.belief == "api-updates-name-fields"
