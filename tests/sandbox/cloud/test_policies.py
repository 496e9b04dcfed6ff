"""What IAM refuses of a policy, and what the three methods of every policy answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.cloud.desk import PROJECT, Desk
from tests.sandbox.cloud.examples import EXAMPLES

from encamp_sandbox.cloud.cloud import IAM_DELAY_VARIABLE, Cloud

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.cloud.desk import Answer

    from encamp_sandbox.layout import Layout
    from encamp_sandbox.storage.api import StorageServer

pytestmark = pytest.mark.slow

POLICY = f"cloudresourcemanager/v1/{PROJECT}"
ANA = "user:ana@example.com"
VIEWER = "roles/storage.objectViewer"


def condition(expression: str, title: str = "t") -> dict[str, str]:
    return {"title": title, "expression": expression}


def granting(roles: int) -> str:
    named = ", ".join(f'"roles/r{number}"' for number in range(roles))
    return f'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", []).hasOnly([{named}])'


def operators(count: int) -> str:
    return " || ".join(['resource.name.startsWith("a")'] * (count + 1))


def set_policy(desk: Desk, bindings: list[dict[str, Any]], version: int = 3, path: str = POLICY) -> Answer:
    return desk.ask("POST", f"{path}:setIamPolicy", {"policy": {"bindings": bindings, "version": version}})


@pytest.mark.parametrize(
    ("binding", "belief", "message"),
    [
        ({"role": "viewer", "members": [ANA]}, "iam-roles-fit-resources", "Role viewer is not supported"),
        ({"role": "roles/a b", "members": [ANA]}, "iam-roles-fit-resources", "Role roles/a b is not supported"),
        (
            {"role": f"{PROJECT}/roles/absent", "members": [ANA]},
            "iam-custom-roles-exist",
            f"The role named {PROJECT}/roles/absent was not found",
        ),
        ({"role": VIEWER, "members": ["trainer"]}, "iam-members-have-forms", "Invalid value for member: trainer"),
        (
            {"role": VIEWER, "members": ["serviceAccount:absent@sandbox-encamp.iam.gserviceaccount.com"]},
            "iam-accounts-exist",
            "Service account absent@sandbox-encamp.iam.gserviceaccount.com does not exist",
        ),
        (
            {"role": VIEWER, "members": ["serviceAccount:other.svc.id.goog[jobs/trainer]"]},
            "iam-identity-pool-exists",
            "Identity Pool does not exist (other.svc.id.goog)",
        ),
        (
            {"role": VIEWER, "members": [ANA], "condition": {"expression": "true"}},
            "iam-conditions-have-titles",
            "title",
        ),
        (
            {"role": VIEWER, "members": [ANA], "condition": condition("true", "t" * 101)},
            "iam-conditions-have-short-titles",
            "too long",
        ),
        (
            {"role": VIEWER, "members": [ANA], "condition": condition("what")},
            "iam-conditions-are-cel",
            "cannot be read",
        ),
        (
            {"role": VIEWER, "members": [ANA], "condition": condition(operators(13))},
            "iam-conditions-12-logical-operators",
            "has 13 logical operators",
        ),
        (
            {"role": VIEWER, "members": [ANA], "condition": condition(granting(11))},
            "iam-has-only-10-elements",
            "HasOnlyListLengthCheck",
        ),
        (
            {"role": VIEWER, "members": [f"user:u{number}@example.com" for number in range(1501)]},
            "iam-policy-1500-members",
            "number of members",
        ),
        (
            {"role": VIEWER, "members": [f"group:g{number}@example.com" for number in range(251)]},
            "iam-policy-250-groups",
            "number of groups",
        ),
    ],
)
def test_a_bad_binding_is_refused(desk: Desk, binding: dict[str, Any], belief: str, message: str) -> None:
    answer = set_policy(desk, [binding])
    assert (answer.status, answer.belief) == (400, belief)
    assert message in answer.message
    assert "bindings" not in desk.do("POST", f"{POLICY}:getIamPolicy", {})


@pytest.mark.parametrize(
    "binding",
    [
        {"role": VIEWER, "members": [ANA], "condition": condition(operators(12))},
        {"role": VIEWER, "members": [ANA], "condition": condition(granting(10))},
        {"role": VIEWER, "members": [f"user:u{number}@example.com" for number in range(1500)]},
        {"role": VIEWER, "members": [f"group:g{number}@example.com" for number in range(250)]},
    ],
)
def test_a_policy_may_reach_its_limits(desk: Desk, binding: dict[str, Any]) -> None:
    assert set_policy(desk, [binding]).status == 200


def test_a_role_and_a_member_are_in_at_most_20_conditional_bindings(desk: Desk) -> None:
    bindings = [
        {"role": VIEWER, "members": [ANA], "condition": condition(f'resource.name.startsWith("{number}")')}
        for number in range(21)
    ]
    answer = set_policy(desk, bindings)
    assert (answer.status, answer.belief) == (400, "iam-20-conditional-bindings")
    assert set_policy(desk, bindings[:20]).status == 200


def test_a_condition_needs_version_3(desk: Desk) -> None:
    conditional = [{"role": VIEWER, "members": [ANA], "condition": condition("true")}]
    answer = set_policy(desk, conditional, version=1)
    assert (answer.status, answer.belief) == (400, "iam-conditions-need-version-3")
    assert set_policy(desk, conditional).body["version"] == 3


def test_what_stands_in_a_policy_is_not_judged_again(desk: Desk) -> None:
    EXAMPLES["iam:serviceAccounts"].create(desk)
    member = "serviceAccount:trainer-1@sandbox-encamp.iam.gserviceaccount.com"
    assert set_policy(desk, [{"role": VIEWER, "members": [member]}]).status == 200
    desk.do("DELETE", EXAMPLES["iam:serviceAccounts"].path)
    [binding] = desk.do("POST", f"{POLICY}:getIamPolicy", {})["bindings"]
    assert binding["members"][0].startswith(f"deleted:{member}?uid=")
    assert set_policy(desk, [binding, {"role": VIEWER, "members": [ANA]}]).status == 200


def test_a_stale_etag_is_refused(desk: Desk) -> None:
    etag = desk.do("POST", f"{POLICY}:getIamPolicy", {})["etag"]
    policy = {"etag": etag, "bindings": [{"role": VIEWER, "members": [ANA]}]}
    assert desk.do("POST", f"{POLICY}:setIamPolicy", {"policy": policy})["etag"] != etag
    answer = desk.refused("POST", f"{POLICY}:setIamPolicy", {"policy": policy})
    assert (answer.status, answer.reason, answer.body["error"]["status"]) == (409, "aborted", "ABORTED")
    assert answer.belief == "api-stale-etag-is-409"


def test_audit_configs_stay_where_the_mask_does_not_name_them(desk: Desk) -> None:
    configs = [{"service": "storage.googleapis.com", "auditLogConfigs": [{"logType": "DATA_READ"}]}]
    named = {"policy": {"auditConfigs": configs}, "updateMask": "bindings,etag,auditConfigs"}
    assert desk.do("POST", f"{POLICY}:setIamPolicy", named)["auditConfigs"] == configs
    bound = set_policy(desk, [{"role": VIEWER, "members": [ANA]}])
    assert bound.body["auditConfigs"] == configs


def test_every_policy_tests_permissions(desk: Desk) -> None:
    token = desk.do("POST", "encamp/v1/memberTokens", {"member": ANA})["accessToken"]
    assert set_policy(desk, [{"role": VIEWER, "members": [ANA]}]).status == 200
    asked = {"permissions": ["storage.objects.get", "storage.objects.delete"]}
    answer = desk.ask("POST", f"{POLICY}:testIamPermissions", asked, token=token)
    assert answer.body == {"permissions": ["storage.objects.get"]}


def test_a_new_account_is_unknown_to_policies_for_some_moments(
    tmp_path: Path, layout: Layout, storage: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IAM_DELAY_VARIABLE, "3600")
    cloud = Cloud.open(tmp_path / "slow.sqlite3", "sandbox-encamp", layout)
    desk = Desk(cloud, layout, storage)
    EXAMPLES["iam:serviceAccounts"].create(desk)
    member = "serviceAccount:trainer-1@sandbox-encamp.iam.gserviceaccount.com"
    answer = set_policy(desk, [{"role": VIEWER, "members": [member]}])
    cloud.close()
    assert (answer.status, answer.belief) == (400, "iam-accounts-exist")


def test_a_project_has_100_service_accounts(desk: Desk) -> None:
    path = f"iam/v1/{PROJECT}/serviceAccounts"
    for number in range(100):
        email = f"account-{number}@sandbox-encamp.iam.gserviceaccount.com"
        body = {"email": email, "uniqueId": str(number)}
        desk.cloud.store.create("serviceAccount", f"{PROJECT}/serviceAccounts/{email}", body)
    answer = desk.refused("POST", path, {"accountId": "one-more"})
    assert (answer.status, answer.reason, answer.body["error"]["status"]) == (
        429,
        "rateLimitExceeded",
        "RESOURCE_EXHAUSTED",
    )
    assert answer.belief == "iam-100-accounts-a-project"
    desk.do("DELETE", f"{path}/account-0@sandbox-encamp.iam.gserviceaccount.com")
    desk.do("POST", path, {"accountId": "one-more"})
