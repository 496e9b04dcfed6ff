"""The production guide's figures and roles against the code's own tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from encamp.plan.access.permissions import BILLING, SECRETS_KEY, environment_permissions, roles_of
from encamp.plan.cost.idle import idle_cost
from encamp.plan.cost.prices import HOURS_OF_MONTH, price_table
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import EnvironmentSpec, MonitoringSpec, load_environment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def production() -> EnvironmentSpec:
    return load_environment("production", ROOT)


@pytest.fixture(scope="module")
def guide() -> str:
    return (ROOT / "docs" / "production.md").read_text()


def test_it_names_every_role_that_bringing_the_example_up_takes(production: EnvironmentSpec, guide: str) -> None:
    needed = {
        *environment_permissions(plan_environment(production)).values(),
        *roles_of(BILLING).values(),
        *roles_of(SECRETS_KEY).values(),
    }
    listed = set(re.findall(r"`(roles/[A-Za-z.]+)`", guide.partition("## 3.")[0].partition("## 2.")[2]))
    assert listed == needed


def test_an_idle_environment_costs_what_the_preview_says(production: EnvironmentSpec, guide: str) -> None:
    cost = idle_cost(plan_environment(production), price_table(production))
    rows = [float(each) for each in re.findall(r"\| (\d+\.\d\d) \|", guide.partition("## 8.")[2])]
    assert rows == [round((part.hourly or 0) * HOURS_OF_MONTH, 2) for part in cost.parts]
    (together,) = re.findall(r"\*\*(\d+\.\d\d)\*\*", guide)
    assert float(together) == cost.monthly


def test_the_page_on_monitoring_says_every_field_with_its_default() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    spec = MonitoringSpec()
    for field, default in (
        ("pendingMinutes", spec.pending_minutes),
        ("longestJobHours", spec.longest_job_hours),
        ("silentMinutes", spec.silent_minutes),
    ):
        (row,) = re.findall(rf"^\| `{field}` \| (.*) \|$", page, re.MULTILINE)
        assert re.search(rf"\b{default}\b", row), field
    assert {f"`{field}`" for field in ("emails", "channels")} <= set(re.findall(r"`[a-zA-Z]+`", page))
