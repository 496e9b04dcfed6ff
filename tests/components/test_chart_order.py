"""The order in which a chart's objects may be made: what the engine waits for must be able to come."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from encamp.components import chart
from encamp.plan.environment.charts import ChartPlan, read_chart

# pulumi's own classes take seconds to import.
pytestmark = pytest.mark.slow


class Made(pulumi.Resource):
    """An object that was declared, and what it comes after."""

    def __init__(self, name: str, manifest: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        # Nothing is registered: there is no engine here.
        self.kind = manifest["kind"]
        self.annotations = manifest["metadata"].get("annotations", {})
        self.name = name
        self.after: Any = opts.depends_on


def nothing(*_: object) -> None:
    """In the place of what would ask an engine."""


@pytest.mark.parametrize("name", ["jobset", "kueue"])
def test_webhooks_come_when_their_controller_answers(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(chart, "KubernetesObject", Made)
    for method in ("__init__", "register_outputs"):
        monkeypatch.setattr(pulumi.ComponentResource, method, nothing)
    kept = read_chart(name)
    provider: Any = None
    plan = ChartPlan(name, kept["version"], kept["namespace"], {}, tuple(kept["objects"]))
    ready: list[Any] = list(chart.Chart(name, plan, provider=provider).ready)
    webhooks = [one for one in ready if one.kind.endswith("WebhookConfiguration")]
    (controller,) = [one for one in ready if one.kind == "Deployment"]
    assert len(webhooks) == 2
    for webhook in webhooks:
        assert {"Deployment", "Service"} <= {one.kind for one in webhook.after}
        # Whoever comes after it is refused until the controller's authority stands in it.
        assert "caBundle" in webhook.annotations["pulumi.com/waitFor"]
    # A Service is waited for until a pod answers behind it: the controller's own may not come before it.
    before = {one.kind for one in controller.after}
    assert "Service" not in before
    assert {"ServiceAccount", "ConfigMap", "Secret", "ClusterRoleBinding"} <= before
    assert all(
        "CustomResourceDefinition" in {one.kind for one in other.after}
        for other in controller.after
        if other.kind == "ConfigMap"
    )
