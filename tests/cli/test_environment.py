from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from encamp.cli import environment
from encamp.cloud.storage import Storage
from encamp.errors import UsageError
from encamp.run.stack_state import StackState

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
    return CliRunner().invoke(environment.command, ["down", "lab", "--yes"], catch_exceptions=False).output


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
