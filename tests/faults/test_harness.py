"""What the harness of faults makes of a noted run: every step met by every victim, and which ends are right."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from encamp.plan.names import scratch_bucket, short_name
from harness.cases import REFUSALS, VICTIMS, Case, case_of, kills, refusal, refusals, subset
from harness.ground import Gate, Ground
from harness.judging import Evidence, wrong_outcome
from harness.listing import PROJECT
from harness.steps import Step, noted_steps

BUCKET = "projects/_/buckets"
PROVIDER = "encamp-gcp-provider"
STRUCK: list[dict[str, Any]] = [
    {"type": kind, "operation": operation, "name": name, "agent": agent}
    for kind, operation, name, agent in (
        ("storage:buckets", "create", f"{BUCKET}/s1x-1d2fqgjc7dpnb9nt-scratch-6751qm1f35z3mkq8", PROVIDER),
        ("container:nodePools", "create", "c/nodePools/s1x-1d2fqgjc7dpnb9nt-n1[a]", PROVIDER),
        ("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", "create", "encamp-jobs/s1x-1d2fqgjc7dpnb9nt", ""),
        ("storage:objects", "create", f"{BUCKET}/results/objects/jobs/s1x/logs/manifest.json", "python"),
        ("storage:objects", "create", f"{BUCKET}/results/objects/jobs/s1x/logs/manifest.json", "python"),
        ("storage:policies", "update", f"{BUCKET}/s1x-1d2fqgjc7dpnb9nt-scratch-6751qm1f35z3mkq8", PROVIDER),
        ("container:nodePools", "delete", "c/nodePools/s1x-1d2fqgjc7dpnb9nt-n1[a]", PROVIDER),
        ("storage:buckets", "delete", f"{BUCKET}/s1x-1d2fqgjc7dpnb9nt-scratch-6751qm1f35z3mkq8", PROVIDER),
        ("container:clusters", "read", "projects/p/locations/-/clusters", "python"),
        ("logging:entries", "create", "entries of s1x", "python"),
    )
]
STEPS = noted_steps(STRUCK, "s1x")


def test_steps_are_what_names_the_job_each_once_whoever_came_first() -> None:
    assert len(STEPS) == 7
    assert noted_steps(reversed(STRUCK), "s1x") == STEPS
    pool = next(step for step in STEPS if step.operation == "delete" and step.type == "container:nodePools")
    assert pool.fault("s2y", "409", 2) == {
        "type": "container:nodePools",
        "operation": "delete",
        "name": "c/nodePools/s2y-*-n1[[]a]",
        "kind": "409",
        "count": 2,
    }


def test_a_step_strikes_other_jobs_under_their_own_names() -> None:
    fault = next(step for step in STEPS if step.type == "storage:buckets").fault("s2y", "409")
    other = short_name(PROJECT, "sandbox", "s2y")
    assert fnmatchcase(f"{BUCKET}/{scratch_bucket(PROJECT, 'sandbox', 's2y', other)}", fault["name"])
    assert not fnmatchcase(STRUCK[0]["name"], fault["name"])


def test_steps_that_others_take_too_are_not_the_engines() -> None:
    both = [{**STRUCK[0], "agent": agent} for agent in (PROVIDER, "python-requests/2.34.2")]
    assert [step.by_engine for step in noted_steps(both[:1], "s1x")] == [True]
    assert [step.by_engine for step in noted_steps(both, "s1x")] == [False]


def test_every_cloud_name_holds_a_job_id_that_is_given() -> None:
    ground = Ground.__new__(Ground)
    ground._run = "fff"
    assert ground.job_id(9999) == "s9999xfff"
    with pytest.raises(AssertionError, match="take smaller seeds"):
        ground.job_id(10000)


def test_seeds_meet_every_case_once() -> None:
    every = len(kills(STEPS)) + len(refusals(STEPS))
    seeds = [seed for seed in range(2 * every) if seed % 4 != 3][:every]
    cases = [case_of(seed, STEPS) for seed in seeds]
    met = {(case.victim if case.step else "", case.step, case.when, case.refusal, case.refused) for case in cases}
    assert len(met) == every
    assert {case.victim for case in cases if case.step} == set(VICTIMS)
    assert {case.refusal for case in cases} == {"", *REFUSALS}
    assert all(case_of(seed, STEPS).moment < 1 for seed in range(3, 100, 4))
    assert case_of(7, STEPS) == case_of(7, STEPS)


def test_who_cannot_be_there_is_not_killed_there() -> None:
    there = {(victim, step.type) for victim, step, _ in kills(STEPS)}
    assert ("engine", "storage:objects") not in there
    assert ("engine", "storage:buckets") in there
    assert ("driver", "storage:objects") in there
    assert not [step for victim, step, _ in kills(STEPS) if victim == "language host" and step.operation == "delete"]
    assert {step for kind, step in refusals(STEPS) if kind == "stockout"} == {
        Step("create", "container:nodePools", "c/nodePools/{job}-*-n1[[]a]", by_engine=True)
    }


def test_the_subset_has_every_victim_and_every_wrong_answer() -> None:
    for seed in range(5):
        cases = subset(seed, STEPS)
        assert {case.victim for case in cases} >= set(VICTIMS)
        assert {case.refusal for case in cases} >= set(REFUSALS)


def evidence(
    said: str, *asked: str, succeeds: bool = True, disturbed: bool = False, killed: bool = True, refused: bool = False
) -> Evidence:
    strikes = [{"operation": "create", "type": kind, "name": "s1x"} for kind in asked]
    return Evidence(said, strikes, succeeds, disturbed, killed, refused)


BUCKET_TYPE = "storage:buckets"
WAITERS = (("alone", True), ("later", False))
JOB_SET = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet"


@pytest.mark.parametrize(
    ("seen", "state", "wrong"),
    [
        (evidence("the job is SUCCEEDED", JOB_SET), "SUCCEEDED", False),
        (evidence("the job is SUCCEEDED", JOB_SET), "FAILED", True),
        (evidence("sealing the logs", BUCKET_TYPE, killed=False, disturbed=True), "FAILED", True),
        (evidence("sealing the logs", BUCKET_TYPE, killed=False, succeeds=False), "FAILED", True),
        (evidence("sealing the logs", BUCKET_TYPE, killed=False, refused=True), "FAILED", False),
        (evidence("the job is SUCCEEDED", BUCKET_TYPE, JOB_SET, killed=False, refused=True), "SUCCEEDED", True),
        (evidence("", BUCKET_TYPE), "FAILED", False),
        (evidence("", BUCKET_TYPE), "SUCCEEDED", True),
        (replace(evidence("", BUCKET_TYPE), logged=True), "SUCCEEDED", False),
        (replace(evidence("", BUCKET_TYPE), logged=True), "FAILED", True),
        (evidence("waiting", JOB_SET), "SUCCEEDED", False),
        (evidence("waiting", JOB_SET), "FAILED", True),
        (evidence("waiting", JOB_SET, succeeds=False), "SUCCEEDED", True),
        (evidence("waiting", JOB_SET, disturbed=True), "FAILED", True),
        (evidence("waiting", JOB_SET), "CANCELLED", True),
        (evidence(""), None, False),
        (evidence("", BUCKET_TYPE), None, True),
        (evidence("", killed=False), None, True),
        (evidence("error: the sandbox does not run", killed=False, disturbed=True), None, False),
        (evidence("error: the sandbox does not run", killed=False), None, True),
        (evidence("Traceback ... error:", killed=False, disturbed=True), None, True),
    ],
)
def test_which_outcomes_are_right(seen: Evidence, state: str | None, wrong: bool) -> None:
    receipt = None if state is None else {"outcome": {"state": state, "message": "because"}}
    assert bool(wrong_outcome(seen, receipt)) is wrong


def test_who_wants_to_be_alone_is_and_goes_before_who_comes_later() -> None:
    gate, order = Gate(), list[str]()

    def passes(name: str, *, alone: bool) -> None:
        with gate.passed(alone=alone):
            order.append(name)

    first, later = (threading.Thread(target=passes, args=(name,), kwargs={"alone": alone}) for name, alone in WAITERS)
    with gate.passed(alone=False), gate.passed(alone=False):
        first.start()
        while not gate._waiting:
            time.sleep(0.001)
        later.start()
        time.sleep(0.05)
        assert order == []
    first.join(10)
    later.join(10)
    assert order == ["alone", "later"]


def test_a_case_says_what_is_done() -> None:
    case = Case(3, "driver", STEPS[0], "after", succeeds=False)
    assert str(case) == f"seed 3: driver killed after {STEPS[0]}; the trainer fails"
    waited = refusal(4, "hang", STEPS[0], victim="")
    assert str(waited) == f"seed 4: hang (x1) at {STEPS[0]}; the trainer succeeds"


def test_what_no_further_attempt_changes_has_to_fail_a_job() -> None:
    pool = next(step for step in STEPS if step.operation == "create" and "nodePool" in step.type)
    rights = next(step for step in STEPS if step.operation == "update")
    gone = next(step for step in STEPS if step.operation == "delete" and "nodePool" in step.type)
    assert {kind for kind in REFUSALS if refusal(1, kind, pool).final} == {"403", "quota", "stockout"}
    assert {kind for kind in REFUSALS if refusal(1, kind, rights).final} == {"403", "quota", "stockout"}
    assert not any(refusal(1, kind, gone).final for kind in REFUSALS)
