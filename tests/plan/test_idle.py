from __future__ import annotations

from typing import Any

import pytest

from encamp.plan.cost.idle import idle_cost, idle_lines
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment
from encamp.spec.prices import PriceTableSpec, built_in_prices

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
TABLE = built_in_prices()


def kinds(project: str = "my-project", table: PriceTableSpec = TABLE, **more: Any) -> dict[str, int]:
    plan = plan_environment(parse_environment(DATA | more, project=project, source="x"))
    return {part.what: part.count for part in idle_cost(plan, table).parts}


def test_an_environment_pays_for_its_cluster_its_way_out_and_what_runs_always() -> None:
    spec = parse_environment(DATA, project="my-project", source="x")
    plan = plan_environment(spec)
    pool = plan.gke.system_pool
    assert pool is not None
    cost = idle_cost(plan, TABLE)
    machine = TABLE.machines[pool.machine_type].usd_per_hour or 0.0
    assert cost.hourly == pytest.approx(0.1 + 0.0448 + pool.min_nodes * (machine + 10 / 730), abs=1e-5)
    assert cost.monthly == pytest.approx((cost.hourly or 0.0) * 730, abs=0.01)
    assert idle_lines(cost)[-1] == (
        f"in all {cost.hourly:.4f} USD an hour, {cost.monthly:.2f} USD a month (prices of us-central1, 2026-07-30)"
    )


def test_what_is_adopted_is_paid_for_by_others() -> None:
    assert kinds(adopt=["cluster"]) == {}
    assert "Cloud NAT gateway" not in kinds(adopt=["network"])
    assert "GKE cluster" in kinds(adopt=["network"])


def test_the_sandbox_has_no_machines_that_run_always() -> None:
    assert kinds(project="sandbox-x") == {"GKE cluster": 1, "Cloud NAT gateway": 1}


def test_a_table_without_a_price_says_of_what() -> None:
    plan = plan_environment(parse_environment(DATA, project="my-project", source="x"))
    cost = idle_cost(plan, TABLE.model_copy(update={"services": {}}))
    assert (cost.hourly, cost.monthly) == (None, None)
    assert idle_lines(cost) == [
        "what the environment costs without jobs is not known: no price of Cloud NAT gateway, GKE cluster"
    ]
