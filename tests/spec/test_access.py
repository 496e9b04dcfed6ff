"""Teams and audit logs as written in an environment, and the table of AI Platform's roles."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.errors import Problem, SpecError
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.ml_roles import Reach, ml_roles

LAB = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
TEAM = {"name": "vision", "members": ["user:ana@example.com"], "roles": ["ml.developer"]}


def parsed(access: dict[str, Any]) -> EnvironmentSpec:
    return parse_environment(LAB | {"access": access}, project="my-project", source="x")


def problems(access: dict[str, Any]) -> dict[str, Problem]:
    with pytest.raises(SpecError) as caught:
        parsed(access)
    return {problem.path: problem for problem in caught.value.problems}


def test_a_team_and_its_audit_logs_are_read() -> None:
    audit = {"exempted": ["serviceAccount:ci@x.iam.gserviceaccount.com"], "sink": {"bucket": "lab-audit"}}
    group = {"name": "ops", "members": ["group:ops@example.com"], "roles": ["ml.admin", "ml.viewer"]}
    access = parsed({"teams": [TEAM, group], "securityGroup": "gke-security-groups@example.com", "audit": audit}).access
    assert access is not None
    assert [team.name for team in access.teams or ()] == ["vision", "ops"]
    assert access.own_accounts is None
    assert not access.cloud_tpu
    assert access.audit is not None
    assert access.audit.data_access


def test_a_person_of_a_workforce_pool_may_be_a_member() -> None:
    member = "principal://iam.googleapis.com/locations/global/workforcePools/staff/subject/ana"
    assert parsed({"teams": [TEAM | {"members": [member]}]}).access


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"name": "Vision Team"}, "access.teams[0].name", "lowercase letter"),
        ({"members": []}, "access.teams[0].members", "at least one member"),
        ({"members": ["ana@example.com"]}, "access.teams[0].members[0]", "no member"),
        ({"members": ["allUsers"]}, "access.teams[0].members[0]", "whoever has an account"),
        ({"members": ["domain:example.com"]}, "access.teams[0].members[0]", "whoever has an account"),
        ({"members": ["user:a@b.org", "user:a@b.org"]}, "access.teams[0].members[1]", "named twice"),
        ({"members": ["group:vision@example.com"]}, "access.teams[0].members[0]", "securityGroup"),
        ({"roles": None}, "access.teams[0].roles", "at least one role"),
        ({"roles": ["ml.develloper"]}, "access.teams[0].roles[0]", "write ml.developer"),
        ({"roles": ["roles/ml.viewer"]}, "access.teams[0].roles[0]", "write ml.viewer"),
        ({"roles": ["roles/ml.serviceAgent"]}, "access.teams[0].roles[0]", "job's account stands for it"),
        ({"roles": ["ml.viewer", "ml.viewer"]}, "access.teams[0].roles[1]", "named twice"),
        ({"role": ["ml.viewer"]}, "access.teams[0].role", "write `roles`"),
    ],
)
def test_a_wrong_team_says_where_and_what_to_try(change: dict[str, Any], path: str, said: str) -> None:
    written = {key: value for key, value in (TEAM | change).items() if value is not None}
    found = problems({"teams": [written]})[path]
    assert said in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    ("access", "path", "said"),
    [
        ({"securityGroup": "everyone@example.com"}, "access.securityGroup", "gke-security-groups@"),
        ({"teams": [TEAM, TEAM]}, "access.teams[1].name", "make them one"),
        ({"audit": {"exempted": ["ana"]}}, "access.audit.exempted[0]", "no member"),
        ({"audit": {"exempted": ["user:a@b.org"], "dataAccess": False}}, "access.audit.exempted", "dataAccess"),
        ({"audit": {"dataReads": True, "dataAccess": False}}, "access.audit.dataReads", "dataAccess"),
        ({"audit": {"sink": {}}}, "access.audit.sink", "one of bucket and destination"),
        ({"audit": {"sink": {"bucket": "B"}}}, "access.audit.sink.bucket", "bucket name"),
        ({"audit": {"sink": {"destination": "gs://b"}}}, "access.audit.sink.destination", "bigquery.googleapis.com"),
        ({"audit": {"sink": {"bucket": "b-c", "retentionDays": 0}}}, "access.audit.sink.retentionDays", "at least 1"),
        (
            {"audit": {"sink": {"destination": "storage.googleapis.com/b", "retentionDays": 9}}},
            "access.audit.sink.retentionDays",
            "made here",
        ),
    ],
)
def test_wrong_access_says_where_and_what_to_try(access: dict[str, Any], path: str, said: str) -> None:
    found = problems(access)[path]
    assert said in f"{found.message} {found.hint}"


def test_the_roles_hold_what_the_service_gave_them() -> None:
    roles = ml_roles().roles
    assert "ml.jobs.cancel" not in roles["ml.developer"]
    assert set(roles["ml.editor"]) == {name for name in roles["ml.admin"] if not name.endswith(".setIamPolicy")}
    assert set(roles["ml.viewer"]) < set(roles["ml.developer"]) | {"ml.studies.getIamPolicy"}
    assert roles["ml.operationOwner"] == ("ml.operations.cancel", "ml.operations.get", "ml.operations.list")
    assert {name.rpartition(".")[2] for name in roles["ml.viewer"] if name.startswith("ml.jobs.")} == {"get", "list"}


def test_every_permission_of_a_role_has_a_meaning_and_nothing_else_has_one() -> None:
    table = ml_roles()
    assert {name for held in table.roles.values() for name in held} == set(table.permissions)
    assert all(permission.means for permission in table.permissions.values())


def test_who_only_looks_may_change_nothing() -> None:
    changing = (".create", ".delete", ".update", ".setIamPolicy", ".actAs")
    for ability in ml_roles().abilities_of("ml.viewer"):
        assert not [right for rights in ability.rights.values() for right in rights if right.endswith(changing)]
        assert {verb for rule in ability.cluster for verb in rule.verbs} <= {"get", "list", "watch"}


def test_no_role_reads_secrets_or_runs_commands_in_replicas() -> None:
    table = ml_roles()
    found = {
        resource
        for role in table.roles
        for ability in table.abilities_of(role)
        for rule in ability.cluster
        for resource in rule.resources
    }
    assert found.isdisjoint({"secrets", "pods/exec", "pods/attach", "pods/portforward", "*"})


def test_policies_are_changed_only_where_a_condition_limits_it_or_on_the_jobs_own() -> None:
    limited = {
        Reach.JOB_GRANTS, Reach.ROLE_GRANTS, Reach.ARTIFACTS_GRANTS, Reach.JOB_BUCKETS, Reach.ACCOUNTS
    }  # fmt: skip
    table = ml_roles()
    for role in table.roles:
        for ability in table.abilities_of(role):
            setting = {
                reach for reach, rights in ability.rights.items() if any("setIamPolicy" in one for one in rights)
            }
            assert setting <= limited, ability.name
