"""Who the replicas of a job are, by its file, its environment and what an earlier ``up`` made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError
from encamp.kinds.google import ACCOUNT, ACCOUNT_MEMBER
from encamp.plan.declared import declared_resources
from encamp.plan.job import plan_job
from encamp.plan.manifests.job import render_manifests
from encamp.plan.summary import JobSummary, job_summary
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.plan.model import JobPlan

DIRECT, OWN = {"mode": "DIRECT"}, {"mode": "SERVICE_ACCOUNT"}
TEAM = {"name": "vision", "members": ["user:ana@example.com"], "roles": ["ml.developer"]}
#: Outputs of a job's stack before they named the account.
BEFORE = {
    "jobId": "j",
    "name": "j-1",
    "namespace": "encamp-jobs",
    "jobSet": "j-1",
    "artifactsBucket": "lab-artifacts",
    "prefix": "jobs/j/",
    "labels": {"encamp-job": "j-1"},
    "nodePools": ["j-1-n1-standard-4"],
    "givenAccount": None,
    "scratchBucket": "j-1-scratch",
}


def planned(
    environment: dict[str, Any], asked: dict[str, Any] | None = None, earlier: JobSummary | None = None, **fields: Any
) -> JobPlan:
    written = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", **environment}
    training = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/t"}, **fields}
    block = {"identity": asked} if asked is not None else {}
    job = parse_job({"jobId": "j", "trainingInput": training, "encamp": block}, source="test").job
    return plan_job(job, parse_environment(written, project="my-project", source="test"), earlier=earlier)


@pytest.mark.parametrize(
    ("environment", "asked", "account"),
    [
        ({}, None, False),
        ({}, {}, False),
        ({}, OWN, True),
        ({"identity": OWN}, None, True),
        ({"identity": OWN}, DIRECT, False),
        ({"identity": DIRECT}, OWN, True),
        ({"identity": {}}, None, False),
    ],
)
def test_a_job_has_an_account_if_its_file_or_its_environment_asks_for_one(
    environment: dict[str, Any], asked: dict[str, Any] | None, account: bool
) -> None:
    plan = planned(environment, asked)
    assert (plan.identity.account_id is not None) is account
    assert (plan.identity.service_account is not None) is account
    made = {one.type for one in declared_resources(plan)}
    assert made.isdisjoint({ACCOUNT.token, ACCOUNT_MEMBER.token}) is not account
    annotations = render_manifests(plan).service_account["metadata"].get("annotations", {})
    assert ("iam.gke.io/gcp-service-account" in annotations) is account


def test_a_given_account_is_used_whatever_the_environment_says() -> None:
    given = "trainer@my-project.iam.gserviceaccount.com"
    environments: list[dict[str, Any]] = [{}, {"identity": OWN}, {"identity": DIRECT}]
    for environment in environments:
        plan = planned(environment, serviceAccount=given)
        assert (plan.identity.service_account, plan.identity.account_id) == (given, None)


@pytest.mark.parametrize(("outputs", "account"), [(BEFORE, True), (BEFORE | {"identityMode": "DIRECT"}, False)])
def test_a_stack_keeps_what_it_has(outputs: dict[str, Any], account: bool) -> None:
    environments: list[dict[str, Any]] = [{}, {"identity": OWN}]
    for environment in environments:
        assert (planned(environment, earlier=JobSummary.read(outputs)).identity.account_id is not None) is account
    # What the file says is a change that somebody made.
    assert planned({}, DIRECT, earlier=JobSummary.read(outputs)).identity.account_id is None


def test_the_summary_of_a_job_tells_a_later_up_what_it_has() -> None:
    for asked in (DIRECT, OWN):
        first = planned({}, asked)
        # The engine drops what is null.
        kept = {name: value for name, value in job_summary(first).to_json().items() if value is not None}
        again = planned({}, earlier=JobSummary.read(kept))
        assert again.identity == first.identity
    assert JobSummary.read({}) is None


def test_no_account_is_planned_where_the_environment_forbids_it() -> None:
    forbidden = {"access": {"teams": [TEAM], "ownAccounts": False}}
    assert planned(forbidden).identity.account_id is None
    with pytest.raises(PlanError, match=r"allows jobs no service accounts of their own") as caught:
        planned(forbidden, OWN)
    assert caught.value.where == "encamp.identity.mode"


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({}, False),
        ({"access": {"teams": [TEAM]}}, True),
        ({"access": {"teams": [TEAM], "ownAccounts": True}}, False),
        ({"access": {"teams": [TEAM]}, "identity": OWN}, False),
    ],
)
def test_who_asks_for_an_account_is_told_what_teams_lack(environment: dict[str, Any], told: bool) -> None:
    warnings = [one for one in planned(environment, OWN).warnings if "access.ownAccounts: true" in one]
    assert bool(warnings) is told
