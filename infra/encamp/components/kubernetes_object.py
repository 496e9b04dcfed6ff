"""A Kubernetes object as its manifest says it, of whatever kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

if TYPE_CHECKING:
    from collections.abc import Mapping


class KubernetesObject(pulumi.CustomResource):
    """An object under the engine's type token of its kind, so that the provider treats it as one of its own.

    The SDK's own classes come with all of their API group: those of ``core/v1`` alone are 78,000 lines, and importing
    them was half of what a job's stack computed.

    Args:
        name: the logical name.
        manifest: the whole object, ``apiVersion`` and ``kind`` included, in Kubernetes' own spelling.
    """

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        group = manifest["apiVersion"]
        token = f"kubernetes:{group if '/' in group else f'core/{group}'}:{manifest['kind']}"
        if manifest["kind"] == "Secret":
            # What a controller writes into its Secret would else lie plain in the engine's state after a refresh.
            opts = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(additional_secret_outputs=["data", "stringData"])
            )
        super().__init__(token, name, dict(manifest), opts)

    @property
    def labels(self) -> pulumi.Output[Mapping[str, str]]:
        """Its labels as the cluster keeps them."""
        metadata: pulumi.Output[Mapping[str, Any]] = pulumi.get(self, "metadata")
        return metadata.apply(lambda found: found.get("labels") or {})

    @property
    def called(self) -> pulumi.Output[str]:
        """Its name in the cluster."""
        metadata: pulumi.Output[Mapping[str, Any]] = pulumi.get(self, "metadata")
        return metadata.apply(lambda found: found["name"])
