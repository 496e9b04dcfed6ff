"""Where an environment's drivers run, and what they may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

Resources = dict[str, dict[str, Any]]


def test_an_environment_with_drivers_is_what_its_golden_says(
    declared: Callable[[str], Resources], same_as_golden: Callable[[Resources, str], None]
) -> None:
    own = (" driver", " driver-pod", " submit", " drivers-only")
    same_as_golden({key: one for key, one in declared("with-drivers").items() if key.endswith(own)}, "driver")


def test_a_driver_has_the_rights_of_who_may_start_jobs_and_no_other(declared: Callable[[str], Resources]) -> None:
    resources = declared("with-drivers")
    account = resources["gcp:serviceaccount/account:Account driver"]["accountId"]
    driver = f"serviceAccount:{account}@my-lab-project.iam.gserviceaccount.com"
    held: dict[str, set[tuple[str, tuple[Any, ...]]]] = {}
    for key, inputs in resources.items():
        if "Member" in key.partition(" ")[0] and inputs["member"] in {driver, "user:ana@example.com"}:
            expression = (inputs.get("condition") or {}).get("expression")
            where = (inputs.get("bucket"), inputs.get("serviceAccountId"), expression)
            held.setdefault(inputs["member"], set()).add((inputs["role"], where))
    assert held[driver]
    assert held[driver] == held["user:ana@example.com"]
    (binding,) = [
        inputs
        for key, inputs in resources.items()
        if key.endswith("RoleBinding encamp-ml-developer") and inputs["metadata"]["namespace"] == "encamp-jobs"
    ]
    assert driver.removeprefix("serviceAccount:") in {subject["name"] for subject in binding["subjects"]}
    # Its pods reach the API server by their own tokens.
    pods = [subject for subject in binding["subjects"] if subject["kind"] == "ServiceAccount"]
    assert pods == [{"kind": "ServiceAccount", "name": account, "namespace": account}]


def test_only_who_may_start_jobs_may_hand_them_over(declared: Callable[[str], Resources]) -> None:
    (binding,) = [one for key, one in declared("with-drivers").items() if key.endswith("RoleBinding submit")]
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [
        ("User", "ana@example.com"),
        ("User", "ben@example.com"),
    ]
    (role,) = [one for key, one in declared("with-drivers").items() if key.endswith("Role submit")]
    # Whoever could read the Secrets there could read the record's password.
    assert {verb for rule in role["rules"] if "secrets" in rule["resources"] for verb in rule["verbs"]} == {"create"}
