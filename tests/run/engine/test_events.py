"""What an engine run says of its resources: each in detail, and all of them in one line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from encamp.run.detail import Detail
from encamp.run.engine.events import EventLog

_KINDS = ("resource_pre_event", "res_outputs_event", "res_op_failed_event", "diagnostic_event")


def event(kind: str, name: str, operation: str) -> Any:
    state = SimpleNamespace(id="", retain_on_delete=False, inputs={})
    urn = f"urn:pulumi:s::encamp::gcp:storage/bucket:Bucket::{name}"
    metadata = SimpleNamespace(op=operation, type=urn.split("::")[2], urn=urn, new=state, old=state)
    return SimpleNamespace(**{**dict.fromkeys(_KINDS), kind: SimpleNamespace(metadata=metadata)})


def said(*steps: tuple[str, str, str]) -> list[str]:
    lines: list[str] = []
    events = EventLog(lines.append)
    for kind, name, operation in steps:
        events(event(kind, name, operation))
    assert all(isinstance(line, Detail) for line in lines)
    before = len(lines)
    events.say_summary()
    assert not any(isinstance(line, Detail) for line in lines[before:])
    return lines


def test_resources_are_details_and_their_number_is_not() -> None:
    steps = [(kind, name, "create") for name in "ab" for kind in ("resource_pre_event", "res_outputs_event")]
    assert said(*steps) == [
        "creating storage Bucket a",
        "created storage Bucket a",
        "creating storage Bucket b",
        "created storage Bucket b",
        "2 resources made in 0 s",
    ]


def test_every_kind_of_step_is_counted() -> None:
    done = said(
        ("res_outputs_event", "a", "delete"),
        ("res_outputs_event", "b", "update"),
        ("res_op_failed_event", "c", "create"),
    )
    assert done[-1] == "1 resource updated, 1 deleted, 1 failed in 0 s"


def test_a_run_that_changes_nothing_says_nothing() -> None:
    assert said(("res_outputs_event", "a", "same")) == []
