"""A preview's events as plain data."""

from __future__ import annotations

from typing import Any

from pulumi.automation import EngineEvent

from encamp.ci.steps import Difference, Does, Steps

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def event(op: str, name: str, **metadata: Any) -> EngineEvent:
    kind = metadata.pop("type", "gcp:storage/bucket:Bucket")
    urn = f"urn:pulumi:s::encamp::encamp:components:Environment${kind}::{name}"
    step = {"op": op, "urn": urn, "type": kind, "provider": "urn:pulumi:s::encamp::pulumi:providers:gcp::default::1"}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, "resourcePreEvent": {"metadata": step | metadata}})


def state(**content: Any) -> dict[str, Any]:
    return {"type": "", "urn": "", "id": "", "parent": "", "provider": "p", "custom": True, **content}


def diagnostic(severity: str, message: str, urn: str = "") -> EngineEvent:
    told = {"severity": severity, "message": message, "urn": urn, "color": "never"}
    return EngineEvent.from_json({"sequence": 1, "timestamp": 1, "diagnosticEvent": told})


def taken(*events: EngineEvent) -> Steps:
    steps = Steps()
    for one in events:
        steps(one)
    return steps


def test_each_resource_is_told_once_and_what_stays_is_counted() -> None:
    steps = taken(
        event("same", "kept"),
        event("create", "new"),
        event("update", "other", old=state(inputs={}), new=state(inputs={})),
        event("delete", "gone", old=state(protect=True)),
        event("delete", "left", old=state(retainOnDelete=True)),
        *(event(op, "again") for op in ("create-replacement", "replace", "delete-replaced")),
    )
    assert [(step.name, step.does) for step in steps.steps()] == [
        ("new", Does.MAKES),
        ("other", Does.CHANGES),
        ("gone", Does.DESTROYS),
        ("left", Does.DESTROYS),
        ("again", Does.REPLACES),
    ]
    assert [step.name for step in steps.steps() if step.protected] == ["gone"]
    assert [step.name for step in steps.steps() if step.kept] == ["left"]
    assert steps.unchanged == 1


def test_what_exists_in_the_engines_state_alone_is_no_resource() -> None:
    provider = event("update", "cluster", type="pulumi:providers:kubernetes", old=state(), new=state())
    component = event("create", "job", type="encamp:components:TrainingJob", provider="", new=state(custom=False))
    refreshed = event("refresh", "bucket", old=state(), new=state())
    steps = taken(provider, component, refreshed)
    assert (steps.steps(), steps.unchanged) == ([], 0)


def test_a_difference_shows_both_values_and_whether_it_replaces() -> None:
    old = {"nodeConfig": {"machineType": "n1-standard-4", "labels": {"a.b/c": "old"}}, "zones": ["a", "b"], "gone": 1}
    new = {"nodeConfig": {"machineType": "n1-standard-8", "labels": {"a.b/c": "new"}}, "zones": ["a"], "made": UNKNOWN}
    detailed = {
        "nodeConfig.machineType": {"diffKind": "update-replace", "inputDiff": True},
        'nodeConfig.labels["a.b/c"]': {"diffKind": "update", "inputDiff": True},
        "zones[1]": {"diffKind": "delete", "inputDiff": True},
        "gone": {"diffKind": "delete", "inputDiff": True},
        "made": {"diffKind": "add", "inputDiff": True},
    }
    steps = taken(event("replace", "pool", old=state(inputs=old), new=state(inputs=new), detailedDiff=detailed))
    assert steps.steps()[0].differences == (
        Difference("gone", "1", None, replaces=False),
        Difference("made", None, "known once it exists", replaces=False),
        Difference('nodeConfig.labels["a.b/c"]', '"old"', '"new"', replaces=False),
        Difference("nodeConfig.machineType", '"n1-standard-4"', '"n1-standard-8"', replaces=True),
        Difference("zones[1]", '"b"', None, replaces=False),
    )


def test_where_a_provider_tells_no_paths_its_properties_are_shown() -> None:
    before, after = state(inputs={"data": {"a": "1"}}), state(inputs={"data": {"a": "2"}})
    steps = taken(event("replace", "scripts", old=before, new=after, diffs=["data"], keys=["data"]))
    assert steps.steps()[0].differences == (Difference("data", '{"a": "1"}', '{"a": "2"}', replaces=True),)


def test_neither_values_nor_messages_show_secrets_of_a_known_form() -> None:
    url = "https://user:hunter2hunter2@example.com/x"
    changed = event(
        "update",
        "job",
        old=state(inputs={"url": "none"}),
        new=state(inputs={"url": url}),
        detailedDiff={"url": {"diffKind": "update", "inputDiff": True}},
    )
    steps = taken(changed, diagnostic("error", f"<{{%reset%}}>cannot read {url}", "urn:pulumi:s::e::t::job"))
    assert steps.steps()[0].differences[0].new == '"https://user:[secret]@example.com/x"'
    assert steps.errors == ["job: cannot read https://user:[secret]@example.com/x"]


def test_what_the_engine_marks_as_secret_is_shown_as_one_at_every_depth() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
    old, new = {"spec": secret, "data": {"a": secret, "b": 1}}, {"spec": secret, "data": {"a": secret, "b": 2}}
    paths = {"spec.jobs[0].args": {"diffKind": "update"}, "data": {"diffKind": "update"}}
    steps = taken(event("update", "job", old=state(inputs=old), new=state(inputs=new), detailedDiff=paths))
    assert steps.steps()[0].differences == (
        Difference("data", '{"a": "[secret]", "b": 1}', '{"a": "[secret]", "b": 2}', replaces=False),
        Difference("spec.jobs[0].args", '"[secret]"', '"[secret]"', replaces=False),
    )


def test_warnings_are_kept_and_the_engines_own_chatter_is_not() -> None:
    steps = taken(diagnostic("warning", "an old name\n"), diagnostic("debug", "registering"), diagnostic("info", "hm"))
    assert (steps.warnings, steps.errors) == (["an old name"], [])
