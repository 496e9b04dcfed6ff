"""The controllers that an environment installs, and what it tells Kueue of its teams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from encamp.plan.environment.charts import read_chart

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

Declared = dict[str, dict[str, Any]]
#: Kinds that the engine waits for until their controller has put its authority into them.
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def of_queues(resources: Declared) -> Declared:
    return {key: inputs for key, inputs in resources.items() if key.startswith("kubernetes:kueue.x-k8s.io/")}


def test_what_kueue_is_told_is_what_the_golden_says(
    declared: Callable[[str], Declared], same_as_golden: Callable[[dict[str, Any], str], None]
) -> None:
    same_as_golden(of_queues(declared("with-queues")), "queues")


def test_every_object_of_the_charts_is_declared(declared: Callable[[str], Declared]) -> None:
    resources = declared("with-queues")
    for name in ("jobset", "kueue"):
        kept = read_chart(name)
        assert resources[f"kubernetes:core/v1:Namespace {kept['namespace']}"]
        for item in kept["objects"]:
            group = item["apiVersion"]
            token = f"kubernetes:{group if '/' in group else f'core/{group}'}:{item['kind']}"
            made = resources[f"{token} {item['metadata']['name']}"]
            labels = made["metadata"].pop("labels")
            assert labels.items() >= {"encamp-owner": "lab-team", **item["metadata"].get("labels", {})}.items()
            annotations = made["metadata"].pop("annotations", {})
            assert (annotations.pop("pulumi.com/waitFor", None) is not None) == (item["kind"] in WEBHOOKS)
            assert annotations == item["metadata"].get("annotations", {})
            rest = {key: value for key, value in item["metadata"].items() if key not in ("annotations", "labels")}
            assert made == {**item, "metadata": rest}


def test_the_sandbox_installs_nothing(declared: Callable[[str], Declared]) -> None:
    assert not [key for key in declared("of-the-sandbox-with-queues") if "CustomResourceDefinition" in key]
    assert of_queues(declared("of-the-sandbox-with-queues"))
