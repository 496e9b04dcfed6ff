"""What the state says of creates that an engine did not hear the end of."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.run.engine.stack_state import StackState

STACK = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"
CLUSTER = "urn:pulumi:s::p::gcp:container/cluster:Cluster::c"
POOL = "urn:pulumi:s::p::gcp:container/nodePool:NodePool::n"
BUCKET = "urn:pulumi:s::p::gcp:storage/bucket:Bucket::b"


def resource(urn: str, **more: Any) -> dict[str, Any]:
    return {"urn": urn, "type": urn.split("::")[2], "custom": True, "inputs": {"name": urn[-1]}, **more}


def state(*resources: dict[str, Any], pending: tuple[dict[str, Any], ...] = ()) -> StackState:
    operations = [{"type": "creating", "resource": one} for one in pending]
    return StackState({"resources": [resource(STACK), *resources], "pending_operations": operations})


def test_what_has_an_id_is_as_if_it_had_been_answered_and_the_rest_is_dropped() -> None:
    pending = (resource(CLUSTER, parent=STACK), resource(POOL))
    settled = state(resource(BUCKET, id="b"), pending=pending).with_answers({CLUSTER: "clusters/c"})
    assert settled["pending_operations"] == []
    assert [one["urn"] for one in settled["resources"]] == [STACK, BUCKET, CLUSTER]
    made = resource(CLUSTER, parent=STACK, id="clusters/c", outputs={"name": "c"})
    assert settled["resources"][-1] == made


def test_what_was_to_be_replaced_is_listed_once() -> None:
    before = resource(BUCKET, id="old")
    settled = state(before, pending=(resource(BUCKET),)).with_answers({BUCKET: "new"})
    assert settled["resources"] == [resource(STACK), before]


@pytest.mark.parametrize(
    ("resources", "cut_short"),
    [
        ([resource(CLUSTER, outputs={"operation": "operation-1"})], True),
        ([resource(POOL, outputs={"operation": "operation-1"})], True),
        ([resource(CLUSTER, outputs={"operation": ""}), resource(POOL)], False),
        ([resource(BUCKET, outputs={"operation": "operation-1"})], False),
    ],
)
def test_a_create_of_gke_that_went_on_names_its_operation(resources: list[dict[str, Any]], cut_short: bool) -> None:
    assert state(*resources).is_cut_short is cut_short


def test_a_stack_is_named_once_something_was_made_in_it() -> None:
    assert state().stack_urn == STACK
    assert StackState({}).stack_urn is None
