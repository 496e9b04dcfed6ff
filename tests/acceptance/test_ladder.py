"""The ladder: what its rungs are, what they cost, and how a budget shortens it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.acceptance.evidence import RUNGS, SPEC

from encamp.acceptance.cost import PlannedRung, environment_hourly, ladder_cost, within
from encamp.acceptance.environment import Claim
from encamp.acceptance.ladder import ENVIRONMENT, LADDER, rungs
from encamp.acceptance.planning import plan_ladder
from encamp.acceptance.rung_jobs import is_of_run, job_id, misfit, plan_rung
from encamp.errors import UsageError
from encamp.plan.cost.job import amount
from encamp.run.store.states import State
from encamp.spec.job_file import parse_job

PLANNED = [PlannedRung(rung, plan_rung(rung, SPEC, f"acceptance_{index}")) for index, rung in enumerate(LADDER)]
HOURLY = environment_hourly(SPEC)


class Host:
    """An environment's stack as planning asks it."""

    stack = "acceptance"

    def __init__(self, *, up: bool = False, claim: Claim | None = None, protected: bool = False) -> None:
        self._up, self._claim, self._protected = up, claim, protected

    def claim(self) -> Claim | None:
        return self._claim

    def is_up(self) -> bool:
        return self._up

    def refuse_protected(self) -> None:
        if self._protected:
            raise UsageError("it is protected")


def plan(host: Any, budget: float | None = None, **changed: Any) -> Any:
    return plan_ladder(SPEC.model_copy(update=changed), host, LADDER, budget, changed.pop("own", ()))


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("project", [SPEC.project, "acme-ml"])
def test_every_rung_is_a_job_that_keeps_every_rule_and_ends_by_itself(name: str, project: str) -> None:
    spec = SPEC.model_copy(update={"project": project})
    found = parse_job(RUNGS[name].job(spec), source=name)
    assert found.warnings == ()
    assert found.job.encamp.queue == "ladder"
    planned = plan_rung(RUNGS[name], spec, "acceptance_x")
    assert planned.limits.max_running_time.seconds <= 600
    assert planned.cost is not None
    assert planned.cost.worst_case is not None
    assert planned.cost.worst_case < 3, "a rung costs little whatever happens"
    assert RUNGS[name].ends <= {state for state in State if state.ended}


def test_rungs_are_chosen_by_name_in_the_ladders_order() -> None:
    assert [rung.name for rung in rungs(only=("l4", "cpu"))] == ["cpu", "l4"]
    assert [rung.name for rung in rungs(skip=("cpu",))] == [rung.name for rung in LADDER[1:]]
    assert rungs(only=(ENVIRONMENT,)) == ()
    with pytest.raises(UsageError, match="there is no rung 'gpu'"):
        rungs(only=("gpu",))


def test_ids_of_jobs_are_new_and_tell_their_run() -> None:
    rung = RUNGS["cut-short"]
    first = job_id(rung, "20261122_090000")
    second = job_id(rung, "20261122_090000", [first])
    assert [first, second] == ["acceptance_cut_short_20261122_090000", "acceptance_cut_short_20261122_090000_2"]
    assert all(is_of_run(one, "20261122_090000") for one in (first, second))
    assert not is_of_run("acceptance_cpu_20261122_100000", "20261122_090000")
    assert not is_of_run("digits_20261122_090000", "20261122_090000")


def test_the_cost_is_that_of_the_jobs_and_of_the_environment_meanwhile() -> None:
    found = ladder_cost(PLANNED, HOURLY)
    jobs = sum(one.cost.worst_case or 0 for one in PLANNED)
    assert found.worst == pytest.approx(jobs + amount(HOURLY, found.worst_seconds), abs=0.01)
    assert found.worst_seconds > sum(one.cost.worst_seconds for one in PLANNED)
    assert 0 < found.expected < found.worst < 20
    assert ladder_cost(PLANNED, 0).worst == pytest.approx(jobs, abs=0.01), (
        "an environment that is there costs nothing more"
    )


def test_a_budget_leaves_out_what_it_does_not_pay_for_and_says_so() -> None:
    whole = within(PLANNED, HOURLY, None)
    assert (len(whole.rungs), whole.left_out) == (len(LADDER), ())
    two = ladder_cost(PLANNED[:2], HOURLY).worst
    short = within(PLANNED, HOURLY, two, [("x", "why")])
    assert [one.rung.name for one in short.rungs] == ["cpu", "spot"]
    assert short.cost.worst <= two
    assert short.left_out[0] == ("x", "why")
    assert [name for name, _ in short.left_out[1:]] == [rung.name for rung in LADDER[2:]]
    assert all(f"the budget is {two:.2f} USD" in why for _, why in short.left_out[1:])


def test_a_budget_that_pays_for_nothing_is_refused_with_the_least_that_would() -> None:
    least = min(ladder_cost([one], HOURLY).worst for one in PLANNED)
    with pytest.raises(UsageError) as caught:
        within(PLANNED, HOURLY, least - 0.01)
    assert caught.value.hint == f"--budget {least:.2f}, or fewer rungs by --only"
    assert len(within(PLANNED, HOURLY, least).rungs) == 1
    with pytest.raises(UsageError, match="pays for no rung"):
        within([], HOURLY, 0.01)
    assert within([], 0.0, 0.01).rungs == ()


def test_a_rung_without_a_price_is_refused() -> None:
    planned = PLANNED[0]
    assert planned.plan.cost is not None
    unpriced = replace(planned.plan.cost, worst_case=None, unpriced=("e9-standard-4",))
    with pytest.raises(UsageError, match="no price is known of e9-standard-4"):
        ladder_cost([replace(planned, plan=replace(planned.plan, cost=unpriced))], HOURLY)


def test_what_an_environment_cannot_run_is_left_out_and_said() -> None:
    found = plan(Host(), queues=None)
    assert found.left_out == (("queue", "the environment has no queues"),)
    assert found.cost.environment_hourly == HOURLY
    teams = SPEC.queues.teams if SPEC.queues is not None else None
    assert teams is not None
    cpus = {"ladder": teams["ladder"].model_copy(update={"quotas": teams["ladder"].quotas[:2]})}
    short = plan(Host(), queues=SPEC.queues.model_copy(update={"teams": cpus}) if SPEC.queues else None)
    assert [name for name, _ in short.left_out] == ["l4"]


def test_whose_environment_it_is_decides_about_cost_and_refusal() -> None:
    assert plan(Host(up=True)).cost.environment_hourly == 0.0
    assert plan(Host(up=True, protected=True)).cost.environment_hourly == 0.0
    with pytest.raises(UsageError, match="protected"):
        plan(Host(protected=True))
    claim = Claim("20261122_090000", 1_800_000_000)
    with pytest.raises(UsageError, match="run 20261122_090000 of another machine"):
        plan(Host(up=True, claim=claim))
    own = plan_ladder(SPEC, Host(up=True, claim=claim), LADDER, None, ["20261122_090000"])  # type: ignore[arg-type]
    assert own.cost.environment_hourly == HOURLY


def test_a_claim_is_read_as_it_was_written_and_what_others_wrote_is_none() -> None:
    claim = Claim("20261122_090000", 1_800_000_000.0)
    assert Claim.read(claim.text()) == claim
    assert [Claim.read(text) for text in (None, "", "yes", "[]", '{"run": "x"}')] == [None] * 5


def test_the_pod_that_fits_nowhere_goes_with_its_job_and_keeps_to_restricted_pod_security() -> None:
    planned = PLANNED[0].plan
    pod = misfit(planned)
    assert planned.labels.items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] is False
