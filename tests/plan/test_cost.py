from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp.duration import Duration
from encamp.errors import PlanError
from encamp.plan.cost.job import cost, prices, running_at_most, within_budget
from encamp.plan.cost.lasting import Lasting
from encamp.plan.cost.prices import disk_price, machine_price
from encamp.plan.cost.text import cost_document, cost_line, cost_lines, cost_rows, cost_text
from encamp.plan.job import plan_job
from encamp.plan.limits import limits
from encamp.plan.model import Accelerator, LimitsPlan, NodePoolPlan
from encamp.spec.environment.prices import PricesSpec
from encamp.spec.job_file import parse_job
from encamp.spec.prices import DiskPriceSpec, HourPriceSpec, PriceTableSpec, built_in_prices

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.cost.model import CostPlan
    from encamp.plan.model import JobPlan
    from encamp.spec.environment import EnvironmentSpec

T4 = Accelerator("nvidia-tesla-t4", 2)
A100 = Accelerator("nvidia-tesla-a100", 1)
TABLE = built_in_prices()
JOB = {
    "region": "us-central1",
    "runtimeVersion": "2.11",
    "pythonVersion": "3.7",
    "packageUris": ["gs://packages/trainer.tar.gz"],
    "pythonModule": "trainer.task",
}
BOOTSTRAPPED = Lasting(keeps_deadline=True, restarts_for_machines=False)
AS_IT_IS = Lasting(keeps_deadline=False, restarts_for_machines=False)


@pytest.fixture
def plan(environment: EnvironmentSpec) -> Callable[..., JobPlan]:
    """Plans a job with a budget in USD, None for none."""

    def build(budget: float | None = None, table: PriceTableSpec | None = None, **fields: Any) -> JobPlan:
        data: dict[str, Any] = {"jobId": "j", "trainingInput": JOB | fields}
        if budget is not None:
            data["encamp"] = {"budget": {"usd": budget}}
        priced = environment.model_copy(update={"prices": PricesSpec(**dict(table)) if table else None})
        return plan_job(parse_job(data, source="test").job, priced)

    return build


def price(machine_type: str, accelerator: Accelerator | None = None, provisioning: str = "ON_DEMAND") -> float:
    found = machine_price(TABLE, machine_type, accelerator, provisioning)
    assert found is not None
    return found


def test_attached_gpus_are_added_to_their_machine_and_built_in_ones_are_part_of_it() -> None:
    assert price("n1-standard-8", T4) == pytest.approx(price("n1-standard-8") + 2 * 0.35)
    assert price("a2-highgpu-1g", A100) == price("a2-highgpu-1g")


def test_spot_is_cheaper_and_unknown_is_not_guessed() -> None:
    assert price("n1-standard-8", T4, "SPOT") < price("n1-standard-8", T4)
    assert machine_price(TABLE, "n9-unheard-of-4", None) is None
    assert machine_price(TABLE, "n1-standard-8", Accelerator("nvidia-unheard-of", 1)) is None
    assert disk_price(TABLE, "pd-unheard-of", 100) is None


def test_a_tpu_host_has_the_price_of_its_chips() -> None:
    assert price("ct5lp-hightpu-4t", Accelerator("tpu-v5-lite-podslice", 4)) == 4.8


def test_a_disk_is_paid_by_its_size_for_730_hours_a_month() -> None:
    assert (disk_price(TABLE, "pd-ssd", 200) or 0.0) * 730 == pytest.approx(200 * 0.17)


@pytest.mark.parametrize("provisioning", ["FLEX_START", "QUEUED"])
def test_what_starts_when_there_is_room_has_its_own_price_where_the_table_knows_it(provisioning: str) -> None:
    full = price("g2-standard-4", None)
    assert price("g2-standard-4", None, provisioning) == full
    special = TABLE.model_copy(
        update={"machines": {"g2-standard-4": HourPriceSpec(usd_per_hour=full, usd_flex_start_per_hour=0.1)}}
    )
    assert machine_price(special, "g2-standard-4", None, provisioning) == 0.1
    assert machine_price(special, "g2-standard-4", None, "RESERVATION") == full


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


def counted(*pools: NodePoolPlan, lasts: Lasting = BOOTSTRAPPED, bounds: LimitsPlan | None = None) -> CostPlan:
    return cost(pools, bounds or limits(None), lasts=lasts, table=TABLE)


def test_every_node_counts_with_its_disk_for_one_run_and_for_the_worst_case() -> None:
    bounds = limits(None)
    planned = counted(pool("ON_DEMAND", 3), pool("ON_DEMAND", 2))
    each = price("n1-standard-8") + (disk_price(TABLE, "pd-ssd", 100) or 0.0)
    assert planned.hourly == pytest.approx(5 * each, abs=1e-5)
    assert planned.expected == pytest.approx(5 * each * bounds.max_running_time.seconds / 3600, abs=0.01)
    assert planned.worst_case == pytest.approx(5 * each * planned.worst_seconds / 3600, abs=0.01)
    assert [(part.kind, part.count, part.what) for part in planned.parts] == [
        ("machines", 3, "n1-standard-8"),
        ("disks", 3, "100 GB pd-ssd"),
        ("machines", 2, "n1-standard-8"),
        ("disks", 2, "100 GB pd-ssd"),
    ]
    assert sum(part.hourly or 0.0 for part in planned.parts) == pytest.approx(planned.hourly, abs=1e-5)


def test_one_run_takes_as_long_as_the_job_expects_and_never_longer_than_it_may() -> None:
    longest = counted(pool("ON_DEMAND"), bounds=HOUR)
    assert (longest.expected_seconds, longest.is_longest) == (3600, True)
    told = cost([pool("ON_DEMAND")], HOUR, lasts=BOOTSTRAPPED, table=TABLE, expected=1800)
    assert (told.expected_seconds, told.is_longest, told.worst_case) == (1800, False, longest.worst_case)
    assert told.expected == pytest.approx((longest.expected or 0.0) / 2, abs=0.01)
    assert cost_text(told)[1] == f"one run   about {told.expected:.2f} USD, for the expected 30 min"
    assert cost_text(longest)[1] == f"one run   at most {longest.expected:.2f} USD, for 1 h"
    assert cost([pool("ON_DEMAND")], HOUR, lasts=BOOTSTRAPPED, table=TABLE, expected=7200) == longest


def test_a_run_of_unknown_length_has_a_price_of_an_hour_alone(plan: Callable[..., JobPlan]) -> None:
    found = plan().cost
    assert found is not None
    assert (found.expected, found.expected_seconds) == (None, None)
    unknown = "not known: no encamp.expectedTime or scheduling.maxRunningTime says how long it is"
    assert cost_text(found)[:2] == [
        f"hourly    {found.hourly:.2f} USD with every replica on its machine",
        f"one run   {unknown}",
    ]
    assert [row[-2] for row in cost_rows(found)] == ["not known"] * len(found.parts)
    assert cost_line(found).startswith(f"the job costs {found.hourly:.2f} USD an hour, at worst ")
    assert cost_document(found)["expectedSeconds"] is None
    bounded = plan(scheduling={"maxRunningTime": "3600s"}).cost
    assert bounded is not None
    assert bounded.expected == pytest.approx(bounded.hourly, abs=0.01)
    assert "at most 0.21 USD, for 1 h" in cost_line(bounded)


def test_a_job_says_by_itself_how_long_it_takes(environment: EnvironmentSpec) -> None:
    data = {"jobId": "j", "trainingInput": JOB, "encamp": {"expectedTime": "90.5s"}}
    found = plan_job(parse_job(data, source="test").job, environment).cost
    assert found is not None
    assert found.expected_seconds == 91


def test_the_parts_that_are_shown_add_up_to_the_whole() -> None:
    rows = cost_rows(planned := counted(pool("ON_DEMAND", 3), pool("SPOT", 2)))
    assert sum(float(row[-1]) for row in rows) == pytest.approx(planned.worst_case, abs=0.01 * len(rows))
    assert cost_document(planned)["resources"][0] == {
        "resource": "p",
        "kind": "machines",
        "what": "n1-standard-8",
        "count": 3,
        "hourly": round(3 * price("n1-standard-8"), 6),
    }


@pytest.mark.parametrize("provisioning", ["FLEX_START", "QUEUED", "RESERVATION"])
def test_all_but_spot_cost_what_on_demand_costs_in_the_built_in_table(provisioning: str) -> None:
    assert counted(pool(provisioning)) == counted(pool("ON_DEMAND"))
    assert (counted(pool("SPOT")).hourly or 0.0) < (counted(pool("ON_DEMAND")).hourly or 0.0)


HOUR = replace(limits(None), max_running_time=Duration.of(3600), active_deadline_seconds=7200, max_restarts=3)


@pytest.mark.parametrize(
    ("lasts", "restarts", "seconds"),
    [
        # One attempt, then time to take down.
        (BOOTSTRAPPED, 0, 7200 + 1800),
        (AS_IT_IS, 0, 7200 + 1800),
        # Every attempt to its own end.
        (AS_IT_IS, 1, 2 * 7200 + 1800),
        (AS_IT_IS, 3, 4 * 7200 + 1800),
        # The last attempt begins at the job's deadline, however many restarts are left.
        (BOOTSTRAPPED, 1, 2 * 7200 + 1800),
        (BOOTSTRAPPED, 3, 9000 + 7200 + 1800),
        (Lasting(keeps_deadline=True, restarts_for_machines=True), 0, 9000 + 7200 + 1800),
    ],
)
def test_restarts_of_the_whole_job_count_until_the_last_kill_switch(
    lasts: Lasting, restarts: int, seconds: int
) -> None:
    planned = counted(pool("ON_DEMAND"), lasts=lasts, bounds=replace(HOUR, max_restarts=restarts))
    assert (planned.worst_seconds, planned.restarts) == (seconds, restarts)


def test_what_nothing_in_the_cluster_ends_is_said(plan: Callable[..., JobPlan]) -> None:
    endless: dict[str, Any] = {"packageUris": None, "pythonModule": None, "runtimeVersion": None, "pythonVersion": None}
    resilient = {"scheduling": {"resilientToWorkerRestart": True}, "masterConfig": {"imageUri": "gcr.io/p/i"}}
    found = plan(**endless, **resilient)
    assert found.cost is not None
    assert found.cost.restarts is None
    assert [warning for warning in found.warnings if "a reaper has to end it" in warning]
    looked_at = plan(scheduling={"resilientToWorkerRestart": True})
    assert not [warning for warning in looked_at.warnings if "reaper" in warning]


def test_one_unknown_price_makes_the_whole_unknown() -> None:
    planned = counted(pool("ON_DEMAND"), pool("ON_DEMAND", machine_type="n9-odd-1"))
    assert (planned.hourly, planned.expected, planned.worst_case) == (None, None, None)
    assert planned.unpriced == ("n9-odd-1",)
    assert cost_text(planned)[0] == "unknown   no price of n9-odd-1"
    assert cost_line(planned) == "what the job costs is not known: no price of n9-odd-1"
    assert cost_rows(planned)[2][-1] == "unknown"


def test_the_text_says_whose_prices_of_when_and_from_where() -> None:
    assert cost_text(counted(pool("ON_DEMAND")))[-1] == (
        "prices    of us-central1, 2026-07-30 (list prices, without discounts and taxes)"
    )


def test_one_line_says_what_a_job_costs() -> None:
    planned = counted(pool("ON_DEMAND"), bounds=HOUR)
    whose = "prices of us-central1, 2026-07-30"
    assert cost_line(planned) == (
        f"the job costs 0.40 USD an hour, one run at most 0.40 USD, for 1 h, at worst 2.02 USD ({whose})"
    )
    assert cost_lines(planned)[1] == "p: 1 x n1-standard-8: 0.38 USD an hour, one run 0.38, at worst 1.90"


def test_a_table_of_ones_own_is_counted_by_and_named(plan: Callable[..., JobPlan]) -> None:
    own = PriceTableSpec(
        date="2026-10-01",
        region="europe-west4",
        source="our contract",
        machines={"n1-standard-4": HourPriceSpec(usd_per_hour=1.0)},
        disks=TABLE.disks,
    )
    found = plan(table=own)
    assert found.cost is not None
    assert found.cost.hourly == pytest.approx(1.0 + 17 / 730, abs=1e-5)
    assert str(found.cost.basis) == "prices of europe-west4, 2026-10-01"
    assert [warning for warning in found.warnings if "but the machines are in us-central1" in warning]
    assert prices(found)[1] == {"n1-standard-4": pytest.approx(1.0 + 17 / 730, abs=1e-6)}


def test_what_costs_nothing_is_within_any_budget(plan: Callable[..., JobPlan]) -> None:
    free = {"machines": {"n1-standard-4": HourPriceSpec(usd_per_hour=0.0)}, "disks": {"pd-ssd": DiskPriceSpec()}}
    given = plan(0.01, table=TABLE.model_copy(update=free))
    assert given.limits == plan().limits
    assert given.cost is not None
    assert (given.cost.hourly, given.cost.worst_case) == (0.0, 0.0)


def test_a_job_in_its_budget_keeps_its_time(plan: Callable[..., JobPlan]) -> None:
    kept = plan(80.0)
    assert kept.limits == plan().limits
    assert kept.cost is not None
    assert kept.cost.budget == 80.0


def test_without_a_time_the_budget_cuts_it_and_the_new_worst_case_fits(plan: Callable[..., JobPlan]) -> None:
    cut, whole = plan(2.5), plan()
    assert cut.limits.max_running_time.seconds < whole.limits.max_running_time.seconds
    assert cut.cost is not None
    assert cut.cost.worst_case is not None
    assert 2.49 <= cut.cost.worst_case <= 2.5
    assert [warning for warning in cut.warnings if "the budget of 2.50 USD" in warning]
    assert cut.node_pools[0].max_run_duration_seconds == cut.limits.deadline_seconds


def test_the_time_that_the_error_names_fits_and_a_second_more_does_not(plan: Callable[..., JobPlan]) -> None:
    with pytest.raises(PlanError) as caught:
        plan(2.5, scheduling={"maxRunningTime": "86400s"})
    assert caught.value.where == "encamp.budget.usd"
    assert "started again 3 times" in caught.value.what
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


@settings(max_examples=25, deadline=None)
@given(
    lasts=st.builds(Lasting, keeps_deadline=st.booleans(), restarts_for_machines=st.booleans()),
    running=st.integers(3600, 700_000),
    around=st.integers(1800, 100_000),
    restarts=st.integers(0, 5),
    queued=st.integers(0, 50_000),
    share=st.floats(0.05, 1.5),
)
def test_a_cut_job_takes_the_longest_time_that_its_budget_pays_for(  # noqa: PLR0917 - as hypothesis gives them
    lasts: Lasting, running: int, around: int, restarts: int, queued: int, share: float
) -> None:
    asked = LimitsPlan(Duration.of(running), None, restarts, 5, running + around, queued)
    whole = counted(pool("ON_DEMAND"), lasts=lasts, bounds=asked)
    budget = (whole.worst_case or 0.0) * share
    planned = replace(whole, budget=budget)
    rate = (whole.hourly or 0.0) / 3600
    try:
        paid = within_budget(planned, asked, lasts=lasts, fixed=False)
    except PlanError:
        assert lasts.worst_seconds(running_at_most(asked, 60)) * rate > budget - 1e-6
        return
    assert paid.active_deadline_seconds - paid.max_running_time.seconds == around
    assert lasts.worst_seconds(paid) * rate <= budget + 1e-6
    if paid == asked:
        return
    assert lasts.worst_seconds(running_at_most(asked, paid.max_running_time.seconds + 1)) * rate > budget - 1e-6


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
    disk = disk_price(TABLE, "pd-ssd", 100) or 0.0
    assert hourly["n1-standard-4"] == pytest.approx(price("n1-standard-4") + disk, abs=1e-6)


def test_machines_with_other_disks_have_prices_of_their_own(plan: Callable[..., JobPlan]) -> None:
    machines, hourly = prices(
        plan(
            scaleTier="CUSTOM",
            masterType="n1-standard-4",
            masterConfig={"diskConfig": {"bootDiskSizeGb": 500}},
            workerType="n1-standard-4",
            workerCount=1,
        )
    )
    assert machines == {"master": "n1-standard-4, 500 GB pd-ssd", "worker": "n1-standard-4, 100 GB pd-ssd"}
    assert hourly[machines["master"]] - hourly[machines["worker"]] == pytest.approx(400 * 0.17 / 730, abs=1e-5)


def test_a_machine_whose_disk_has_no_price_has_none(plan: Callable[..., JobPlan]) -> None:
    found = plan(table=TABLE.model_copy(update={"disks": {}}))
    assert prices(found) == ({"master": "n1-standard-4"}, {})
