from __future__ import annotations

import pytest

from encamp.api.access import Access, JobGrants, access_warnings
from encamp.api.caller import Caller
from encamp.api.errors import ApiError
from encamp.api.job_policy import checked_policy, job_roles
from encamp.spec.environment.access import AccessSpec, TeamSpec
from encamp.spec.environment.api import ApiSpec
from encamp.spec.environment.model import EnvironmentSpec
from encamp.spec.ml_roles import ml_roles

PERSON = "principal://iam.googleapis.com/locations/global/workforcePools/acme/subject/Eve"
JOB = "projects/my-project/jobs/digits"


def caller(member: str, *, admin: bool = False) -> Caller:
    return Caller(member.removeprefix("user:").removeprefix("serviceAccount:"), frozenset({member}), admin=admin)


def environment(*teams: TeamSpec, project: str = "my-project") -> EnvironmentSpec:
    return EnvironmentSpec(name="lab", project=project, access=AccessSpec(teams=list(teams)) if teams else None)


def team(role: str, *members: str) -> TeamSpec:
    return TeamSpec(name=role.replace("ml.", ""), members=list(members), roles=[role])


def lab() -> Access:
    return Access(
        environment(
            team("ml.admin", "user:root@example.com"),
            team("ml.developer", "user:Ana@example.com", "serviceAccount:ci@my-project.iam.gserviceaccount.com"),
            team("ml.editor", "user:ed@example.com"),
            team("ml.viewer", "user:vera@example.com", PERSON),
            team("ml.modelUser", "user:mo@example.com"),
        )
    )


MEMBERS = {
    "root": "user:root@example.com",
    "ana": "user:ana@example.com",
    "ci": "serviceAccount:ci@my-project.iam.gserviceaccount.com",
    "ed": "user:ed@example.com",
    "vera": "user:vera@example.com",
    "eve": PERSON,
    "mo": "user:mo@example.com",
    "bob": "user:bob@example.com",
}
#: Who may what on the project, and so on every job: the job model's table of roles, written out once more.
MAY = {
    "root": {"create", "list", "get", "cancel", "update", "getIamPolicy", "setIamPolicy"},
    "ana": {"create", "list", "get", "getIamPolicy"},
    "ci": {"create", "list", "get", "getIamPolicy"},
    "ed": {"create", "list", "get", "cancel", "update", "getIamPolicy"},
    "vera": {"list", "get"},
    "eve": {"list", "get"},
    "mo": set[str](),
    "bob": set[str](),
}
VERBS = ("create", "list", "get", "cancel", "update", "getIamPolicy", "setIamPolicy")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("who", MEMBERS)
def test_roles_of_teams_hold_what_the_job_model_says(who: str, verb: str) -> None:
    asking = caller(MEMBERS[who])
    for job in (None, JobGrants(None, None), JobGrants("somebody@example.com", {"bindings": []})):
        if verb in MAY[who]:
            lab().require(asking, f"ml.jobs.{verb}", JOB, job)
        else:
            with pytest.raises(ApiError) as refused:
                lab().require(asking, f"ml.jobs.{verb}", JOB, job)
            assert (refused.value.code, refused.value.status) == (403, "PERMISSION_DENIED")
            assert refused.value.message == (
                f"Permission 'ml.jobs.{verb}' denied on resource '//ml.googleapis.com/{JOB}' (or it may not exist)."
            )


def test_nobody_may_anything_where_no_team_is_named() -> None:
    for who in MEMBERS.values():
        assert Access(environment()).permissions(caller(who)) == frozenset()
    nobody = Caller("nobody@example.com", frozenset())
    assert lab().permissions(nobody, JobGrants("nobody@example.com", None)) == frozenset()
    assert lab().permissions(nobody, JobGrants("", None)) == frozenset()


def test_an_administrator_may_everything() -> None:
    held = Access(environment(project="sandbox-lab")).permissions(caller("user:me@example.com", admin=True))
    assert held == frozenset(ml_roles().permissions)


@pytest.mark.parametrize(
    ("creator", "owner"),
    [
        ("Bob@Example.com", MEMBERS["bob"]),
        ("robot@p.iam.gserviceaccount.com", "serviceAccount:robot@p.iam.gserviceaccount.com"),
        (PERSON, PERSON),
    ],
)
def test_who_started_a_job_owns_it_and_no_other(creator: str, owner: str) -> None:
    access = Access(environment(team("ml.viewer", "user:vera@example.com")))
    own = access.permissions(caller(owner), JobGrants(creator, None))
    assert own == frozenset(ml_roles().roles["ml.jobOwner"])
    assert access.permissions(caller(owner), JobGrants("carl@example.com", None)) == frozenset()
    assert access.permissions(caller(owner)) == frozenset()


def test_federated_names_are_not_folded() -> None:
    assert lab().permissions(caller(PERSON.replace("Eve", "eve"))) == frozenset()
    assert lab().permissions(caller(PERSON.replace("Eve", "eve")), JobGrants(PERSON, None)) == frozenset()


def test_a_user_is_not_the_service_account_of_the_same_name() -> None:
    assert lab().permissions(caller("user:ci@my-project.iam.gserviceaccount.com")) == frozenset()


def test_a_jobs_policy_gives_its_roles_on_that_job_alone() -> None:
    policy = {"bindings": [{"role": "roles/ml.viewer", "members": ["user:Bob@example.com"]}]}
    bob = caller(MEMBERS["bob"])
    assert "ml.jobs.get" in lab().permissions(bob, JobGrants(None, policy))
    assert "ml.jobs.cancel" not in lab().permissions(bob, JobGrants(None, policy))
    assert lab().permissions(bob) == frozenset()
    assert lab().permissions(caller("user:carl@example.com"), JobGrants(None, policy)) == frozenset()


@pytest.mark.parametrize(
    "binding",
    [
        {"role": "roles/ml.jobOwner", "members": ["user:bob@example.com"], "condition": {"expression": "true"}},
        {"role": "roles/owner", "members": ["user:bob@example.com"]},
        {"role": "roles/ml.jobOwner", "members": ["allUsers", "allAuthenticatedUsers", "domain:example.com"]},
        {"role": "roles/ml.jobOwner", "members": []},
    ],
)
def test_what_no_policy_should_hold_gives_nothing(binding: dict[str, object]) -> None:
    assert lab().permissions(caller(MEMBERS["bob"]), JobGrants(None, {"bindings": [binding]})) == frozenset()


@pytest.mark.parametrize("verb", ["get", "cancel", "update", "getIamPolicy", "setIamPolicy"])
def test_who_may_not_see_a_job_is_not_told_whether_it_exists(verb: str) -> None:
    permission = f"ml.jobs.{verb}"
    for who in ("bob", "mo"):
        with pytest.raises(ApiError) as there:
            lab().require(caller(MEMBERS[who]), permission, JOB, JobGrants("ana@example.com", None))
        missing = lab().missing(caller(MEMBERS[who]), permission, JOB)
        assert missing.body() == there.value.body()
    for who in ("root", "ana", "vera"):
        assert lab().missing(caller(MEMBERS[who]), permission, JOB).code == 404


def test_tested_permissions_are_those_that_the_caller_has() -> None:
    asked = {"permissions": ["ml.jobs.cancel", "ml.jobs.get", "ml.jobs.get", "ml.models.get"]}
    bob, job = caller(MEMBERS["bob"]), JobGrants("bob@example.com", None)
    assert lab().tested(bob, asked, job) == {"permissions": ["ml.jobs.cancel", "ml.jobs.get"]}
    assert lab().tested(bob, asked, None) == lab().tested(caller(MEMBERS["root"]), asked, None) == {}
    assert lab().tested(bob, asked, JobGrants(None, None)) == {}
    assert lab().tested(bob, {}, job) == {}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("ml.jobs.get", "must be a list"),
        ([1], "must be a list"),
        (["ml.jobs.*"], "wildcards"),
        (["*"], "wildcards"),
        (["ml.jobs.fly"], "no permission"),
        (["ml.jobs.get"] * 101, "at most 100"),
    ],
)
def test_permissions_that_cannot_be_tested(asked: object, words: str) -> None:
    for job in (None, JobGrants(None, None)):
        with pytest.raises(ApiError, match=words) as refused:
            lab().tested(caller(MEMBERS["root"]), {"permissions": asked}, job)
        assert refused.value.code == 400


def test_jobs_run_with_the_accounts_that_the_environment_names_and_no_others() -> None:
    named = "trainer@my-project.iam.gserviceaccount.com"
    access = Access(
        environment(team("ml.admin", "user:root@example.com")).model_copy(update={"api": ApiSpec(act_as=(named,))})
    )
    root = caller("user:root@example.com")
    administrator = caller("user:ada@example.com", admin=True)

    access.require_act_as(root, named)
    access.require_act_as(administrator, "owner@my-project.iam.gserviceaccount.com")
    for refusing, account in ((access, "owner@my-project.iam.gserviceaccount.com"), (lab(), named)):
        with pytest.raises(ApiError, match=r"iam\.serviceAccounts\.actAs") as refused:
            refusing.require_act_as(root, account)
        assert refused.value.status == "PERMISSION_DENIED"


def test_whoever_starts_the_service_is_told_of_groups_and_of_no_teams() -> None:
    grouped = environment(team("ml.viewer", "group:all@example.com", "user:ana@example.com"))
    (warning,) = access_warnings(grouped)
    assert "team viewer: group:all@example.com" in warning
    assert Access(grouped).permissions(Caller("all@example.com", frozenset({"group:all@example.com"}))) == frozenset()
    assert "names no teams" in access_warnings(environment())[0]
    assert access_warnings(environment(project="sandbox-lab")) == ()
    assert access_warnings(environment(team("ml.viewer", "user:ana@example.com"))) == ()


def test_a_policy_is_kept_by_role_with_each_member_once() -> None:
    sent = {
        "policy": {
            "version": 3,
            "etag": "BwXhqDVpr5Y=",
            "bindings": [
                {"role": "roles/ml.viewer", "members": ["user:vera@example.com", "user:ana@example.com"]},
                {"role": "roles/ml.jobOwner", "members": [PERSON]},
                {"role": "roles/ml.viewer", "members": ["user:ana@example.com"]},
                {"role": "roles/ml.editor"},
            ],
        },
        "updateMask": "bindings,etag",
    }
    assert checked_policy(sent) == {
        "version": 1,
        "etag": "BwXhqDVpr5Y=",
        "bindings": [
            {"role": "roles/ml.jobOwner", "members": [PERSON]},
            {"role": "roles/ml.viewer", "members": ["user:ana@example.com", "user:vera@example.com"]},
        ],
    }
    assert checked_policy({"policy": {}}) == {"version": 1, "bindings": []}


def test_a_job_takes_the_roles_that_say_something_of_jobs() -> None:
    assert set(job_roles()) == {f"roles/ml.{role}" for role in ("admin", "editor", "developer", "viewer", "jobOwner")}


def bound(role: object = "roles/ml.viewer", members: object = None, **more: object) -> dict[str, object]:
    return {"policy": {"bindings": [{"role": role, "members": [] if members is None else members, **more}]}}


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "policy", "must be an object"),
        ({"policy": []}, "policy", "must be an object"),
        ({"policy": {"bindings": {}}}, "policy.bindings", "must be a list"),
        ({"policy": {"bindings": [1]}}, "policy.bindings[0]", "must be an object"),
        ({"policy": {"bindings": [{}] * 1501}}, "policy.bindings", "at most 1500"),
        ({"policy": {"version": 2}}, "policy.version", "1 or 3"),
        ({"policy": {"version": True}}, "policy.version", "1 or 3"),
        ({"policy": {"version": []}}, "policy.version", "1 or 3"),
        ({"policy": {"etag": "é"}}, "policy.etag", "base64"),
        ({"policy": {"etag": 5}}, "policy.etag", "base64"),
        ({"policy": {"auditConfigs": []}}, "policy.audit_configs", "not kept"),
        ({"policy": {}, "polizy": 1}, "polizy", "no field"),
        ({"policy": {}, "updateMask": "etag"}, "update_mask", "bindings"),
        ({"policy": {}, "updateMask": 7}, "update_mask", "bindings"),
        (bound("roles/owner"), "policy.bindings[0].role", "no role that a job takes"),
        (bound("roles/ml.modelOwner"), "policy.bindings[0].role", "no role that a job takes"),
        (bound("roles/ml.serviceAgent"), "policy.bindings[0].role", "no role that a job takes"),
        (bound("ml.viewer"), "policy.bindings[0].role", "roles/ml.viewer"),
        (bound(["roles/ml.viewer"]), "policy.bindings[0].role", "no role that a job takes"),
        (bound("x" * 100_000), "policy.bindings[0].role", "no role that a job takes"),
        (bound(members="user:a@b.c"), "policy.bindings[0].members", "must be a list"),
        (bound(members=[5]), "policy.bindings[0].members[0]", "must be a text"),
        (bound(members=["user:a@example.com", "allUsers"]), "policy.bindings[0].members[1]", "whoever has an account"),
        (bound(members=["allAuthenticatedUsers"]), "policy.bindings[0].members[0]", "whoever has an account"),
        (bound(members=["domain:example.com"]), "policy.bindings[0].members[0]", "whoever has an account"),
        (bound(members=["group:g@example.com"]), "policy.bindings[0].members[0]", "who is in a group"),
        (bound(members=["principalSet://x"]), "policy.bindings[0].members[0]", "who is in a group"),
        (bound(members=["deleted:user:a@example.com?uid=1"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=["user:a@example.com\nuser:b@example.com"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=["user:" + "a" * 100_000 + "@example.com"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=["ana@example.com"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=["user:\u212aai@example.com"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=["user:ana@stra\u00dfe.example"]), "policy.bindings[0].members[0]", "no member"),
        (bound(members=[f"user:p{n}@example.com" for n in range(1501)]), "policy.bindings", "at most 1500"),
        (bound(condition={"expression": "true"}), "policy.bindings[0].condition", "no conditions"),
        (bound(extra=1), "policy.bindings[0].extra", "no field of a binding"),
    ],
)
def test_policies_that_are_refused(body: dict[str, object], field: str, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        checked_policy(body)
    assert refused.value.code == 400
    (violations,) = (detail["fieldViolations"] for detail in refused.value.details)
    assert field in {one["field"] for one in violations}
    assert any(words in one["description"] for one in violations)
    assert all(len(one["description"]) < 500 and "\n" not in one["description"] for one in violations)
