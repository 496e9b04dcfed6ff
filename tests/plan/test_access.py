"""Teams become custom roles, bindings and Kubernetes roles; questions are answered from the same table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic.alias_generators import to_camel
from tests.job_cases import job_case

from encamp.errors import UsageError
from encamp.plan.access.check import Answer, check_access, given_elsewhere
from encamp.plan.access.identity import PROJECT_ROLES
from encamp.plan.access.permissions import job_permissions
from encamp.plan.access.table import access_table
from encamp.plan.declared import declared_resources
from encamp.plan.environment.planning import plan_environment
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, load_environment, parse_environment
from encamp.spec.environment.access import AccessSpec, AuditSinkSpec, AuditSpec, TeamSpec
from encamp.spec.job_file import parse_job
from encamp.spec.ml_roles import Reach, ml_roles

if TYPE_CHECKING:
    from encamp.plan.access.model import AccessPlan

ANA, BEN, OPS = "user:ana@example.com", "user:ben@example.com", "group:ops@example.com"
CI = "serviceAccount:ci@lab.iam.gserviceaccount.com"
TEAMS = [
    {"name": "vision", "members": [ANA, BEN], "roles": ["ml.developer"]},
    {"name": "speech", "members": [BEN, CI], "roles": ["ml.developer", "ml.modelUser"]},
    {"name": "ops", "members": [OPS], "roles": ["ml.admin"]},
    {"name": "audit", "members": ["user:eve@example.com"], "roles": ["ml.viewer"]},
]


def lab(identity: dict[str, Any] | None = None, **access: Any) -> EnvironmentSpec:
    block = {"teams": TEAMS, "securityGroup": "gke-security-groups@example.com"} | access
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "access": block}
    data |= {"identity": identity} if identity is not None else {}
    return parse_environment(data, project="lab-project", source="x")


def planned(**access: Any) -> AccessPlan:
    plan = plan_environment(lab(**access)).access
    assert plan is not None
    return plan


def test_an_environment_without_teams_decides_nothing_about_access() -> None:
    spec = parse_environment(
        {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}, project="lab-project", source="x"
    )
    assert plan_environment(spec).access is None


def test_each_role_that_a_team_has_is_made_once_where_its_rights_count() -> None:
    plan = planned()
    keys = {role.key for role in plan.roles}
    assert {"ml.viewer-project", "ml.viewer-artifacts", "ml.modelUser-models", "ml.developer-jobBuckets"} <= keys
    assert not [key for key in keys if key.startswith(("ml.editor", "ml.jobOwner"))]
    assert "ml.viewer-jobBuckets" not in keys
    ids = [role.role_id for role in plan.roles]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z0-9_]{3,64}", each) for each in ids)


def test_a_member_of_two_teams_has_a_role_once() -> None:
    held = [(each.role, each.member) for each in planned().members]
    assert len(held) == len(set(held))
    assert {member for role, member in held if role == "ml.developer-project"} == {ANA, BEN, CI}


def test_two_environments_of_a_project_have_roles_of_their_own() -> None:
    one = lab()
    other = plan_environment(one.model_copy(update={"name": "production"})).access
    assert other is not None
    assert {role.role_id for role in planned().roles}.isdisjoint(role.role_id for role in other.roles)


def test_policies_are_changed_under_conditions_only() -> None:
    for each in planned().members:
        role = next(one for one in planned().roles if one.key == each.role)
        if any(right.endswith(".setIamPolicy") for right in role.permissions) and each.reach is not Reach.ACCOUNTS:
            assert each.condition is not None, each.role


def test_who_starts_jobs_gives_no_other_roles_than_jobs_get() -> None:
    conditions = {each.reach: each.condition for each in planned().members if each.condition is not None}
    granted = conditions[Reach.JOB_GRANTS]
    assert granted is not None
    assert re.findall(r'"(roles/[^"]+)"', granted.expression) == list(PROJECT_ROLES)
    given = conditions[Reach.ROLE_GRANTS]
    assert given is not None
    # Those that need no condition: of a change IAM tells the roles alone.
    assert set(re.findall(r"projects/lab-project/roles/(\w+)", given.expression)) == {
        role.role_id for role in planned().roles if role.key.endswith(("-project", "-accounts"))
    }


@pytest.mark.parametrize(
    ("said", "mode", "given"),
    [
        (None, None, False),
        (None, "SERVICE_ACCOUNT", True),
        (True, None, True),
        (False, "SERVICE_ACCOUNT", False),
    ],
)
def test_accounts_are_made_only_where_jobs_usually_have_one_or_somebody_says_so(
    *, said: bool | None, mode: str | None, given: bool
) -> None:
    identity = {} if mode is None else {"identity": {"mode": mode}}
    plan = planned(**identity, **({} if said is None else {"ownAccounts": said}))
    rights = {right for role in plan.roles for right in role.permissions}
    assert ("iam.serviceAccounts.setIamPolicy" in rights) is given
    assert ("iam.serviceAccounts.create" in rights) is given


def test_kubernetes_roles_know_users_groups_and_accounts() -> None:
    roles = {role.name: role for role in planned().cluster_roles}
    assert [(each.kind, each.name) for each in roles["encamp-ml-admin"].subjects] == [("Group", "ops@example.com")]
    assert [(each.kind, each.name) for each in roles["encamp-ml-developer"].subjects] == [
        ("User", "ci@lab.iam.gserviceaccount.com"),
        ("User", "ana@example.com"),
        ("User", "ben@example.com"),
    ]
    assert "encamp-ml-modeluser" not in roles
    looking = {verb for rule in roles["encamp-ml-viewer"].rules for verb in rule.verbs}
    assert looking == {"get", "list", "watch"}
    # Each resource once: what a role allows can be read off.
    for role in roles.values():
        named = [(rule.group, resource) for rule in role.rules for resource in rule.resources]
        assert len(named) == len(set(named))


def test_who_gives_roles_in_the_cluster_holds_what_they_hold() -> None:
    """The API server lets nobody bind a role that allows more than they may; source: kubernetes.io, RBAC."""
    rules = {role.name: role.rules for role in planned().cluster_roles}

    def allowed(name: str) -> set[tuple[str, str, str]]:
        return {
            (rule.group, resource, verb) for rule in rules[name] for resource in rule.resources for verb in rule.verbs
        }

    assert allowed("encamp-ml-viewer") < allowed("encamp-ml-developer") < allowed("encamp-ml-admin")


def test_who_starts_jobs_may_use_the_account_of_their_machines_and_no_other() -> None:
    plan = planned()
    assert plan.node_account is not None
    acting = [role for role in plan.roles if any(right.endswith(".actAs") for right in role.permissions)]
    assert [role.key for role in acting] == ["ml.admin-nodes", "ml.developer-nodes"]
    assert {each.reach for each in plan.members if each.role in {role.key for role in acting}} == {Reach.NODES}


def test_audit_logs_of_what_jobs_touch_are_kept_and_exported_when_asked() -> None:
    assert planned().audit is None
    kept = planned(audit={}).audit
    assert kept is not None
    assert kept.sink is None
    # As AI Platform had it: who looked at what is set up. Data is read by the million.
    assert set(kept.services.values()) == {("ADMIN_READ",)}
    every = planned(audit={"dataReads": True}).audit
    assert every is not None
    assert every.services["storage.googleapis.com"] == ("ADMIN_READ", "DATA_READ", "DATA_WRITE")
    exported = planned(audit={"dataAccess": False, "sink": {"bucket": "lab-audit", "retentionDays": 30}}).audit
    assert exported is not None
    assert exported.services == {}
    assert exported.sink is not None
    assert (exported.sink.bucket, exported.sink.destination) == ("lab-audit", "storage.googleapis.com/lab-audit")
    assert exported.sink.retention_days == 30
    elsewhere = "bigquery.googleapis.com/projects/security/datasets/audit"
    given = planned(audit={"sink": {"destination": elsewhere}}).audit
    assert given is not None
    assert given.sink is not None
    assert (given.sink.bucket, given.sink.destination, given.sink.retention_days) == (None, elsewhere, None)


def asked(user: str, permission: str, **more: Any) -> Answer:
    return check_access(lab(), user, permission, **more)


@pytest.mark.parametrize(
    ("user", "permission", "allowed"),
    [
        ("ana@example.com", "ml.jobs.create", True),
        ("Ana@Example.com", "ml.jobs.create", True),
        (ANA, "ml.jobs.cancel", False),
        ("ben@example.com", "ml.versions.predict", True),
        ("eve@example.com", "ml.jobs.list", True),
        ("eve@example.com", "ml.jobs.create", False),
        ("mallory@example.com", "ml.jobs.get", False),
        ("ci@lab.iam.gserviceaccount.com", "ml.jobs.create", True),
        ("group:ops@example.com", "ml.jobs.setIamPolicy", True),
    ],
)
def test_the_same_table_answers(user: str, permission: str, *, allowed: bool) -> None:
    assert asked(user, permission).allowed is allowed


def test_an_answer_says_why() -> None:
    answer = asked("ben@example.com", "ml.jobs.create")
    assert [(ground.role, ground.team) for ground in answer.grounds] == [
        ("ml.developer", "vision"),
        ("ml.developer", "speech"),
    ]
    assert answer.roles == ("ml.admin", "ml.editor", "ml.developer", "ml.jobOwner")
    assert answer.permission.means


def test_groups_are_said_by_who_asks() -> None:
    alone = asked("omar@example.com", "ml.jobs.cancel")
    assert not alone.allowed
    assert [ground.member for ground in alone.groups] == [OPS]
    assert asked("omar@example.com", "ml.jobs.cancel", groups=["ops@example.com"]).allowed


def test_who_started_a_job_owns_it() -> None:
    assert not asked(ANA, "ml.jobs.cancel", started_by="ben@example.com").allowed
    own = asked("ana@example.com", "ml.jobs.cancel", started_by="ana@example.com")
    assert [(ground.role, ground.team) for ground in own.grounds] == [("ml.jobOwner", None)]
    assert not asked(ANA, "ml.models.delete", started_by="ana@example.com").allowed


def test_what_cannot_be_answered_says_why() -> None:
    with pytest.raises(UsageError, match=r"write ml\.jobs\.cancel"):
        asked(ANA, "ml.job.cancel")
    spec = lab().model_copy(update={"access": None})
    with pytest.raises(UsageError, match=r"encamp:environment\.access"):
        check_access(spec, ANA, "ml.jobs.get")


def test_every_role_of_the_table_can_be_given() -> None:
    teams = [{"name": "all", "members": [ANA], "roles": list(ml_roles().roles)}]
    plan = planned(teams=teams)
    for permission in ml_roles().permissions:
        assert check_access(lab(teams=teams), ANA, permission).allowed
    assert {each.role.partition("-")[0] for each in plan.members} == set(ml_roles().roles)


def test_who_may_start_jobs_has_what_a_job_takes() -> None:
    job = {"jobId": "j", "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/i"}}}
    needed = set(job_permissions(plan_job(parse_job(job, source="x").job, lab())))
    held = {
        right
        for ability in ml_roles().abilities_of("ml.developer")
        for each in ability.rights.values()
        for right in each
    }
    # What is asked of the cluster itself is a rule of its own access control.
    assert {one for one in needed - held if not one.startswith("container.")} == set()
    elsewhere = given_elsewhere(needed)
    assert {"container.configMaps.create", "storage.buckets.delete", "iam.serviceAccounts.actAs"} <= elsewhere
    assert elsewhere.isdisjoint({"container.clusters.update", "storage.buckets.create", "iam.serviceAccounts.create"})


@pytest.mark.parametrize("case", ["basic-bare", "queued", "storage-own-bucket", "tpu-7x-multi-host"])
def test_who_may_start_jobs_may_make_and_take_down_every_object_of_a_job(case: str) -> None:
    found = job_case(case).job_file()
    (developing,) = (role for role in planned().cluster_roles if role.name == "encamp-ml-developer")
    allowed = {(rule.group, resource): set(rule.verbs) for rule in developing.rules for resource in rule.resources}
    sandbox = load_environment("sandbox", Path(__file__).parents[2])
    objects = [
        one.type for one in declared_resources(plan_job(found.job, sandbox)) if one.type.startswith("kubernetes:")
    ]
    assert objects
    for token in objects:
        _, version, kind = token.split(":")
        group = version.partition("/")[0]
        resource = f"{kind.lower()}s" if not kind.endswith("y") else f"{kind.lower()[:-1]}ies"
        verbs = allowed["" if group == "core" else group, resource]
        assert {"create", "delete", "get", "list", "watch"} <= verbs, token


def test_the_page_has_the_tables(*, rewrite_goldens: bool) -> None:
    page = Path(__file__).parents[2] / "docs" / "access.md"
    before, begin, rest = page.read_text().partition("<!-- access table -->\n")
    _, end, after = rest.partition("<!-- end of access table -->\n")
    written = f"{before}{begin}\n{access_table()}\n{end}{after}"
    if rewrite_goldens:
        page.write_text(written)
    assert page.read_text() == written
    every = {name for model in (AccessSpec, AuditSpec, AuditSinkSpec, TeamSpec) for name in model.model_fields}
    assert not [name for name in every if not re.search(rf"\b{to_camel(name)}[`.\[]", before)]


def test_the_pages_example_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "access.md").read_text()
    (example,) = re.findall(r"```yaml[^\n]*\n(.*?)```", page, re.DOTALL)
    config = yaml.safe_load(example)["config"]
    spec = parse_environment(config["encamp:environment"], project=config["gcp:project"], source="docs/access.md")
    plan = plan_environment(spec).access
    assert plan is not None
    assert {role.name for role in plan.cluster_roles} == {"encamp-ml-admin", "encamp-ml-developer", "encamp-ml-viewer"}
