"""What the program says where the cloud does not answer as it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.job_cases import job_case

from encamp import program
from encamp.errors import PlanError, UsageError
from encamp.plan.job import plan_job
from encamp.spec.environment import load_environment

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(r"ignore:gcp\..* has been deprecated:DeprecationWarning")]

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("googleapi: Error 404: The specified bucket does not exist., notFound", UsageError),
        ("googleapi: Error 403: no storage.objects.list, forbidden", RuntimeError),
    ],
)
def test_a_job_without_its_environment_says_so(
    said: str, refused: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pulumi_gcp as gcp  # noqa: PLC0415 - takes a second

    def fails(**_: Any) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(gcp.storage, "get_bucket_objects", fails)
    found = job_case("basic-bare").job_file().named("job")
    plan = plan_job(found.job, load_environment("sandbox", REPOSITORY))
    with pytest.raises(refused) as raised:
        program._refuse_ended(plan)
    if refused is UsageError:
        assert "the environment sandbox is not up" in str(raised.value)
        assert "encamp environment up sandbox" in str(raised.value)


def test_the_stacks_own_state_is_read_again_while_the_engine_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import pulumi  # noqa: PLC0415 - takes a second

    answers: list[Any] = [RuntimeError("failed to load checkpoint: EOF"), {"outputs": {"jobSet": "j"}}]

    class Result:
        def __init__(self, value: Any) -> None:
            self.value = value

    def invoke(token: str, given: dict[str, str]) -> Result:
        assert (token, given["name"].rpartition("/")[2]) == ("pulumi:pulumi:readStackOutputs", pulumi.get_stack())
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return Result(found)

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    monkeypatch.setattr(program, "_PAUSES", (0.0,))
    assert program._own_outputs() == {"jobSet": "j"}
    answers[:] = [RuntimeError("gone"), RuntimeError("gone")]
    with pytest.raises(RuntimeError, match="gone"):
        program._own_outputs()


def test_a_damaged_summary_is_no_new_stack() -> None:
    """A plan that knows nothing of a running job could replace its machines."""
    assert program._earlier({}) is None
    with pytest.raises(PlanError, match="no summary of its job that can be read"):
        program._earlier({"jobSet": "j"})
