"""What runs: the Kubernetes objects of the job, exactly as its manifests were rendered."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from encamp.components.deadline import kept_deadline
from encamp.plan.facts import FACTS_ANNOTATION
from encamp.plan.model import DEADLINE_LABEL
from encamp.redaction import holds_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.plan.manifests.job import Manifests

#: From a replicated job of the JobSet to the labels of its pods.
_POD_LABELS = "template.spec.template.metadata.labels"


class JobWorkload(pulumi.ComponentResource):
    """Service account, config map, network policy and JobSet; and requests for machines that are queued for.

    Args:
        after: what must stand before a replica may start.
        deadline: value of the deadline label, seconds since the epoch.
        facts: the job's facts as JSON, which its JobSet carries.
        secret: what the replicas are given is a secret; it is one in any case where it holds one by its form.
    """

    def __init__(
        self,
        name: str,
        manifests: Manifests,
        *,
        provider: k8s.Provider,
        deadline: str,
        facts: str,
        secret: bool = False,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobWorkload", name, {}, opts)
        hidden = secret or holds_secret([manifests.job_set["spec"], manifests.config_map["data"]])
        account = k8s.core.v1.ServiceAccount(
            "account",
            metadata=_with_deadline(manifests.service_account["metadata"], deadline),
            automount_service_account_token=manifests.service_account["automountServiceAccountToken"],
            opts=self._options(provider),
        )
        scripts = k8s.core.v1.ConfigMap(
            "scripts",
            metadata=_with_deadline(manifests.config_map["metadata"], deadline),
            data=_concealed(manifests.config_map["data"], hidden),
            opts=self._options(provider, *(("data",) if hidden else ())),
        )
        policy = k8s.networking.v1.NetworkPolicy(
            "replicas",
            metadata=_with_deadline(manifests.network_policy["metadata"], deadline),
            spec=manifests.network_policy["spec"],
            opts=self._options(provider),
        )
        queued = [
            self._queued(template, request, provider, deadline)
            for template, request in zip(manifests.pod_templates, manifests.provisioning_requests, strict=True)
        ]
        self.job_set = k8s.apiextensions.CustomResource(
            "job-set",
            api_version=manifests.job_set["apiVersion"],
            kind=manifests.job_set["kind"],
            metadata={
                **_with_deadline(manifests.job_set["metadata"], deadline),
                "annotations": {**manifests.job_set["metadata"].get("annotations", {}), FACTS_ANNOTATION: facts},
            },
            spec=_concealed(_pods_with_deadline(manifests.job_set["spec"], deadline), hidden),
            # Nearly all of a JobSet's spec is immutable: a changed job is another run, not an update.
            opts=pulumi.ResourceOptions.merge(
                self._options(provider, *(("spec",) if hidden else ())),
                pulumi.ResourceOptions(
                    depends_on=[account, scripts, policy, *queued, *after],
                    ignore_changes=[
                        path
                        for index, _ in enumerate(manifests.job_set["spec"]["replicatedJobs"])
                        for path in kept_deadline(f"spec.replicatedJobs[{index}].{_POD_LABELS}")
                    ],
                    replace_on_changes=["spec"],
                    delete_before_replace=True,
                ),
            ),
        )
        self.register_outputs({})

    def _queued(
        self, template: Mapping[str, Any], request: Mapping[str, Any], provider: k8s.Provider, deadline: str
    ) -> pulumi.Resource:
        """The request for a role's machines. Nobody waits for it here: the role's pods do."""
        name = request["metadata"]["name"]
        pods = k8s.core.v1.PodTemplate(
            f"{name}-pods",
            metadata=_with_deadline(template["metadata"], deadline),
            template=template["template"],
            opts=self._options(provider),
        )
        return k8s.apiextensions.CustomResource(
            name,
            api_version=request["apiVersion"],
            kind=request["kind"],
            metadata=_with_deadline(request["metadata"], deadline),
            spec=request["spec"],
            # A request is never changed, only made anew.
            opts=pulumi.ResourceOptions.merge(
                self._options(provider),
                pulumi.ResourceOptions(depends_on=[pods], replace_on_changes=["spec"], delete_before_replace=True),
            ),
        )

    def _options(self, provider: k8s.Provider, *secrets: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            provider=provider,
            ignore_changes=kept_deadline("metadata.labels"),
            additional_secret_outputs=list(secrets),
        )


def _pods_with_deadline(spec: Mapping[str, Any], deadline: str) -> dict[str, Any]:
    """A JobSet's spec whose pods carry the deadline, which their replicas look at before they start."""
    found = copy.deepcopy(dict(spec))
    for group in found["replicatedJobs"]:
        group["template"]["spec"]["template"]["metadata"]["labels"][DEADLINE_LABEL] = deadline
    return found


def _concealed(value: Any, hidden: bool) -> Any:
    return pulumi.Output.secret(value) if hidden else value


def _with_deadline(metadata: Mapping[str, Any], deadline: str) -> Any:
    return {**metadata, "labels": {**metadata.get("labels", {}), DEADLINE_LABEL: deadline}}
