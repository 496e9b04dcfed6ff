"""Steps of the engine that take long say what they wait for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from encamp.errors import EngineError
from encamp.run.engine.events import EventLog
from encamp.run.engine.slow_steps import SlowSteps

POOL = "urn:pulumi:s::encamp::gcp:container/nodePool:NodePool::n1-standard-4"
BUCKET = "urn:pulumi:s::encamp::gcp:storage/bucket:Bucket::scratch"


def metadata(urn: str, operation: str) -> Any:
    kind = urn.split("::")[2]
    state = SimpleNamespace(id="x", retain_on_delete=False, inputs={})
    return SimpleNamespace(metadata=SimpleNamespace(op=operation, type=kind, urn=urn, new=state, old=state))


def begun(events: EventLog, urn: str, operation: str = "create") -> None:
    events(_event(resource_pre_event=metadata(urn, operation)))


def ended(events: EventLog, urn: str, *, failed: bool = False) -> None:
    kind = "res_op_failed_event" if failed else "res_outputs_event"
    events(_event(**{kind: metadata(urn, "create")}))


def _event(**given: Any) -> Any:
    empty = dict.fromkeys(("resource_pre_event", "res_outputs_event", "res_op_failed_event", "diagnostic_event"))
    return SimpleNamespace(**(empty | given))


def said(events: EventLog, operations: Any = None, usual: float = 0.0) -> list[str]:
    lines: list[str] = []
    assert SlowSteps(events, lines.append, operations, usual=usual).step()
    return lines


def test_a_pool_that_takes_long_says_what_gke_is_at_meanwhile() -> None:
    events = EventLog(lambda _: None)
    begun(events, POOL)
    assert said(events, lambda: ["UPGRADE_MASTER of encamp since 10:00"]) == [
        "still creating container NodePool n1-standard-4, for 0 s",
        "GKE changes a cluster's pools one after another, and is at: UPGRADE_MASTER of encamp since 10:00",
    ]
    assert said(events, list) == ["still creating container NodePool n1-standard-4, for 0 s"]
    assert said(events, usual=60.0) == []


def test_what_has_ended_is_not_waited_for() -> None:
    events = EventLog(lambda _: None)
    begun(events, POOL)
    begun(events, BUCKET)
    ended(events, POOL)
    assert said(events, lambda: ["never asked"]) == ["still creating storage Bucket scratch, for 0 s"]
    ended(events, BUCKET, failed=True)
    assert said(events) == []


def test_who_may_not_ask_google_is_told_so_and_nothing_fails() -> None:
    def refused() -> list[str]:
        raise EngineError("403 permission denied")

    events = EventLog(lambda _: None)
    begun(events, POOL, "delete")
    assert said(events, refused) == [
        "still deleting container NodePool n1-standard-4, for 0 s",
        "what GKE is at cannot be told: 403 permission denied",
    ]
