from __future__ import annotations

from typing import Any

import pytest

from encamp.property_paths import parse_path
from encamp_sandbox.kubernetes.objects import (
    for_server,
    identity,
    kind_of_token,
    normal,
    prune,
    quantity,
    split_identity,
    with_name,
)
from encamp_sandbox.kubernetes.ownership import owned_by_others, takeover
from encamp_sandbox.kubernetes.replacement import forces_replacement
from encamp_sandbox.provider import UNKNOWN
from encamp_sandbox.provider.compare import Change, differences


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("1000m", "1"), (1, "1"), ("0.5", "500m"), ("1.5", "1500m"), ("1024Mi", "1Gi"), ("1000Mi", "1000Mi"),
        ("1536Mi", "1536Mi"), ("1e3", "1e3"), ("2k", "2k"), ("2000", "2k"), ("0", "0"), ("many", "many"),
        (UNKNOWN, UNKNOWN),
    ],
)  # fmt: skip
def test_quantities(given: Any, canonical: Any) -> None:
    assert quantity(given) == canonical


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("kubernetes:core/v1:Namespace", ("v1", "Namespace")),
        ("kubernetes:batch/v1:Job", ("batch/v1", "Job")),
        ("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", ("jobset.x-k8s.io/v1alpha2", "JobSet")),
    ],
)
def test_tokens(token: str, kind: tuple[str, str]) -> None:
    assert kind_of_token(token) == kind


def test_ids() -> None:
    assert identity({"metadata": {"name": "n", "namespace": "s"}}) == "s/n"
    assert identity({"metadata": {"name": "n"}}) == "n"
    assert split_identity("s/n") == ("s", "n")
    assert split_identity("n") == ("", "n")


def test_automatic_names_are_kept_and_never_given_where_there_is_one() -> None:
    made = with_name({"metadata": {"labels": {"a": "b"}}}, {}, "logical", b"seed")
    assert made["metadata"]["name"].startswith("logical-")
    assert made["metadata"]["labels"] == {"a": "b"}
    assert with_name({}, made, "logical", b"other seed")["metadata"]["name"] == made["metadata"]["name"]
    assert with_name({}, {}, "logical", b"other seed")["metadata"]["name"] != made["metadata"]["name"]
    for given in ({"metadata": {"name": "own"}}, {"metadata": {"generateName": "own-"}}, {"metadata": UNKNOWN}):
        assert with_name(given, {}, "logical", b"seed") == given
    named_before = {"metadata": {"name": "own"}}
    assert with_name({}, named_before, "logical", b"seed")["metadata"]["name"] != "own"


def test_only_what_the_shape_has_counts() -> None:
    live = {"a": 1, "b": {"c": 2, "d": 3}, "l": [{"x": 1, "y": 2}, {"x": 3}]}
    shape = {"b": {"c": 0, "gone": 0}, "l": [{"x": 0}]}
    assert prune(live, shape) == {"b": {"c": 2}, "l": [{"x": 1}, {"x": 3}]}


def test_built_in_kinds_are_compared_as_the_server_stores_them_and_custom_ones_as_given() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    assert normal(secret)["data"] == {"a": "Yg==", "c": "ZA=="}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"nodeSelector": {}, "volumes": [{"name": "v", "emptyDir": {}}]},
    }
    assert normal(pod)["spec"] == {"volumes": [{"name": "v", "emptyDir": {}}]}
    custom: dict[str, Any] = {
        "apiVersion": "e.com/v1",
        "kind": "W",
        "metadata": {"uid": "u", "name": "w"},
        "spec": {"empty": {}},
    }
    assert normal(custom) == {"apiVersion": "e.com/v1", "kind": "W", "metadata": {"name": "w"}, "spec": {"empty": {}}}
    assert for_server({"a": None, "b": [{"c": None}]}) == {"b": [{}]}


@pytest.mark.parametrize(
    ("obj", "path", "forced"),
    [
        (("v1", "ConfigMap"), "data.x", True),
        (("v1", "ConfigMap"), "metadata.labels.x", False),
        (("v1", "Pod"), "spec.containers[0].image", True),
        (("v1", "Pod"), "spec.tolerations[0]", False),
        (("batch/v1", "Job"), "spec.template.spec.containers[0].image", True),
        (("batch/v1", "Job"), "spec.backoffLimit", False),
        (("apps/v1", "Deployment"), "spec.selector.matchLabels.a", True),
        (("apps/v1", "Deployment"), "spec.template.spec", False),
        (("jobset.x-k8s.io/v1alpha2", "JobSet"), "spec.replicatedJobs[0].replicas", False),
        (("jobset.x-k8s.io/v1alpha2", "JobSet"), "metadata.name", True),
        (("jobset.x-k8s.io/v1alpha2", "JobSet"), "metadata", True),
    ],
)
def test_what_forces_a_replacement(obj: tuple[str, str], path: str, forced: bool) -> None:
    assert forces_replacement({"apiVersion": obj[0], "kind": obj[1]}, parse_path(path)) is forced


def test_immutable_config_maps_are_replaced_even_where_others_are_not() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert not forces_replacement(obj, ("data", "x"), mutable_config_maps=True)
    assert forces_replacement({**obj, "immutable": True}, ("data", "x"), mutable_config_maps=True)


def live(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "managedFields": list(entries)}}


def entry(manager: str, operation: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields, **more}


def test_what_we_created_becomes_what_we_apply() -> None:
    theirs, status = entry("they", "Update", {"f:z": {}}), entry("us", "Update", {"f:s": {}}, subresource="status")
    mine = entry("us", "Update", {"f:a": {"f:b": {}}})
    kubectl = entry("kubectl", "Update", {"f:a": {"f:c": {}}})
    patch = takeover(live(theirs, mine, status, kubectl), "us")
    assert patch
    assert patch[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert patch[1]["value"] == [theirs, status, entry("us", "Apply", {"f:a": {"f:b": {}, "f:c": {}}})]
    assert takeover(live(theirs, entry("us", "Apply", {})), "us") is None


def test_a_field_may_be_somebody_elses() -> None:
    obj = live(
        entry("they", "Update", {"f:spec": {"f:a": {}, "f:b": {}}}), entry("us", "Apply", {"f:spec": {"f:b": {}}})
    )
    assert owned_by_others(obj, ("spec", "a"), "us")
    assert not owned_by_others(obj, ("spec", "b"), "us")
    assert not owned_by_others(obj, ("spec", "c"), "us")


def test_differences_are_told_at_their_innermost_place() -> None:
    old = {"a": {"b": [1, {"c": 2}]}, "gone": 1, "same": None, "flag": True}
    new = {"a": {"b": [1, {"c": 3}, 4]}, "flag": 1, "late": UNKNOWN}
    assert dict(differences(old, new)) == {
        ("a", "b", 1, "c"): Change.UPDATE,
        ("a", "b", 2): Change.ADD,
        ("gone",): Change.DELETE,
        ("flag",): Change.UPDATE,
        ("late",): Change.ADD,
    }
