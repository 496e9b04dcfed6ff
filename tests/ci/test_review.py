"""A review of a change: what is asked of the engine, and what is said where it is not asked."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

import encamp.ci.review as room
from encamp.ci.preview import Copied, Previewed
from encamp.ci.review import Reviewed, review
from encamp.ci.steps import Does, Step
from encamp.cli.main import cli
from encamp.errors import ExitCode, SandboxError
from encamp.resources import repository
from encamp.run.engine.run_errors import NoStackError
from encamp.run.engine.stack_state import StackState
from encamp.spec.environment import load_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
STACK, BUCKET = "pulumi:pulumi:Stack", "gcp:storage/bucket:Bucket"
QUIET = Previewed((), 7)


class Engine:
    """A backend: the resources and the outputs of each stack that it has."""

    def __init__(
        self,
        stacks: Mapping[str, list[str]],
        outputs: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        self._stacks, self._outputs, self._inputs = stacks, outputs or {}, inputs or {}

    def __call__(self, folder: Path, show: object) -> Engine:
        del folder, show
        return self

    def resources(self, stack: str) -> list[str]:
        if stack not in self._stacks:
            raise NoStackError("the engine has no such stack")
        return self._stacks[stack]

    def state(self, stack: str) -> StackState:
        whole = {"urn": f"urn:pulumi:{stack}::encamp::{STACK}::encamp-{stack}", "type": STACK}
        whole["outputs"] = self._outputs.get(stack, {})
        held = [
            {"urn": f"urn:pulumi:{stack}::encamp::{BUCKET}::{name}", "type": BUCKET, "inputs": self._inputs}
            for name in self.resources(stack)
        ]
        return StackState({"resources": [whole, *held] if held else []})


class Previews:
    """Notes what is previewed, and how."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.answer = QUIET

    def __call__(self, folder: Path) -> Previews:
        del folder
        return self

    def apart(self, stack: Copied, environment: Copied | None = None, *, refresh: bool = False) -> Previewed:
        assert stack.config
        assert not refresh
        beside = environment.name if environment is not None else None
        self.asked.append((stack.name, "up" if stack.state else "new", beside))
        return self.answer


@pytest.fixture
def previews(monkeypatch: pytest.MonkeyPatch) -> Previews:
    made = Previews()
    monkeypatch.setattr(room, "Previews", made)
    return made


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with an environment and a job in it, on a branch of its own."""
    root = repository()
    assert root is not None
    shutil.copytree(root / "examples" / "digits", tmp_path / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "Pulumi.yaml", tmp_path)
    stack(tmp_path, "lab", environment=ENVIRONMENT)
    stack(tmp_path, "digits", environmentStack="lab", job={"file": "jobs/job.yaml"})
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=base")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def stack(folder: Path, name: str, **config: Any) -> None:
    (folder / "stacks").mkdir(exist_ok=True)
    content = {"gcp:project": "acme-lab", **{f"encamp:{key}": value for key, value in config.items()}}
    (folder / "stacks" / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": content}))


def edit(folder: Path, old: str, new: str) -> None:
    file = folder / "jobs" / "job.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def reviewed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine, environment: str | None = "lab"
) -> dict[str, Reviewed]:
    def load(name: str) -> object:
        return load_environment(name, checkout)

    monkeypatch.setattr(room, "JobEngine", engine)
    found = review(checkout, "main", environment, lambda _: None, load)
    return {one.touched.stack.name: one for one in found}


def test_what_the_backend_has_is_previewed_there(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(checkout, "workerCount: 2", "workerCount: 4")
    found = reviewed(checkout, monkeypatch, Engine({"lab": ["x"], "digits": ["y"]}))
    assert list(found) == ["digits"]
    assert previews.asked == [("digits", "up", "lab")]
    before, after = found["digits"].before, found["digits"].after
    assert before is not None
    assert after is not None
    assert before.cost is not None
    assert after.cost is not None
    assert before.cost.worst_case is not None
    assert after.cost.worst_case == pytest.approx(before.cost.worst_case * 5 / 3, abs=0.01)


def test_without_a_name_every_touched_environment_is_entered_and_left(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(checkout, "lab", environment={**ENVIRONMENT, "owner": "somebody"})
    stack(checkout, "other", environment={**ENVIRONMENT, "name": "other"})
    entered: list[str] = []

    def enter(name: str) -> None:
        assert "ENTERED" not in os.environ
        monkeypatch.setenv("ENTERED", name)
        entered.append(name)
        if name == "other":
            raise SandboxError("the sandbox does not run")

    monkeypatch.setattr(room, "JobEngine", Engine({"lab": ["x"]}))
    found = {one.touched.stack.name: one for one in review(checkout, "main", None, lambda _: None, enter)}
    assert entered == ["lab", "other"]
    assert "ENTERED" not in os.environ
    assert [name for name, *_ in previews.asked] == ["lab", "digits"]
    assert found["other"].note == "planned only, not previewed: the sandbox does not run"
    with pytest.raises(SandboxError):
        review(checkout, "main", "other", lambda _: None, enter)


def test_what_no_backend_has_is_previewed_beside_its_environments_outputs(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(checkout, "more", environmentStack="lab", job={"file": "jobs/job.yaml", "jobId": "more"})
    stack(checkout, "other", environment={**ENVIRONMENT, "name": "other"})
    outputs = {"lab": {"cluster": "encamp"}}
    reviewed(checkout, monkeypatch, Engine({"lab": ["x"]}, outputs))
    assert previews.asked == [("more", "new", "lab")]
    previews.asked.clear()
    reviewed(checkout, monkeypatch, Engine({}), environment="other")
    assert previews.asked == [("other", "new", None)]


def test_a_new_job_whose_environment_is_not_up_is_shown_as_planned(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(checkout, "more", environmentStack="lab", job={"file": "jobs/job.yaml", "jobId": "more"})
    found = reviewed(checkout, monkeypatch, Engine({}))["more"]
    assert previews.asked == []
    assert "is not up" in found.note
    assert {step.does for step in found.steps} == {Does.MAKES}
    assert "gcp:container/nodePool:NodePool" in {step.type for step in found.steps}


def test_stacks_of_another_environment_are_planned_only(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(checkout, "workerCount: 2", "workerCount: 4")
    found = reviewed(checkout, monkeypatch, Engine({"digits": ["x"]}), environment="sandbox")["digits"]
    assert previews.asked == []
    assert "planned only" in found.note
    assert found.after is not None
    assert found.after.cost is not None


def test_a_stack_whose_config_goes_while_it_is_up_is_named(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "stacks" / "Pulumi.digits.yaml").unlink()
    found = reviewed(checkout, monkeypatch, Engine({"digits": ["a", "b"]}))["digits"]
    assert (found.held, previews.asked) == (2, [])
    assert "take it down before" in found.note
    assert reviewed(checkout, monkeypatch, Engine({}))["digits"].note == ""


def test_what_rules_refuse_is_not_asked_of_the_engine(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"spotOnly": True, "message": "we save"}, {"requiredLabels": ["team"]}]
    stack(checkout, "lab", environment={**ENVIRONMENT, "policy": {"rules": rules}})
    edit(checkout, "workerCount: 2", "workerCount: 3")
    found = reviewed(checkout, monkeypatch, Engine({"lab": ["x"], "digits": ["y"]}))
    assert previews.asked == [("lab", "up", None)]
    assert [text.partition(":")[0] for text in found["digits"].refused] == ["encamp.provisioning", "labels.team"]
    assert "we save" in found["digits"].refused[0]
    edit(checkout, "workerCount: 3", "workerCount: [3]")
    refused = reviewed(checkout, monkeypatch, Engine({}))["digits"].refused
    assert refused
    assert all("jobs/job.yaml:" in problem for problem in refused)


SECURE = {"secure": "v1:AAAA:BBBB"}
CIPHERTEXT = {
    "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
    "ciphertext": "v1:AAAA:BBBB",
}


@pytest.mark.parametrize("job", [SECURE, {"trainingInput": {"scaleTier": "BASIC", "args": [SECURE]}}])
def test_of_a_job_with_secrets_nothing_is_said_but_that_it_has_some(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch, job: Any
) -> None:
    stack(checkout, "digits", environmentStack="lab", job=job)
    found = reviewed(checkout, monkeypatch, Engine({}))["digits"]
    assert (found.refused, previews.asked) == ((), [])
    assert found.after is not None
    assert "secret" in found.after.warnings[0]


def test_a_stack_with_secrets_is_previewed_without_its_key_unless_all_of_it_is_encrypted(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(checkout, "lab", environment=ENVIRONMENT, token=SECURE)
    found = reviewed(checkout, monkeypatch, Engine({"lab": ["x"]}, inputs={"password": CIPHERTEXT}))["lab"]
    assert previews.asked[0] == ("lab", "up", None)
    assert found.uncompared == ("x: password",)
    previews.asked.clear()
    stack(checkout, "lab", environment=SECURE)
    found = reviewed(checkout, monkeypatch, Engine({"lab": ["x"]}))["lab"]
    assert previews.asked == []
    assert "who has it runs `pulumi preview -s lab`" in found.note


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (QUIET, ExitCode.OK),
        (Previewed((Step(Does.MAKES, "t", "n"),)), ExitCode.OK),
        (Previewed((), 0, ("quota exceeded",)), ExitCode.INFRASTRUCTURE_FAILED),
    ],
)
def test_the_command_writes_the_comment_and_its_exit_code_says_how_it_went(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch, answer: Previewed, code: ExitCode
) -> None:
    edit(checkout, "workerCount: 2", "workerCount: 4")
    monkeypatch.setattr(room, "JobEngine", Engine({"lab": ["l"], "digits": ["x"]}))
    monkeypatch.chdir(checkout)
    previews.answer = answer
    output = checkout / "comment.md"
    words = ["ci", "preview", "--base", "main", "-s", "lab", "--output", str(output)]
    assert CliRunner().invoke(cli, words).exit_code == code
    assert output.read_text().startswith("### encamp: ")
    for reason in answer.errors:
        assert reason in output.read_text()


def test_a_refused_stack_is_bad_input(checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(checkout, "workerCount: 2", "workerCount: many")
    monkeypatch.setattr(room, "JobEngine", Engine({}))
    monkeypatch.chdir(checkout)
    ended = CliRunner().invoke(cli, ["ci", "preview", "--environment", "lab"])
    assert ended.exit_code == ExitCode.BAD_INPUT
    assert "**Refused by rules:**" in ended.output
    assert previews.asked == []


def test_a_change_that_breaks_its_environment_has_a_comment_too(
    checkout: Path, previews: Previews, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack(checkout, "lab", environment={**ENVIRONMENT, "region": "nowhere", "bucket": "b"})
    monkeypatch.setattr(room, "JobEngine", Engine({"lab": ["x"], "digits": ["y"]}))
    monkeypatch.chdir(checkout)
    ended = CliRunner().invoke(cli, ["ci", "preview", "--environment", "lab"])
    assert ended.exit_code == ExitCode.BAD_INPUT
    assert "2 stacks touched, 2 cannot be brought up" in ended.output
    assert "'nowhere' must be a region" in ended.output
    assert previews.asked == []
