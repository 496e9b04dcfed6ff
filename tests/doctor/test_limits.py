"""How near a project is to limits that jobs use up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests

from encamp.cloud.projects import Projects, Quota
from encamp.cloud.rest import GoogleClient, RestError
from encamp.doctor.limits import members_of, node_pools, policies, queues, service_accounts
from encamp.doctor.stack import Stack
from encamp.findings import Finding, Grade
from encamp.plan.environment.planning import plan_environment
from encamp.plan.environment.queue_limits import queue_limits
from encamp.plan.job import plan_job
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Iterator

L4 = {"accelerator": "NVIDIA_L4", "count": 8}


def stack_of(job: dict[str, Any] | None = None, **environment: Any) -> Stack:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", **environment}
    spec = parse_environment(data, project="my-project", source="test")
    plan = None
    if job is not None:
        training = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/t"}}
        read = parse_job({"jobId": "j", "trainingInput": training, "encamp": job}, source="test").job
        plan = plan_job(read, spec)
    return Stack("lab", spec, plan_environment(spec), plan, None, False)


class Listings:
    """Answers what the doctor asks, as a project would."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def accounts(self, project: str) -> list[dict[str, str]]:
        assert project == "my-project"
        return [{"email": email} for email in self.answers["accounts"]]

    def account_quota(self, project: str) -> Quota | None:
        assert project == "my-project"
        return self.answers.get("quota")

    def node_pools(self, cluster: str) -> list[dict[str, str]]:
        assert cluster == "projects/my-project/locations/us-central1/clusters/encamp"
        return [{"name": name} for name in self.answers["pools"]]

    def read(self, project: str) -> dict[str, Any]:
        assert project == "my-project"
        return self._policy(self.answers["members"])

    def policy(self, bucket: str) -> dict[str, Any]:
        assert bucket == "lab-artifacts"
        found = self.answers["on_bucket"]
        if isinstance(found, Exception):
            raise found
        return self._policy(found)

    def _policy(self, members: int) -> dict[str, Any]:
        return {"bindings": [{"role": "r", "members": [f"user:{number}@e.com" for number in range(members)]}]}

    def regional_quotas(self, project: str, region: str) -> dict[str, Quota]:
        assert (project, region) == ("my-project", "us-central1")
        return {name: Quota(limit, 0.0) for name, limit in self.answers["regional"].items()}

    def family_quota(self, *asked: str) -> Quota | None:
        return self.answers["families"].get(asked[-1])


def only(found: Iterator[Finding]) -> Finding:
    (one,) = list(found)
    return one


def numbered(count: int) -> list[str]:
    return [f"a{number}@my-project.iam.gserviceaccount.com" for number in range(count)]


@pytest.mark.parametrize(
    ("there", "quota", "grade", "text"),
    [
        (10, None, Grade.OK, "10 of 100, the usual limit, are there, and the stack makes 1"),
        (79, None, Grade.NOTE, "79 of 100"),
        (99, None, Grade.NOTE, "99 of 100"),
        (100, None, Grade.BAD, "100 of 100"),
        (100, Quota(500.0, None), Grade.OK, "100 of 500 are there"),
    ],
)
def test_service_accounts_are_counted_against_their_quota(
    there: int, quota: Quota | None, grade: Grade, text: str
) -> None:
    project: Any = Listings(accounts=numbered(there), quota=quota)
    found = only(service_accounts(stack_of(), project, project))
    assert (found.grade, text in found.text) == (grade, True), found
    assert ("identity.mode DIRECT" in found.advice) is (grade is not Grade.OK)


def test_accounts_that_a_stack_has_made_already_are_no_new_ones() -> None:
    stack = stack_of()
    nodes = stack.environment.gke.nodes
    assert nodes is not None
    project: Any = Listings(accounts=[*numbered(99), nodes.email])
    assert "makes" not in only(service_accounts(stack, project, project)).text


def test_a_job_takes_an_account_only_if_it_asks_for_one() -> None:
    project: Any = Listings(accounts=numbered(100))
    assert only(service_accounts(stack_of({}), project, project)).grade is Grade.NOTE
    asking = stack_of({"identity": {"mode": "SERVICE_ACCOUNT"}})
    assert only(service_accounts(asking, project, project)).grade is Grade.BAD
    every = stack_of(identity={"mode": "SERVICE_ACCOUNT"})
    assert "every job takes one from its `up` to its end" in only(service_accounts(every, project, project)).text


@pytest.mark.parametrize(("there", "grade"), [(5, Grade.OK), (170, Grade.NOTE), (300, Grade.NOTE)])
def test_node_pools_are_counted_against_what_the_autoscaler_handles(there: int, grade: Grade) -> None:
    cluster: Any = Listings(pools=[f"pool-{number}" for number in range(there)])
    stack = stack_of(queues={"teams": {"team": {"quotas": [L4]}}})
    found = only(node_pools(stack, cluster))
    assert (found.grade, found.text) == (
        grade,
        f"{there} of 200 that GKE's autoscaler handles well are there, and the stack makes 5",
    )
    listed: Any = Listings(pools=["encamp-system", *(pool.name for pool in stack.environment.shared_pools)])
    assert "makes" not in only(node_pools(stack, listed)).text


def test_a_jobs_own_pools_are_new_and_shared_ones_are_not() -> None:
    shared = {"queues": {"default": "team", "teams": {"team": {"quotas": [{"cpu": 64}]}}}}
    cluster: Any = Listings(pools=["encamp-system"])
    assert "makes" not in only(node_pools(stack_of({}, **shared), cluster)).text
    assert "makes 1" in only(node_pools(stack_of({}), cluster)).text


def test_members_of_policies_are_counted_as_often_as_they_appear() -> None:
    twice: dict[str, Any] = {
        "bindings": [{"members": ["user:a@e.com"]}, {"members": ["user:a@e.com", "user:b@e.com"]}, {}]
    }
    assert members_of(twice) == 3
    project: Any = Listings(members=300, on_bucket=1200)
    near, nearer = policies(stack_of(), project, project)
    assert (near.grade, near.text) == (
        Grade.OK,
        "300 of 1500 members in the policy of the project; room for 600 more jobs at once",
    )
    assert (nearer.grade, nearer.text) == (
        Grade.NOTE,
        "1200 of 1500 members in the policy of gs://lab-artifacts; room for 300 more jobs at once",
    )
    full: Any = Listings(members=1499, on_bucket=RestError("no bucket", where="b", status=404))
    over, unread = policies(stack_of(), full, full)
    assert (over.grade, "encamp reap" in over.advice) == (Grade.BAD, True)
    assert (unread.grade, unread.text) == (Grade.NOTE, "the policy of gs://lab-artifacts cannot be read: no bucket")


def regional(**change: float) -> dict[str, float]:
    limits = dict.fromkeys(
        ("CPUS", "NVIDIA_L4_GPUS", "SSD_TOTAL_GB", "INSTANCES", "IN_USE_ADDRESSES", "PREEMPTIBLE_CPUS"), 100_000.0
    )
    return limits | change


def findings_of_queues(
    *quotas: dict[str, Any], families: dict[str, Quota] | None = None, **change: float
) -> list[Finding]:
    project: Any = Listings(regional=regional(**change), families=families or {"G2": Quota(1000.0, None)})
    return list(queues(stack_of(queues={"teams": {"team": {"quotas": list(quotas)}}}), project))


def test_queues_are_compared_with_the_quotas_of_their_region() -> None:
    quotas = [L4, {"cpu": 64, "provisioning": "SPOT"}]
    found = only(iter(findings_of_queues(*quotas)))
    assert (found.grade, found.subject) == (Grade.OK, "queues")
    limits = queue_limits(stack_of(queues={"teams": {"team": {"quotas": quotas}}}).spec)
    assert found.text == f"{limits.nodes} machines at most, within 6 quotas of us-central1"
    assert {need.name: need.amount for need in limits.needs if "GPU" in need.name or "vm_family" in need.name} == {
        "NVIDIA_L4_GPUS": 8,
        "CPUS_PER_VM_FAMILY (vm_family: G2)": 96,
    }


@pytest.mark.parametrize(
    ("change", "families", "said"),
    [
        ({"NVIDIA_L4_GPUS": 4.0}, None, "the queues could ask for 8 of NVIDIA_L4_GPUS in us-central1, its limit is 4"),
        ({}, {"G2": Quota(24.0, None)}, "for 96 of CPUS_PER_VM_FAMILY (vm_family: G2) in us-central1, its limit is 24"),
        ({}, {"G4": Quota(1.0, None)}, "the project's list does not have it"),
        ({"IN_USE_ADDRESSES": 0.0}, None, "for 1 of IN_USE_ADDRESSES"),
    ],
)
def test_a_quota_that_the_queues_exceed_is_told_with_what_to_do(
    change: dict[str, float], families: dict[str, Quota] | None, said: str
) -> None:
    found = only(iter(findings_of_queues(L4, families=families, **change)))
    assert (found.grade, said in found.text) == (Grade.NOTE, True), found
    assert found.advice.startswith("lower quotas in queues.teams, or ask for more")


def test_flex_start_counts_and_reservations_do_not() -> None:
    flex, reserved = (L4 | {"provisioning": how} for how in ("FLEX_START", "RESERVATION"))
    assert "PREEMPTIBLE_NVIDIA_L4_GPUS" in findings_of_queues(flex)[0].text
    assert findings_of_queues(reserved)[0].text == "0 machines at most, within 0 quotas of us-central1"


def test_quotas_without_a_limit_and_narrow_ranges_are_told() -> None:
    found = only(iter(findings_of_queues({"provisioning": "SPOT"})))
    assert (found.grade, "no quota of a queue limits machines spot" in found.text) == (Grade.NOTE, True)
    project: Any = Listings(regional=regional(), families={})
    narrow = stack_of(
        queues={"teams": {"team": {"quotas": [{"cpu": 256}]}}}, subnetworkCidr="10.10.0.0/28", podsCidr="10.20.0.0/22"
    )
    texts = [one.text for one in queues(narrow, project)]
    assert texts == [
        "subnetworkCidr 10.10.0.0/28 has addresses for 12 machines, not for 78",
        "podsCidr 10.20.0.0/22 has addresses for the pods of 16 machines, not of 78",
    ]


def test_only_environments_with_queues_are_asked_for_them() -> None:
    project: Any = Listings()
    assert list(queues(stack_of(), project)) == []
    assert list(queues(stack_of({}, queues={"default": "t", "teams": {"t": {"quotas": [{"cpu": 9}]}}}), project)) == []


@pytest.mark.parametrize(
    ("status", "body", "limit"),
    [
        (
            200,
            {
                "quotaInfos": [
                    {"metric": "iam.googleapis.com/other", "dimensionsInfos": [{"details": {"value": "1"}}]},
                    {
                        "metric": "iam.googleapis.com/quota/service-account-count",
                        "dimensionsInfos": [{"details": {"value": "250"}}],
                    },
                ]
            },
            250.0,
        ),
        (200, {}, None),
        (403, {"error": {"code": 403, "message": "no"}}, None),
    ],
)
def test_the_quota_of_accounts_is_that_of_its_metric(
    google: Any, status: int, body: dict[str, Any], limit: float | None
) -> None:
    google.say(r"GET /quotas/v1/projects/my-project/.*/services/iam.googleapis.com/quotaInfos", status, body)
    environ = google.environ() | {"CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS": f"{google.url}/quotas/"}
    with requests.Session() as session:
        found = Projects(GoogleClient(session, environ=environ)).account_quota("my-project")
    assert (None if found is None else found.limit) == limit
