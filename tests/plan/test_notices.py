"""Who is told when a job ends, as its plan says it, and what a job file cannot ask for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.errors import PlanError, SpecError
from encamp.plan.document import job_document
from encamp.plan.job import plan_job
from encamp.plan.notices import NoticePlan, merged_notices, plan_notices, read_notices
from encamp.plan.summary import JobSummary, job_summary
from encamp.plan.table import job_table
from encamp.run.store.intent import Intent, found_intent, planned_intent
from encamp.run.store.outputs import EnvironmentOutputs
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

if TYPE_CHECKING:
    from encamp.spec.job import TrainingJobSpec

EVERY_END = ("SUCCEEDED", "FAILED", "CANCELLED")
OUTPUTS = EnvironmentOutputs("", "encamp", "us-central1", "my-project", "artifacts", "encamp-jobs")


def environment(*targets: dict[str, Any]) -> EnvironmentSpec:
    written: dict[str, Any] = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts"}
    if targets:
        written["notices"] = {"targets": list(targets)}
    return parse_environment(written, project="my-project", source="test")


def job(*notices: dict[str, Any]) -> TrainingJobSpec:
    training = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/t"}}
    written = {"jobId": "j", "trainingInput": training, "encamp": {"notices": list(notices)}}
    return parse_job(written, source="test").job


def test_a_job_adds_to_whom_its_environment_tells_of_every_job_and_takes_nobody_away() -> None:
    lab = environment(
        {"name": "team", "states": ["FAILED"]},
        {"name": "mail", "everyJob": False},
        {"name": "quiet", "everyJob": False},
    )
    assert plan_notices(job(), lab) == (NoticePlan("team", ("FAILED",)),)
    asked = job({"target": "mail"}, {"target": "team", "states": ["SUCCEEDED"]})
    assert plan_notices(asked, lab) == (
        NoticePlan("mail", EVERY_END),
        NoticePlan("team", ("SUCCEEDED", "FAILED")),
    )
    assert plan_notices(job(), environment()) == ()


def test_a_target_that_is_not_declared_is_refused_with_the_nearest() -> None:
    with pytest.raises(PlanError) as caught:
        plan_notices(job({"target": "team-chta"}), environment({"name": "team-chat"}, {"name": "mail"}))
    assert caught.value.where == "encamp.notices[0].target"
    assert caught.value.hint == "write team-chat"
    assert "it has team-chat, mail" in caught.value.what
    with pytest.raises(PlanError, match="it has none"):
        plan_notices(job({"target": "team"}), environment())


@pytest.mark.parametrize(
    "target",
    ["https://hooks.slack.com/services/T0/B0/TokenB", "json://10.0.0.1/TokenB", "TokenB@example.com", "../TokenB"],
)
def test_an_address_in_a_job_file_is_refused_and_not_repeated(target: str) -> None:
    with pytest.raises(SpecError) as caught:
        job({"target": target})
    (problem,) = caught.value.problems
    assert (problem.rule, problem.path) == ("E25", "encamp.notices[0].target")
    assert "TokenB" not in str(caught.value)


TOKENS = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=12, max_size=40)
FORMS = (
    "slack://{}/T1/T2",
    "https://hooks.example.com/services/{}",
    "mailto://ana:{}@example.com",
    "Json://10.0.0.1/{}",
)


@pytest.mark.parametrize(
    "block",
    [
        '"%s"',
        '{"targets": "%s"}',
        '{"targets": ["%s"]}',
        '{"targets": [{"name": "%s"}]}',
        '{"targets": [{"name": "a", "secret": "%s"}]}',
        '{"targets": [{"name": "a", "states": "%s"}]}',
        '{"targets": [{"name": "a", "states": ["%s"]}]}',
        '{"targets": [{"name": "a", "everyJob": "%s"}]}',
        '{"targets": [{"name": "a", "url": "%s"}]}',
    ],
)
@given(token=TOKENS, form=st.sampled_from(FORMS))
def test_an_address_in_a_stack_config_is_refused_and_not_repeated(block: str, token: str, form: str) -> None:
    written = {"name": "lab", "region": "us-central1", "artifactsBucket": "artifacts"}
    with pytest.raises(SpecError) as caught:
        parse_environment(
            {**written, "notices": json.loads(block % form.format(token))}, project="my-project", source="test"
        )
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "block",
    [
        '"%s"',
        '["%s"]',
        '[{"target": "%s"}]',
        '[{"target": ["%s"]}]',
        '[{"target": "a", "states": "%s"}]',
        '[{"target": "a", "states": ["%s"]}]',
        '[{"target": "a", "url": "%s"}]',
    ],
)
@given(token=TOKENS, form=st.sampled_from(FORMS))
def test_an_address_anywhere_in_a_job_files_notices_is_refused_and_not_repeated(
    block: str, token: str, form: str
) -> None:
    training = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/p/t"}}
    written = {"jobId": "j", "trainingInput": training, "encamp": {"notices": json.loads(block % form.format(token))}}
    with pytest.raises(SpecError) as caught:
        parse_job(written, source="test")
    assert token not in str(caught.value)


def test_the_plan_shows_it_and_who_ends_the_job_finds_it_in_the_record_and_in_the_stack() -> None:
    lab = environment({"name": "team"}, {"name": "oncall", "states": ["FAILED"]})
    plan = plan_job(job(), lab)
    assert "Notices\n  oncall: FAILED\n  team: every end" in job_table(plan)
    told = [{"target": "oncall", "states": ["FAILED"]}, {"target": "team", "states": list(EVERY_END)}]
    assert job_document(plan)["notices"] == told
    outputs = job_summary(plan).to_json()
    assert outputs["notices"] == told
    by_hand = JobSummary.read(outputs)
    assert by_hand is not None
    found = found_intent(by_hand, OUTPUTS, environment_stack="lab", stack="mine", deadline=0.0)
    begun = planned_intent(
        plan, OUTPUTS, environment_stack="lab", stack="job-j", folder="", deadline=0.0, spec_hash="", source=None
    )
    for intent in (found, begun, Intent.model_validate(begun.to_json())):
        assert list(intent.notices) == told
        assert read_notices(intent.notices) == plan.notices
        assert merged_notices(read_notices(intent.notices), lab.notices) == plan.notices


def test_a_job_that_tells_nobody_looks_as_ever() -> None:
    plan = plan_job(job(), environment())
    assert "Notices" not in job_table(plan)
    assert "notices" not in job_document(plan)
    assert "notices" not in job_summary(plan).to_json()


def test_what_an_earlier_version_wrote_tells_nobody() -> None:
    plan = plan_job(job(), environment())
    begun = planned_intent(
        plan, OUTPUTS, environment_stack="lab", stack="job-j", folder="", deadline=0.0, spec_hash="", source=None
    ).to_json()
    assert "notices" not in begun
    assert Intent.model_validate(begun).notices == ()
