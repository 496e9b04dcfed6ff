"""Former names: no component that was ever released is called otherwise without the engine being told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

from encamp.components.renamed import RENAMED, Renamed, keep_renamed

if TYPE_CHECKING:
    import pytest

INFRA = Path(__file__).resolve().parents[2] / "infra"
#: Type tokens of released components, as they are called in the states of stacks.
RELEASED = {
    f"encamp:components:{name}"
    for name in (
        "Cluster",
        "Environment",
        "JobAccess",
        "JobNodePools",
        "JobStorage",
        "JobWorkload",
        "Network",
        "Reaper",
        "TrainingJob",
    )
}


def test_every_released_component_is_still_known() -> None:
    text = "\n".join(path.read_text() for path in (INFRA / "encamp" / "components").glob("*.py"))
    present = set(re.findall(r'super\(\).__init__\(\s*"(encamp:[\w:]+)"', text))
    assert present
    former = {one.was_type for one in RENAMED}
    assert not RELEASED - present - former


def aliases(renamed: list[Renamed], kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[pulumi.Alias] | None:
    """The aliases that a resource gets, None where its options stay as they are."""
    taken: list[Any] = []
    monkeypatch.setattr(pulumi.runtime, "register_stack_transformation", taken.append)
    keep_renamed(renamed)
    assert len(taken) == (1 if renamed else 0)
    options = pulumi.ResourceOptions(protect=True)
    args = pulumi.ResourceTransformationArgs(pulumi.Resource.__new__(pulumi.Resource), kind, name, {}, options)
    result = taken[0](args) if taken else None
    if result is None:
        return None
    assert result.opts.protect
    return list(result.opts.aliases)


def test_where_nothing_was_renamed_no_resource_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert aliases([], "encamp:components:Cluster", "lab", monkeypatch) is None


def test_a_renamed_type_is_known_by_its_former_token_under_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    table = [Renamed("encamp:components:GkeCluster", was_type="encamp:components:Cluster")]
    assert aliases(table, "encamp:components:Network", "lab", monkeypatch) is None
    found = aliases(table, "encamp:components:GkeCluster", "lab", monkeypatch)
    assert found is not None
    assert [one.type_ for one in found] == ["encamp:components:Cluster"]
    # What an alias does not say is as it is now.
    assert found[0].name is ...


def test_a_renamed_resource_is_known_by_its_former_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "gcp:storage/bucket:Bucket"
    table = [Renamed(kind, name="results", was_name="output")]
    assert aliases(table, kind, "scratch", monkeypatch) is None
    found = aliases(table, kind, "results", monkeypatch)
    assert found is not None
    assert [(one.name, one.type_) for one in found] == [("output", kind)]
