"""What teams' roles allow, and what they do not, once the sandbox's IAM has them as planned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.access.planning import plan_access
from encamp.spec.environment import parse_environment
from encamp.spec.ml_roles import Reach
from encamp_sandbox.cloud.database import open_database
from encamp_sandbox.cloud.iam.methods import modified_roles
from encamp_sandbox.cloud.iam.policies import Binding
from encamp_sandbox.cloud.tokens import KeyFile, Principal, Tokens
from encamp_sandbox.project import project_number
from encamp_sandbox.provider import ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    import httpx
    from tests.sandbox.cloud.conftest import Processes

    from encamp.plan.access.model import AccessPlan
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.gcp_provider.session import GcpSession

pytestmark = pytest.mark.slow

PROJECT = "projects/sandbox-encamp"
SERVICE = "gcp:projects/service:Service"
BUCKET = "gcp:storage/bucket:Bucket"
MEMBERS = {
    Reach.ARTIFACTS: "gcp:storage/bucketIAMMember:BucketIAMMember",
    Reach.ARTIFACTS_GRANTS: "gcp:storage/bucketIAMMember:BucketIAMMember",
    Reach.MODELS: "gcp:storage/bucketIAMMember:BucketIAMMember",
}
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
CUSTOM_ROLE = "gcp:projects/iAMCustomRole:IAMCustomRole"
AUDIT_CONFIG = "gcp:projects/iAMAuditConfig:IAMAuditConfig"
SINK = "gcp:logging/projectSink:ProjectSink"
SERVICE_IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"
DEVELOPER, VIEWER, USER, ADMIN = (
    Principal(f"{name}@team.iam.gserviceaccount.com", admin=False) for name in ("dev", "view", "user", "admin")
)
ROLES = {"ml.developer": DEVELOPER, "ml.viewer": VIEWER, "ml.modelUser": USER, "ml.admin": ADMIN}


def create(session: GcpSession, token: str, inputs: dict[str, Any]) -> ResourceState:
    thing = Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")

    async def work() -> ResourceState:
        checked = await session.check(thing, {}, inputs, seed=b"seed")
        assert [failure.reason for failure in checked.failures] == []
        made = await session.create(thing, checked.inputs, time_limit=None, preview=False)
        return ResourceState(made.resource_id, checked.inputs, made.outputs)

    return asyncio.run(work())


def refused(session: GcpSession, token: str, inputs: dict[str, Any]) -> str:
    """What the provider says at the preview or, if nothing, the API at the create."""
    thing = Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")
    told = [each.reason for each in asyncio.run(session.check(thing, {}, inputs, seed=b"s")).failures]
    if told:
        return " ".join(told)
    try:
        create(session, token, inputs)
    except ProviderError as error:
        return str(error)
    return ""


@pytest.fixture
def teams(session: GcpSession) -> AccessPlan:
    """An environment's access, made as its component makes it."""
    block = [{"name": who.email[:3], "members": [who.member], "roles": [role]} for role, who in ROLES.items()]
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "access": {"teams": block}}
    plan = plan_access(parse_environment(data, project="sandbox-encamp", source="x"))
    assert plan is not None
    for bucket in ("lab-artifacts", "digits-1a2b3c4d-scratch-5e6f7a8b", "payroll"):
        create(session, BUCKET, {"name": bucket, "location": "US-CENTRAL1", "uniformBucketLevelAccess": True})
    names = {}
    for role in plan.roles:
        inputs = {"roleId": role.role_id, "title": role.title, "permissions": list(role.permissions)}
        names[role.key] = create(session, CUSTOM_ROLE, inputs).outputs["name"]
    for held in plan.members:
        on_bucket = held.reach in MEMBERS
        inputs = {"role": names[held.role], "member": held.member}
        inputs |= {"bucket": "lab-artifacts"} if on_bucket else {"project": "sandbox-encamp"}
        if held.condition is not None:
            inputs["condition"] = {"title": held.condition.title, "expression": held.condition.expression}
        create(session, MEMBERS.get(held.reach, PROJECT_MEMBER), inputs)
    return plan


def test_roles_reach_what_they_are_for_and_nothing_else(teams: AccessPlan, cloud: Cloud) -> None:
    assert teams.node_account is None
    allows, storage = cloud.access.allows, cloud.access.allows_storage
    for who, making in ((DEVELOPER, True), (VIEWER, False), (USER, False), (ADMIN, True)):
        assert allows(who, "container.clusters.update") is making
        assert allows(who, "storage.buckets.create") is making
        assert allows(who, "container.clusters.get") is (who is not USER)
        scratch = "digits-1a2b3c4d-scratch-5e6f7a8b"
        assert storage(who, "storage.buckets.delete", scratch) is making
        assert storage(who, "storage.objects.create", scratch, "package.whl") is making
        assert storage(who, "storage.objects.create", "lab-artifacts", "jobs/1/log") is making
        assert storage(who, "storage.objects.get", "lab-artifacts", "jobs/1/log") is (who is not USER)
        assert storage(who, "storage.objects.get", "lab-artifacts", "models/digits/1/model") is True
        assert storage(who, "storage.objects.list", "lab-artifacts", prefix="models/") is True
        for permission in ("storage.objects.get", "storage.objects.delete", "storage.objects.create"):
            assert not storage(who, permission, "payroll", "2026.csv")
        assert not storage(who, "storage.buckets.setIamPolicy", "payroll")
        assert not allows(who, "iam.serviceAccounts.actAs")
    assert not storage(USER, "storage.objects.list", "lab-artifacts")


def test_who_starts_jobs_gives_the_roles_of_jobs_and_who_manages_gives_ml_roles(
    teams: AccessPlan, cloud: Cloud
) -> None:
    viewing = f"{PROJECT}/roles/{next(role.role_id for role in teams.roles if role.key == 'ml.viewer-project')}"

    def gives(who: Principal, *roles: str) -> bool:
        return cloud.access.allows(who, "resourcemanager.projects.setIamPolicy", resource=PROJECT, modified_roles=roles)

    assert gives(DEVELOPER, "roles/logging.logWriter", "roles/monitoring.metricWriter")
    assert not gives(DEVELOPER, "roles/logging.logWriter", "roles/owner")
    assert not gives(DEVELOPER, viewing)
    assert gives(ADMIN, viewing)
    assert not gives(ADMIN, "roles/owner")
    # Without its condition this one would let them change the whole policy.
    changing = f"{PROJECT}/roles/{next(role.role_id for role in teams.roles if role.key == 'ml.admin-roleGrants')}"
    assert not gives(ADMIN, changing)
    assert not gives(ADMIN, viewing, changing)
    assert not gives(VIEWER, "roles/logging.logWriter")
    artifacts = cloud.access.allows_storage
    giving = "storage.buckets.setIamPolicy"
    assert artifacts(DEVELOPER, giving, "lab-artifacts", modified_roles=("roles/storage.objectUser",))
    assert not artifacts(DEVELOPER, giving, "lab-artifacts", modified_roles=("roles/storage.admin",))


def test_a_policys_change_is_of_the_roles_whose_members_differ() -> None:
    condition = {"title": "t", "expression": "true"}
    present = [Binding("roles/viewer", ("user:a@b.c",)), Binding("roles/owner", ("user:o@b.c",), condition)]
    shown = {"bindings": [each.json() for each in present]}
    assert modified_roles(present, shown) == ()
    assert modified_roles(present, {"bindings": [present[0].json()]}) == ("roles/owner",)
    other = {"role": "roles/viewer", "members": ["user:a@b.c", "user:d@b.c"]}
    assert modified_roles(present, {"bindings": [other, present[1].json()]}) == ("roles/viewer",)
    bare = {"role": "roles/owner", "members": ["user:o@b.c"]}
    assert modified_roles(present, {"bindings": [present[0].json(), bare]}) == ("roles/owner",)


def test_a_policy_is_set_as_far_as_the_condition_reaches(processes: Processes) -> None:
    email = "granter@team.iam.gserviceaccount.com"
    limited = 'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", []).hasOnly(["roles/logging.logWriter"])'
    admins = {
        "role": "roles/resourcemanager.projectIamAdmin",
        "members": [f"serviceAccount:{email}"],
        "condition": {"title": "limited", "expression": limited},
    }
    path = f"/cloudresourcemanager/v1/{PROJECT}"
    with processes.client() as admin:
        before = admin.post(f"{path}:getIamPolicy", json={}).json().get("bindings", [])
        kept = [*before, admins]
        assert admin.post(f"{path}:setIamPolicy", json={"policy": {"bindings": kept, "version": 3}}).status_code == 200

        def asked(client: httpx.Client, role: str) -> int:
            granted = {"role": role, "members": ["user:ana@example.com"]}
            policy = {"bindings": [*kept, granted], "version": 3}
            return client.post(f"{path}:setIamPolicy", json={"policy": policy}).status_code

        with processes.client(token_of(processes, email)) as granter:
            assert asked(granter, "roles/owner") == 403
            assert asked(granter, "roles/logging.logWriter") == 200
        assert admin.post(f"{path}:setIamPolicy", json={"policy": {"bindings": before}}).status_code == 200


def token_of(processes: Processes, email: str) -> str:
    """A token for an account of another project, which only the cloud itself can give."""
    database = open_database(processes.layout.cloud_database)
    try:
        key = KeyFile.read(processes.layout.google_credentials)
        return Tokens(database, key, processes.layout.token).issue(email)[0]
    finally:
        database.close()


@pytest.mark.parametrize(
    ("token", "change", "said"),
    [
        (CUSTOM_ROLE, {"roleId": "with-hyphens"}, "{3,64}"),
        (CUSTOM_ROLE, {"title": "t" * 101}, "1 to 100"),
        (CUSTOM_ROLE, {"stage": "LIVE"}, "expected stage"),
        (AUDIT_CONFIG, {"service": "storage"}, "no name of a service"),
        (AUDIT_CONFIG, {"auditLogConfigs": []}, "at least one type"),
        (AUDIT_CONFIG, {"auditLogConfigs": [{"logType": "READ"}]}, "no type of an audit log"),
        (SINK, {"destination": "gs://b"}, "no destination"),
        (SINK, {"name": "a sink"}, "letters, digits"),
        (SERVICE_IDENTITY, {"service": "tpu"}, "no name of a service"),
    ],
)
def test_what_is_refused(session: GcpSession, token: str, change: dict[str, Any], said: str) -> None:
    usual: dict[str, dict[str, Any]] = {
        CUSTOM_ROLE: {"roleId": "encamp_x", "title": "x", "permissions": ["storage.objects.get"]},
        AUDIT_CONFIG: {
            "project": "sandbox-encamp",
            "service": "storage.googleapis.com",
            "auditLogConfigs": [{"logType": "DATA_READ"}],
        },
        SINK: {"name": "s", "destination": "storage.googleapis.com/b"},
        SERVICE_IDENTITY: {"service": "tpu.googleapis.com"},
    }
    assert said in refused(session, token, usual[token] | change)


def test_what_only_the_api_refuses(session: GcpSession) -> None:
    role = {"roleId": "encamp_x", "title": "x"}
    refusals: tuple[tuple[list[str], str], ...] = (
        ([], "at least one permission"),
        (["storage.get"], "is not valid"),
        (["resourcemanager.projects.list"], "not supported in custom roles at the project level"),
    )
    for permissions, said in refusals:
        with pytest.raises(ProviderError, match=said):
            create(session, CUSTOM_ROLE, role | {"permissions": permissions})
    with pytest.raises(ProviderError, match="Cloud Logging's own"):
        create(session, SINK, {"name": "_Default", "destination": "storage.googleapis.com/b"})
    with pytest.raises(ProviderError, match="is not enabled"):
        create(session, SERVICE_IDENTITY, {"service": "tpu.googleapis.com"})
    nobody = {"project": "sandbox-encamp", "role": f"{PROJECT}/roles/nobodys", "member": "user:a@b.org"}
    with pytest.raises(ProviderError, match="was not found"):
        create(session, PROJECT_MEMBER, nobody)


def test_sinks_agents_and_audit_configs_say_what_google_computes(session: GcpSession, cloud: Cloud) -> None:
    number = project_number("sandbox-encamp")
    sink = create(session, SINK, {"name": "s", "destination": "storage.googleapis.com/b"})
    writer = f"serviceAccount:service-{number}@gcp-sa-logging.iam.gserviceaccount.com"
    assert sink.outputs["writerIdentity"] == writer
    create(session, SERVICE, {"service": "tpu.googleapis.com"})
    agent = create(session, SERVICE_IDENTITY, {"service": "tpu.googleapis.com"})
    assert agent.outputs["email"] == f"service-{number}@gcp-sa-tpu.iam.gserviceaccount.com"
    inputs = {"project": "sandbox-encamp", "service": "storage.googleapis.com"}
    audit = create(session, AUDIT_CONFIG, inputs | {"auditLogConfigs": [{"logType": "DATA_READ"}]})
    assert audit.resource_id == "sandbox-encamp/audit_config/storage.googleapis.com"
    configs = [{"service": "storage.googleapis.com", "auditLogConfigs": [{"logType": "DATA_READ"}]}]
    assert cloud.policies.show(PROJECT)["auditConfigs"] == configs
