"""What the machines of an environment's queues may cost at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.cost.prices import disk_price, machine_price
from encamp.plan.cost.queues import queue_cost_lines, queue_costs
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment
from encamp.spec.prices import built_in_prices

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

TABLE = built_in_prices()


def lab(*quotas: dict[str, Any]) -> EnvironmentPlan:
    data: dict[str, Any] = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    data |= {"queues": {"teams": {"team": {"quotas": list(quotas)}}}} if quotas else {}
    return plan_environment(parse_environment(data, project="my-project", source="test"))


def test_each_kind_counts_once_at_its_dearest() -> None:
    plan = lab({"accelerator": "NVIDIA_L4", "count": 8}, {"cpu": 64})
    on_cpus, on_gpus = queue_costs(plan, TABLE)
    pools = {pool.name: pool for pool in plan.shared_pools}
    dearest = max(
        pool.max_nodes * ((machine_price(TABLE, pool.machine_type, pool.accelerator) or 0.0) + 100 * 0.17 / 730)
        for name, pool in pools.items()
        if "l4" in name
    )
    assert on_gpus.hourly == pytest.approx(dearest, abs=1e-5)
    assert disk_price(TABLE, "pd-ssd", 100) == pytest.approx(100 * 0.17 / 730)
    assert (on_cpus.kind, on_gpus.kind) == ("on-demand", "on-demand-nvidia-l4")
    lines = queue_cost_lines((on_cpus, on_gpus))
    assert lines[1] == f"on-demand: {on_cpus.count} x {on_cpus.machine}: {on_cpus.hourly:.2f} USD an hour"
    assert lines[-1] == f"in all {(on_cpus.hourly or 0.0) + (on_gpus.hourly or 0.0):.2f} USD an hour"


def test_a_quota_without_a_limit_is_said_to_have_none() -> None:
    lines = queue_cost_lines(queue_costs(lab({"memoryGib": None}), TABLE))
    assert "1000 x n1-" in lines[1]
    assert "which no quota limits" in lines[1]


def test_a_kind_without_a_price_is_said_to_have_none() -> None:
    costs = queue_costs(lab({"cpu": 64}), TABLE.model_copy(update={"machines": {}}))
    assert queue_cost_lines(costs)[-1] == "in all not known"


def test_without_queues_nothing_is_said() -> None:
    assert queue_cost_lines(queue_costs(lab(), TABLE)) == []
