"""The comment that a review becomes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from encamp.ci.comment import LONGEST, comment, drift_report
from encamp.ci.drift import Drifted
from encamp.ci.offline import Offline, look
from encamp.ci.preview import Previewed
from encamp.ci.review import Reviewed
from encamp.ci.steps import Difference, Does, Step
from encamp.ci.touched import StackConfig, StackKind, Touched, Was, stacks
from encamp.kinds.objects import CONFIG_MAP, JOB_SET
from encamp.resources import repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from encamp.plan.cost.model import CostPlan

BUCKET = "gcp:storage/bucket:Bucket"


def digits() -> Offline:
    root = repository()
    assert root is not None
    return look(stacks(root)["digits"], root)


def priced(amount: float | None) -> Offline:
    """The committed job at another cost."""
    plan = digits().plan
    assert plan is not None
    assert plan.cost is not None
    cost: CostPlan = dataclasses.replace(plan.cost, worst_case=amount)
    return Offline(dataclasses.replace(plan, cost=cost))


def touched(name: str = "digits", kind: StackKind = StackKind.JOB, was: Was = Was.CHANGED) -> Touched:
    return Touched(StackConfig(name, kind, "sandbox", {}), was, (f"stacks/Pulumi.{name}.yaml",))


def written(*reviewed: Reviewed) -> str:
    return comment(reviewed, base="main")


def previewed(*steps: Step, errors: Sequence[str] = (), warnings: Sequence[str] = ()) -> Previewed:
    return Previewed(steps, 3, tuple(errors), tuple(warnings))


def test_a_change_that_touches_no_stack_says_so() -> None:
    said = written()
    assert said.startswith("### encamp: no stack is touched")
    assert "`main`" in said


def test_the_table_counts_what_is_done_to_each_stack() -> None:
    steps = [Step(does, BUCKET, does.value) for does in (Does.MAKES, Does.MAKES, Does.CHANGES, Does.DESTROYS)]
    said = written(Reviewed(touched("lab", StackKind.ENVIRONMENT), Offline(), Offline(), previewed(*steps)))
    assert "1 stack touched, 1 destroyed, 1 changed, 2 made" in said
    assert "| `lab` (environment) | 2 | 1 |  | 1 |  |  |" in said
    assert "- destroyed gcp:storage/bucket:Bucket destroyed\n! changed" in said


def test_the_change_of_the_cost_is_shown() -> None:
    assert "at worst 3.00 → 4.25 (+1.25)" in written(Reviewed(touched(), priced(3), priced(4.25), previewed()))
    assert "at worst 4.25 → 3.00 (-1.25)" in written(Reviewed(touched(), priced(4.25), priced(3), previewed()))
    assert "| at worst 3.00 |" in written(Reviewed(touched(), priced(3), priced(3), previewed()))
    assert "at worst 3.00 → unknown" in written(Reviewed(touched(), priced(3), priced(None), previewed()))
    assert "at worst 3.00, gone" in written(Reviewed(touched(was=Was.REMOVED), priced(3), None))


def test_an_environments_cost_is_that_of_a_month_without_jobs() -> None:
    root = repository()
    assert root is not None
    found = look(stacks(root)["production"], root)
    assert found.idle is not None
    assert found.idle.monthly is not None
    dearer = Offline(idle=dataclasses.replace(found.idle, hourly=found.idle.hourly and found.idle.hourly * 2))
    kind = touched("production", StackKind.ENVIRONMENT)
    assert f"a month {found.idle.monthly:.2f} → " in written(Reviewed(kind, found, dearer, previewed()))
    assert f"| a month {found.idle.monthly:.2f} |" in written(Reviewed(kind, found, found, previewed()))


def test_whose_prices_of_when_are_named() -> None:
    found = digits()
    assert found.cost is not None
    assert f"By {found.cost.basis} (" in written(Reviewed(touched(), found, found, previewed()))


def test_a_replaced_job_is_said_to_be_one_and_what_goes_with_it() -> None:
    alone = [Step(Does.REPLACES, JOB_SET.token, "job-set"), Step(Does.CHANGES, BUCKET, "scratch")]
    said = written(Reviewed(touched(), digits(), digits(), previewed(*alone)))
    assert "**The job itself is replaced.**" in said
    assert "No other resource is replaced or destroyed." in said
    pool = Step(Does.REPLACES, "gcp:container/nodePool:NodePool", "n1-standard-4")
    said = written(Reviewed(touched(), digits(), digits(), previewed(*alone, pool)))
    assert "Replaced or destroyed with it: `n1-standard-4`." in said
    kept = written(Reviewed(touched(), digits(), digits(), previewed(alone[1])))
    assert "The job itself" not in kept


def test_a_replaced_study_is_said_to_end_its_trials() -> None:
    study = Step(Does.REPLACES, CONFIG_MAP.token, "study")
    said = written(Reviewed(touched(), digits(), digits(), previewed(study)))
    assert "**The job itself is replaced.** If trials of its study still run, they are ended." in said
    scripts = Step(Does.REPLACES, CONFIG_MAP.token, "scripts")
    assert "The job itself" not in written(Reviewed(touched(), digits(), digits(), previewed(scripts)))


def test_long_values_are_shown_from_where_they_differ() -> None:
    old, new = ('"' + "same " * 50 + word + " and on" * 50 + '"' for word in ("before", "after"))
    step = Step(Does.CHANGES, BUCKET, "b", (Difference("text", old, new, replaces=False),))
    line = next(
        line for line in written(Reviewed(touched(), None, None, previewed(step))).splitlines() if "text:" in line
    )
    assert "same before and on" in line
    assert "same after and on" in line
    assert len(line) < 250


@pytest.mark.parametrize("text", ["```\nout", "````` out", "</details> `out"])
def test_no_text_breaks_out_of_its_block(text: str) -> None:
    said = written(Reviewed(touched(), None, Offline(refused=(text,))))
    fences = [line for line in said.splitlines() if line.startswith("```")]
    opened = next(fence for fence in fences if fence.endswith("text"))
    fence = opened.removesuffix("text")
    assert fences[-1] == fence
    assert fence not in text


def test_no_name_breaks_out_of_the_table() -> None:
    said = written(Reviewed(touched("x|`<b>"), None, None))
    assert "| `x___b_` (job) | ? |" in said


def test_refusals_failures_and_warnings_are_findings() -> None:
    offline = Offline(refused=("stacks/x: costs too much",), warnings=("an old image",))
    failing = previewed(errors=["quota"], warnings=["an old image", "a slow zone"])
    said = written(Reviewed(touched(), None, offline, failing))
    assert "1 cannot be brought up" in said
    assert said.splitlines()[4].endswith("| 4 |")
    for text in ("costs too much", "quota", "a slow zone"):
        assert text in said
    assert said.count("an old image") == 1


def test_a_comment_is_never_longer_than_one_may_be() -> None:
    steps = [Step(Does.MAKES, BUCKET, f"bucket-{index}-{'x' * 60}") for index in range(500)]
    reviewed = [Reviewed(touched(f"stack-{index}"), None, None, previewed(*steps)) for index in range(40)]
    said = written(*reviewed)
    assert len(said) <= LONGEST
    assert "too long for a comment" in said
    assert "`stack-39` (job) | 500 |" in said
    assert "and 440 more" in said


def test_drift_says_what_an_up_would_do_and_what_is_not_up() -> None:
    apart = Drifted("lab", previewed(Step(Does.CHANGES, BUCKET, "artifacts")))
    said = drift_report([apart, Drifted("quiet", previewed()), Drifted("idle", None)])
    assert "1 of 2 stacks drifted" in said
    assert "`pulumi up --refresh -s lab` would do:" in said
    assert "! changed gcp:storage/bucket:Bucket artifacts" in said
    assert "`quiet` agrees with the cloud: 3 resources." in said
    assert "`idle` is not up." in said
