"""Which stacks are compared with the cloud, and what the exit code says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

import encamp.ci.drift as room
from encamp.ci.preview import Copied, Previewed
from encamp.ci.steps import Does, Step
from encamp.cli.main import cli
from encamp.errors import ExitCode, UsageError
from encamp.run.engine.stack_state import StackState

if TYPE_CHECKING:
    from pathlib import Path

QUIET = Previewed((), 7)
APART = Previewed((Step(Does.CHANGES, "gcp:storage/bucket:Bucket", "artifacts"),), 6)
FAILED = Previewed((), 0, ("the program fails",))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two environments and two jobs; of one environment everything but a job is up."""
    (tmp_path / "stacks").mkdir()
    made = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    configs: dict[str, dict[str, Any]] = {
        "lab": {"encamp:environment": made, "gcp:project": "acme-lab"},
        "else": {"encamp:environment": {**made, "name": "else"}, "gcp:project": "acme-lab"},
        "a-job": {"encamp:environmentStack": "lab", "encamp:job": {"file": "job.yaml"}},
        "idle": {"encamp:environmentStack": "lab", "encamp:job": {"file": "job.yaml"}},
    }
    for name, config in configs.items():
        (tmp_path / "stacks" / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))

    class Engine:
        def __init__(self, folder: Path, show: object) -> None:
            del folder, show

        def stacks(self) -> list[str]:
            return ["lab", "a-job", "else"]

        def state(self, stack: str) -> StackState:
            return StackState({"resources": [{"urn": f"urn:pulumi:{stack}::encamp::t::{stack}", "type": "t"}]})

    monkeypatch.setattr(room, "JobEngine", Engine)
    (tmp_path / "Pulumi.yaml").write_text("name: camp\nruntime: python\nstackConfigDir: stacks\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answering(monkeypatch: pytest.MonkeyPatch, answers: dict[str, Previewed]) -> list[str]:
    """Let previews answer so; gives the stacks that they are asked of."""
    asked: list[str] = []

    class Previews:
        def __init__(self, folder: Path) -> None:
            del folder

        def apart(self, stack: Copied, environment: Copied | None = None, *, refresh: bool) -> Previewed:
            assert refresh
            assert stack.state
            assert (environment.name if environment is not None else "lab") == "lab"
            asked.append(stack.name)
            return answers[stack.name]

    monkeypatch.setattr(room, "Previews", Previews)
    return asked


def test_every_stack_of_the_environment_that_is_up_is_compared_the_environment_first(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, {"lab": APART, "a-job": QUIET})
    found = {one.stack: one for one in room.drift(checkout, "lab", (), lambda _: None)}
    assert asked == ["lab", "a-job"]
    assert {name: one.quiet for name, one in found.items()} == {"lab": False, "a-job": True, "idle": True}
    assert found["idle"].previewed is None


def test_named_stacks_alone_are_compared(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, {"a-job": QUIET})
    assert [one.stack for one in room.drift(checkout, "lab", ("a-job",), lambda _: None)] == ["a-job"]
    assert asked == ["a-job"]


@pytest.mark.parametrize("name", ["nowhere", "else"])
def test_a_stack_that_the_environment_has_not_is_refused(checkout: Path, name: str) -> None:
    with pytest.raises(UsageError, match="its stacks: a-job, idle, lab"):
        room.drift(checkout, "lab", (name,), lambda _: None)


@pytest.mark.parametrize(
    ("answer", "code"), [(QUIET, ExitCode.OK), (APART, 1), (FAILED, ExitCode.INFRASTRUCTURE_FAILED)]
)
@pytest.mark.usefixtures("checkout")
def test_the_exit_code_says_whether_they_agree(monkeypatch: pytest.MonkeyPatch, answer: Previewed, code: int) -> None:
    answering(monkeypatch, {"lab": answer, "a-job": QUIET})
    ended = CliRunner().invoke(cli, ["ci", "drift", "--environment", "lab"])
    assert ended.exit_code == code
    assert "### encamp: " in ended.output
    for reason in answer.errors:
        assert reason in ended.output
