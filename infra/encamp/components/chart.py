"""A controller from its chart: types first, then the controller, and what asks it for admission when it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from encamp.components.kubernetes_object import KubernetesObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pulumi_kubernetes as k8s

    from encamp.plan.environment.charts import ChartPlan

_TYPE = "CustomResourceDefinition"
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
#: A webhook can be called once its controller has written its CA bundle into it, which takes moments. Until then the
#: API server refuses whatever the webhook is to judge, so the engine waits for the bundle.
#: Source: pulumi-kubernetes, CHANGELOG.md, whose example of pulumi.com/waitFor this is.
_CALLED = {"pulumi.com/waitFor": "jsonpath={.webhooks[0].clientConfig.caBundle}"}
#: What a controller writes into its own objects once it runs: certificates.
_CERTIFICATES = {
    "Secret": ["data"],
    _TYPE: ["spec.conversion.webhook.clientConfig.caBundle"],
}


class Chart(pulumi.ComponentResource):
    """Every object of a chart.

    Attributes:
        ready: what must stand before somebody relies on the controller.
    """

    def __init__(
        self, name: str, plan: ChartPlan, *, provider: k8s.Provider, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("encamp:components:Chart", name, {}, opts)
        self._plan = plan
        self._provider = provider
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plan.namespace}}
        before = [self._made(namespace, [])]
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for item in plan.objects:
            by_kind.setdefault(item["kind"], []).append(item)
        types = [self._made(item, before) for item in by_kind.pop(_TYPE, [])]
        webhooks = [item for kind in sorted(_WEBHOOKS) for item in by_kind.pop(kind, [])]
        # The engine waits for a Service until somebody answers behind it, so its controller cannot wait for it.
        together = [item for kind in ("Deployment", "Service") for item in by_kind.pop(kind, [])]
        rest = [self._made(item, [*before, *types]) for items in by_kind.values() for item in items]
        # A webhook that nobody answers would refuse everything: it comes when its controller is ready.
        running = [self._made(item, rest) for item in together]
        self.ready = [*types, *running, *(self._made(item, running) for item in webhooks)]
        self.register_outputs({})

    def _made(self, item: Mapping[str, Any], after: list[KubernetesObject]) -> KubernetesObject:
        metadata = item["metadata"]
        labelled = {**metadata, "labels": {**metadata.get("labels", {}), **self._plan.labels}}
        kind = item["kind"]
        ignored = list(_CERTIFICATES.get(kind, []))
        if kind in _WEBHOOKS:
            labelled["annotations"] = {**metadata.get("annotations", {}), **_CALLED}
            ignored = [f"webhooks[{index}].clientConfig.caBundle" for index, _ in enumerate(item["webhooks"])]
        return KubernetesObject(
            metadata["name"],
            {**item, "metadata": labelled},
            pulumi.ResourceOptions(
                parent=self, provider=self._provider, depends_on=list(after), ignore_changes=ignored
            ),
        )
