"""The jobs API in an environment's cluster: what it is made of, and what it may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

Resources = dict[str, dict[str, Any]]


def test_an_environment_with_a_jobs_api_is_what_its_golden_says(
    declared: Callable[[str], Resources], same_as_golden: Callable[[Resources, str], None]
) -> None:
    own = (" api", " api-pod", " api-submit", " api-logs")
    same_as_golden({key: one for key, one in declared("with-an-api").items() if key.endswith(own)}, "api")


def test_it_sees_of_jobs_what_their_drivers_see(declared: Callable[[str], Resources]) -> None:
    resources = declared("with-an-api")
    project = "my-lab-project.iam.gserviceaccount.com"
    accounts = {
        key.rpartition(" ")[2]: f"serviceAccount:{inputs['accountId']}@{project}"
        for key, inputs in resources.items()
        if key.startswith("gcp:serviceaccount/account:Account") and key.endswith((" api", " driver"))
    }
    held: dict[str, set[tuple[str, Any]]] = {}
    for key, inputs in resources.items():
        if "Member" in key.partition(" ")[0] and inputs["member"] in accounts.values():
            expression = (inputs.get("condition") or {}).get("expression")
            held.setdefault(inputs["member"], set()).add((inputs["role"], expression))
    assert held[accounts["api"]]
    assert held[accounts["api"]] == held[accounts["driver"]]


def test_it_hands_jobs_over_reads_logs_and_no_secret(declared: Callable[[str], Resources]) -> None:
    resources = declared("with-an-api")
    (drivers,) = [one for key, one in resources.items() if key.endswith("Namespace driver")]
    found = {
        (role["metadata"]["namespace"], resource, verb)
        for key, role in resources.items()
        if key.partition(" ")[0].endswith("Role") and " api" in key
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    name = drivers["metadata"]["name"]
    assert found == {
        (name, "jobs", "create"),
        (name, "jobs", "delete"),
        (name, "jobs", "get"),
        (name, "secrets", "create"),
        ("encamp-jobs", "pods", "get"),
        ("encamp-jobs", "pods", "list"),
        ("encamp-jobs", "pods/log", "get"),
    }
