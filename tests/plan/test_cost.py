from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import PlanError
from encamp.plan.cost import cost, cost_text, prices
from encamp.plan.job import plan_job
from encamp.plan.limits import limits
from encamp.plan.model import Accelerator, NodePoolPlan
from encamp.plan.prices import hourly_price
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

T4 = Accelerator("nvidia-tesla-t4", 2)
A100 = Accelerator("nvidia-tesla-a100", 1)


@pytest.fixture
def plan(environment: EnvironmentSpec) -> Callable[..., JobPlan]:
    """Plans a job with a budget in USD, None for none."""

    def build(budget: float | None = None, **fields: Any) -> JobPlan:
        given = {
            "region": "us-central1",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "packageUris": ["gs://packages/trainer.tar.gz"],
            "pythonModule": "trainer.task",
        }
        data: dict[str, Any] = {"jobId": "j", "trainingInput": given | fields}
        if budget is not None:
            data["encamp"] = {"budget": {"usd": budget}}
        return plan_job(parse_job(data, source="test").job, environment)

    return build


def test_attached_gpus_are_added_to_their_machine_and_built_in_ones_are_part_of_it() -> None:
    machine = hourly_price("n1-standard-8", None, spot=False)
    with_gpus = hourly_price("n1-standard-8", T4, spot=False)
    assert machine is not None
    assert with_gpus == pytest.approx(machine + 2 * 0.35)
    assert hourly_price("a2-highgpu-1g", A100, spot=False) == hourly_price("a2-highgpu-1g", None, spot=False)


def test_spot_is_cheaper_and_unknown_is_not_guessed() -> None:
    dear, cheap = (hourly_price("n1-standard-8", T4, spot=spot) for spot in (False, True))
    assert dear is not None
    assert cheap is not None
    assert cheap < dear
    assert hourly_price("n9-unheard-of-4", None, spot=False) is None
    assert hourly_price("n1-standard-8", Accelerator("nvidia-unheard-of", 1), spot=False) is None


def test_a_tpu_host_has_the_price_of_its_chips() -> None:
    assert hourly_price("ct5lp-hightpu-4t", Accelerator("tpu-v5-lite-podslice", 4), spot=False) == 4.8


def pool(provisioning: str, nodes: int = 1, machine_type: str = "n1-standard-8") -> NodePoolPlan:
    return NodePoolPlan(
        name="p",
        machine_type=machine_type,
        accelerator=None,
        tpu_topology=None,
        min_nodes=0,
        max_nodes=nodes,
        disk_type="pd-ssd",
        disk_size_gb=100,
        max_run_duration_seconds=60,
        labels={},
        taint=("a", "b", "c"),
        provisioning=provisioning,
    )


def test_every_node_counts_until_the_deadline() -> None:
    bounds = limits(None)
    planned = cost([pool("ON_DEMAND", 3), pool("ON_DEMAND", 2)], bounds, None)
    each = hourly_price("n1-standard-8", None, spot=False)
    assert each is not None
    assert planned.hourly == pytest.approx(5 * each)
    assert planned.worst_case == pytest.approx(5 * each * bounds.deadline_seconds / 3600, abs=0.01)


@pytest.mark.parametrize("provisioning", ["FLEX_START", "QUEUED", "RESERVATION"])
def test_all_but_spot_cost_what_on_demand_costs(provisioning: str) -> None:
    bounds = limits(None)
    assert cost([pool(provisioning)], bounds, None) == cost([pool("ON_DEMAND")], bounds, None)
    spot, full = cost([pool("SPOT")], bounds, None).hourly, cost([pool("ON_DEMAND")], bounds, None).hourly
    assert spot is not None
    assert full is not None
    assert spot < full


def test_one_unknown_price_makes_the_whole_unknown() -> None:
    planned = cost([pool("ON_DEMAND"), pool("ON_DEMAND", machine_type="n9-odd-1")], limits(None), None)
    assert (planned.hourly, planned.worst_case, planned.unpriced) == (None, None, ("n9-odd-1",))
    assert cost_text(planned) == ["unknown  no price of n9-odd-1"]


def test_a_job_in_its_budget_keeps_its_time(plan: Callable[..., JobPlan]) -> None:
    kept = plan(50.0)
    assert kept.limits == plan().limits
    assert kept.cost is not None
    assert kept.cost.budget == 50.0


def test_without_a_time_the_budget_cuts_it_and_the_new_worst_case_fits(plan: Callable[..., JobPlan]) -> None:
    cut, whole = plan(2.5), plan()
    assert cut.limits.max_running_time_seconds < whole.limits.max_running_time_seconds
    assert cut.cost is not None
    assert cut.cost.worst_case is not None
    assert 2.49 <= cut.cost.worst_case <= 2.5
    assert [warning for warning in cut.warnings if "the budget of 2.50 USD" in warning]
    assert cut.node_pools[0].max_run_duration_seconds == cut.limits.deadline_seconds


def test_the_time_that_the_error_names_fits_and_a_second_more_does_not(plan: Callable[..., JobPlan]) -> None:
    with pytest.raises(PlanError) as caught:
        plan(2.5, scheduling={"maxRunningTime": "86400s"})
    assert caught.value.where == "encamp.budget.usd"
    assert caught.value.hint is not None
    longest = int(caught.value.hint.split('"')[1].removesuffix("s"))
    fits = plan(2.5, scheduling={"maxRunningTime": f"{longest}s"}).cost
    assert fits is not None
    assert fits.worst_case is not None
    assert fits.worst_case <= 2.5
    with pytest.raises(PlanError):
        plan(2.5, scheduling={"maxRunningTime": f"{longest + 200}s"})


def test_a_budget_that_pays_for_no_minute_is_refused(plan: Callable[..., JobPlan]) -> None:
    with pytest.raises(PlanError, match="raise the budget: waiting for machines"):
        plan(0.05)


def test_a_receipt_finds_the_price_of_each_roles_machine(plan: Callable[..., JobPlan]) -> None:
    machines, hourly = prices(
        plan(
            scaleTier="CUSTOM",
            masterType="n1-standard-8",
            masterConfig={"acceleratorConfig": {"count": 2, "type": "NVIDIA_TESLA_T4"}},
            workerType="n1-standard-4",
            workerCount=1,
        )
    )
    assert machines == {"master": "n1-standard-8 + 2 x nvidia-tesla-t4", "worker": "n1-standard-4"}
    assert set(hourly) == set(machines.values())
