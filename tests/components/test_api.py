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
    own = (" api", " api-pod")
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


def test_it_hands_jobs_over_and_reads_no_secret(declared: Callable[[str], Resources]) -> None:
    resources = declared("with-an-api")
    roles = [one for key, one in resources.items() if key.endswith("Role api")]
    (drivers,) = [one for key, one in resources.items() if key.endswith("Namespace driver")]
    assert [role["metadata"]["namespace"] for role in roles] == [drivers["metadata"]["name"]]
    verbs = {
        (resource, verb) for role in roles for rule in role["rules"] for resource in rule["resources"]
        for verb in rule["verbs"]
    }  # fmt: skip
    assert verbs == {("jobs", "create"), ("jobs", "delete"), ("jobs", "get"), ("secrets", "create")}
