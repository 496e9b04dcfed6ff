"""IAM's limits on conditions and policies, and that whatever an environment plans stays within them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import PlanError
from encamp.plan.access.iam_limits import PolicyBinding, expression_problems, policy_problems
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment
from encamp.spec.ml_roles import Reach, ml_roles
from encamp_sandbox.cloud.iam.conditions import Attributes, holds

if TYPE_CHECKING:
    from encamp.plan.access.model import AccessPlan
    from encamp.plan.model import EnvironmentPlan

KNOWN = {"securityGroup": "gke-security-groups@example.com"}
GRANTS = 'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", [])'
ANA = "user:ana@example.com"
IN_CLUSTER = {"image": "r/encamp:1", "backendUrl": "gs://state", "recordSecret": "record"}
#: Who holds one of these may give anybody everything, or what another role gives under a condition only.
ON_THE_PROJECT = {Reach.PROJECT, Reach.ACCOUNTS}


def planned(teams: list[dict[str, Any]], **more: Any) -> EnvironmentPlan:
    data = {
        "name": "lab",
        "region": "us-central1",
        "artifactsBucket": "lab-artifacts",
        "access": {"teams": teams} | KNOWN,
    }
    return plan_environment(parse_environment(data | more, project="lab-project", source="x"))


def access_of(plan: EnvironmentPlan) -> AccessPlan:
    assert plan.access is not None
    return plan.access


def rules(expression: str) -> list[str]:
    return [problem.rule for problem in expression_problems(expression)]


def numbers(count: int) -> str:
    return ", ".join(map(str, range(count)))


@pytest.mark.parametrize(
    ("expression", "broken"),
    [
        ("1 < 2", []),
        (" || ".join(f"{each}<{each + 1}" for each in range(13)), []),
        (" || ".join(f"{each}<{each + 1}" for each in range(14)), ["iam-condition-operators"]),
        ("!a && !b && !c && !d && !e && !f && g", []),
        ("!a && !b && !c && !d && !e && !f && !g", ["iam-condition-operators"]),
        ("a != b" + ' && a == "||"' * 12, []),
        (f"{GRANTS}.hasOnly([{numbers(10)}])", []),
        (f"{GRANTS}.hasOnly([{numbers(11)}])", ["iam-has-only-length"]),
        (f"{GRANTS}.hasOnly([ ])", []),
        (f"{GRANTS}.hasOnly([{numbers(10)}]) || {GRANTS}.hasOnly([{numbers(11)}])", ["iam-has-only-length"]),
        ("api.getAttribute('k', []).hasOnly(['a, b', \"c]\"])", []),
        ("api.getAttribute('somekey', []).hasOnly(['somevalue', resource.name])", ["iam-has-only-constants"]),
        (
            "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', ['roles/viewer']).hasOnly(['roles/editor'])",
            ["iam-grants-default"],
        ),
    ],
)
def test_a_condition_is_judged_as_googles_linter_does(expression: str, broken: list[str]) -> None:
    assert rules(expression) == broken


def test_a_policy_counts_each_appearance_of_a_principal_and_each_group_once() -> None:
    people = [PolicyBinding(f"roles/r{each}", [ANA]) for each in range(1500)]
    assert not list(policy_problems(people))
    assert [one.rule for one in policy_problems(people, [ANA])] == ["iam-policy-principals"]
    assert [one.rule for one in policy_problems([*people, PolicyBinding("roles/x", [ANA])])] == [
        "iam-policy-principals"
    ]
    groups = [f"group:g{each}@example.com" for each in range(250)]
    assert not list(policy_problems([PolicyBinding("roles/a", groups), PolicyBinding("roles/b", groups)]))
    with_domain = [PolicyBinding("roles/a", [*groups, "domain:example.com"])]
    assert [one.rule for one in policy_problems(with_domain)] == ["iam-policy-groups"]


def test_one_member_has_a_role_under_twenty_conditions_at_most() -> None:
    bindings = [PolicyBinding("roles/a", [ANA], f'resource.name == "{each}"') for each in range(20)]
    # Another role, another member and the same condition once more are not counted.
    others = [
        PolicyBinding("roles/b", [ANA], "true"),
        PolicyBinding("roles/a", ["user:b@example.com"], "x"),
        bindings[0],
    ]
    assert not list(policy_problems([*bindings, *others, PolicyBinding("roles/a", [ANA])]))
    (problem,) = policy_problems([*bindings, PolicyBinding("roles/a", [ANA], "true")])
    assert problem.rule == "iam-conditions-of-one-member"


TEAMS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["vision", "speech", "ops", "finance"]),
            "members": st.lists(
                st.sampled_from([ANA, "group:a@example.com", "serviceAccount:c@lab.iam.gserviceaccount.com"]),
                min_size=1,
                unique=True,
            ),
            "roles": st.lists(st.sampled_from(sorted(ml_roles().roles)), min_size=1, unique=True),
        }
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda team: str(team["name"]),
)


@given(teams=TEAMS, driver=st.booleans(), reaper=st.booleans())
def test_whatever_an_environment_plans_stays_within_the_limits(
    teams: list[dict[str, Any]], *, driver: bool, reaper: bool
) -> None:
    more = {"driver": IN_CLUSTER} if driver else {}
    plan = planned(teams, **more, **({"reaper": IN_CLUSTER} if reaper else {}))
    conditions = [each.condition for each in access_of(plan).members if each.condition is not None]
    conditions += [plan.reaper.grants] if plan.reaper is not None else []
    assert not [problem for each in conditions for problem in expression_problems(each.expression)]


@given(teams=TEAMS)
def test_who_gives_ml_roles_gives_those_that_need_no_condition_and_each_of_them_at_once(
    teams: list[dict[str, Any]],
) -> None:
    plan = access_of(planned([*teams, {"name": "admins", "members": [ANA], "roles": ["ml.admin"]}]))
    (expression,) = {
        each.condition.expression
        for each in plan.members
        if each.reach is Reach.ROLE_GRANTS and each.condition is not None
    }

    def may_give(*keys: str) -> bool:
        modified = tuple(f"projects/lab-project/roles/{role.role_id}" for role in plan.roles if role.key in keys)
        assert len(modified) == len(keys)
        return holds(expression, Attributes("", "", modified_roles=modified))

    reaches = {(each.role, each.reach) for each in plan.members}
    for role in {key.partition("-")[0] for key, _ in reaches}:
        own = {key: reach for key, reach in reaches if key.partition("-")[0] == role}
        free = [key for key, reach in own.items() if reach in ON_THE_PROJECT]
        assert may_give(*free)
        for key in set(own) - set(free):
            assert not may_give(key), key
            assert not may_give(*free, key), key
    assert not holds(expression, Attributes("", "", modified_roles=("roles/owner",)))


def test_nobody_can_give_themselves_what_they_have_under_a_condition() -> None:
    """Of a change to a policy IAM tells the roles, not the conditions: without one, a grant would be the project."""
    plan = access_of(planned([{"name": "all", "members": [ANA], "roles": sorted(ml_roles().roles)}]))
    conditional = {each.role for each in plan.members if each.condition is not None}
    given = {each.condition.expression for each in plan.members if each.condition is not None}
    ids = [role.role_id for role in plan.roles if role.key in conditional]
    assert len(ids) > 10
    assert not [role_id for role_id in ids for expression in given if f'/roles/{role_id}"' in expression]


def test_more_members_than_a_policy_holds_are_refused_with_the_way_out() -> None:
    people = [f"user:u{each}@example.com" for each in range(600)]
    with pytest.raises(PlanError, match="IAM takes 1500") as found:
        planned([{"name": "vision", "members": people, "roles": ["ml.developer"]}])
    assert found.value.where == "encamp:environment.access.teams"
    assert "group:" in str(found.value.hint)
    planned([{"name": "vision", "members": people[:300], "roles": ["ml.developer"]}])
    groups = [f"group:g{each}@example.com" for each in range(251)]
    with pytest.raises(PlanError, match="251 groups"):
        planned([{"name": "vision", "members": groups, "roles": ["ml.viewer"]}])
