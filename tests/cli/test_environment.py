from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from encamp.cli import environment
from encamp.cli.main import cli
from encamp.cloud.storage import Storage
from encamp.errors import ExitCode, UsageError
from encamp.run.engine.stack_state import StackState

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = {
    "type": "gcp:storage/bucket:Bucket",
    "urn": "urn:pulumi:lab::encamp::gcp:storage/bucket:Bucket::lab-artifacts",
}
NETWORK = {"type": "gcp:compute/network:Network", "urn": "urn:pulumi:lab::encamp::gcp:compute/network:Network::lab"}


class Engine:
    """An engine with one stack."""

    def __init__(self, *resources: dict[str, Any]) -> None:
        self.destroyed: list[str] = []
        self._resources = list(resources)

    def state(self, stack: str) -> StackState:
        assert stack == "lab"
        return StackState({"resources": self._resources})

    def destroy(self, stack: str) -> None:
        self.destroyed.append(stack)


def down(engine: Engine, monkeypatch: pytest.MonkeyPatch, *full: str) -> str:
    def opened(_stack: str, *, stall: float) -> Engine:
        assert stall > 0
        return engine

    def is_empty(_storage: Storage, bucket: str) -> bool:
        return bucket not in full

    monkeypatch.setattr(environment, "open_engine", opened)
    monkeypatch.setattr(Storage, "is_empty", is_empty)
    return CliRunner().invoke(environment.command, ["down", "-s", "lab", "--yes"], catch_exceptions=False).output


def test_a_protected_environment_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(NETWORK, {**BUCKET, "protect": True})
    with pytest.raises(UsageError) as caught:
        down(engine, monkeypatch)
    assert engine.destroyed == []
    assert "Bucket lab-artifacts" in caught.value.what
    assert "Network" not in caught.value.what
    assert "protect: false" in str(caught.value.hint)


NAMED = {**BUCKET, "inputs": {"name": "acme-results"}}


@pytest.mark.parametrize(
    ("bucket", "whole"),
    [
        (NAMED, True),
        ({**NAMED, "external": True}, False),
        ({**NAMED, "inputs": {"name": "acme-results", "forceDestroy": True}}, False),
    ],
)
def test_an_environment_whose_buckets_hold_something_is_left_whole(
    monkeypatch: pytest.MonkeyPatch, bucket: dict[str, Any], *, whole: bool
) -> None:
    engine = Engine(NETWORK, bucket)
    if whole:
        with pytest.raises(UsageError, match="acme-results") as caught:
            down(engine, monkeypatch, "acme-results")
        assert "gs://acme-results/**" in str(caught.value.hint)
    else:
        down(engine, monkeypatch, "acme-results")
    assert engine.destroyed == ([] if whole else ["lab"])


def test_what_is_adopted_protects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(NETWORK, {**BUCKET, "protect": True, "external": True})
    assert down(engine, monkeypatch) == "environment lab is gone\n"
    assert engine.destroyed == ["lab"]


def opening(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(stack: str, **_: object) -> Engine:
        assert stack == "lab"
        return engine

    monkeypatch.setattr(environment, "open_engine", opened)


def test_down_without_a_terminal_says_what_to_write_and_destroys_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    opening(engine, monkeypatch)
    error = CliRunner().invoke(cli, ["environment", "down", "-s", "lab"], input="").exception
    assert isinstance(error, UsageError)
    assert error.exit_code is ExitCode.BAD_INPUT
    assert "--yes" in str(error.hint)
    assert engine.destroyed == []


@pytest.mark.parametrize("words", [["-s", "lab"], ["--stack=lab"], ["--environment", "lab"], ["lab"]])
def test_a_stack_is_named_in_one_way_and_former_ways_still_work(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    engine = Engine()
    opening(engine, monkeypatch)
    assert CliRunner().invoke(cli, ["environment", "down", "--yes", *words]).exit_code == ExitCode.OK
    assert engine.destroyed == ["lab"]


def test_two_stacks_are_refused() -> None:
    error = CliRunner().invoke(cli, ["environment", "down", "--yes", "lab", "-s", "other"]).exception
    assert isinstance(error, UsageError)
    assert "two stacks are named" in error.what


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield (*words, name), found


def test_every_command_that_takes_a_stack_takes_it_by_the_same_option() -> None:
    taking = set[str]()
    for words, command in commands(cli):
        options = {spelling for one in command.get_params(click.Context(command)) for spelling in one.opts}
        assert {"-s", "--stack", "--environment"} & options in (set(), {"-s", "--stack", "--environment"}), words
        shown = CliRunner().invoke(cli, [*words, "--help"]).output
        assert "--environment" not in shown, words
        assert "[STACK]" not in shown, words
        if "-s" in options:
            taking.add(" ".join(words))
            assert "-s, --stack STACK" in shown, words
    assert {"environment up", "ci preview", "ci drift", "doctor", "run", "reap", "acceptance"} <= taking
