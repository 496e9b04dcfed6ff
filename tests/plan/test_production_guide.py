"""The production guide's figures and roles against the code's own tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from encamp.plan.environment import plan_environment
from encamp.plan.permissions import BILLING, SECRETS_KEY, environment_permissions, roles_of
from encamp.plan.prices import disk_price, machine_price, price_table
from encamp.spec.environment import EnvironmentSpec, MonitoringSpec, load_environment
from encamp.spec.environment.gke import SystemPoolSpec

ROOT = Path(__file__).parents[2]
HOURS = 730


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


def test_an_idle_environment_costs_what_the_table_says(production: EnvironmentSpec, guide: str) -> None:
    table = price_table(production)
    pool = SystemPoolSpec()
    machine, disk = machine_price(table, pool.machine_type, None), disk_price(table, "pd-balanced", 100)
    assert machine is not None
    assert disk is not None
    rows = [float(each) for each in re.findall(r"\| (\d+\.\d\d) \|", guide.partition("## 8.")[2])]
    assert rows[1:3] == [round(pool.min_nodes * machine * HOURS, 2), round(disk * HOURS, 2)]
    (together,) = re.findall(r"\*\*(\d+\.\d\d)\*\*", guide)
    assert float(together) == round(sum(rows), 2)


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
