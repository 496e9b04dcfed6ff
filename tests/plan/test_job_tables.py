"""Plans of jobs by the tables in ``jobs/``: each row is a job file and the facts that its plan must have."""

from __future__ import annotations

from typing import Any

import pytest
from tests.job_cases import TABLES, example_cases, golden_cases, table_cases
from tests.job_facts import at, facts
from tests.plan.planned import plan_case

from encamp.errors import PlanError
from encamp.plan.document import job_document
from encamp.plan.storage import NO_OUTPUT

ROWS = table_cases()
REFUSED = [name for name, case in ROWS.items() if "error" in case.expected]
PLANNED = [name for name in ROWS if name not in REFUSED]


def expected_warning(text: str) -> bool:
    """Whether a warning has to stand in a row: two that most rows would repeat are tested elsewhere."""
    return text != NO_OUTPUT and "asks for Python" not in text


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_has_the_facts_of_its_row(name: str) -> None:
    case = ROWS[name]
    planned = plan_case(case)
    objects = {one["kind"]: one for one in planned.manifests}
    found: dict[str, Any] = facts(planned.plan, objects)
    found["warnings"] = [text for text in planned.warnings if expected_warning(text)]
    found["study"] = planned.plan.study and planned.plan.study.to_json()
    none: list[str] = []
    wanted: dict[str, Any] = {"warnings": none} | case.expected
    whole = {"document": job_document(planned.plan), **objects}
    found["at"] = {path: at(whole, path) for path in wanted.get("at", {})}
    assert {fact: found[fact] for fact in wanted} == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_a_job_that_cannot_run_is_refused_with_the_error_of_its_row(name: str) -> None:
    with pytest.raises(PlanError) as refused:
        plan_case(ROWS[name])
    assert str(refused.value) == ROWS[name].expected["error"].rstrip("\n")


def test_every_row_states_facts_and_has_a_name_of_its_own() -> None:
    assert [name for name, case in ROWS.items() if not case.expected] == []
    assert ROWS.keys().isdisjoint(golden_cases())
    assert {case.table for case in ROWS.values()} == {path.stem for path in TABLES.glob("*.yaml")}


def test_every_example_has_a_row() -> None:
    assert example_cases()
    assert example_cases().keys() <= ROWS.keys()
