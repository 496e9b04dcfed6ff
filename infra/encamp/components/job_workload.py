"""The workload: the Kubernetes objects of the job, exactly as its manifests were rendered."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pulumi

from encamp.components.deadline import kept_deadline
from encamp.components.kubernetes_object import KubernetesObject
from encamp.plan.model import DEADLINE_LABEL
from encamp.plan.summary import SUMMARY_ANNOTATION
from encamp.redaction import holds_secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pulumi_kubernetes as k8s

    from encamp.plan.manifests.job import Manifests

#: From a replicated job of the JobSet to the labels of its pods.
_POD_LABELS = "template.spec.template.metadata.labels"


class JobWorkload(pulumi.ComponentResource):
    """Service account, config map, network policy and JobSet; requests for machines that are queued for, and claims.

    A study has no JobSet but the object that its trials belong to, which whoever drives the job makes. With that object
    Kubernetes deletes them all.

    Args:
        after: what must stand before a replica may start.
        deadline: value of the deadline label, seconds since the epoch.
        prefix: of the logical names of what it is made of.
        summary: the job's summary as JSON, which its JobSet carries, or its study's object.
        secret: what the replicas are given is a secret; it is one in any case where it holds one by its form.

    Attributes:
        deadline: value of the deadline label as the job's objects carry it since they were made.
    """

    def __init__(
        self,
        name: str,
        manifests: Manifests,
        *,
        provider: k8s.Provider,
        deadline: str,
        summary: str,
        secret: bool = False,
        after: Sequence[pulumi.Resource],
        prefix: str = "",
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("encamp:components:JobWorkload", name, {}, opts)
        self._prefix = prefix
        self._provider, self._deadline = provider, deadline
        hidden = secret or holds_secret([manifests.job_set["spec"], manifests.config_map["data"], manifests.study])
        account = self._object("account", self._with_deadline(manifests.service_account), self._options())
        self.deadline = account.labels.apply(lambda labels: labels.get(DEADLINE_LABEL, deadline))
        scripts = self._object(
            "scripts",
            {**self._with_deadline(manifests.config_map), "data": _concealed(manifests.config_map["data"], hidden)},
            self._options(*(("data",) if hidden else ())),
        )
        policy = self._object("replicas", self._with_deadline(manifests.network_policy), self._options())
        claims = [self._claims(template) for template in manifests.claim_templates]
        queued = [
            self._queued(template, request)
            for template, request in zip(manifests.pod_templates, manifests.provisioning_requests, strict=True)
        ]
        before = [account, scripts, policy, *claims, *queued, *after]
        if manifests.study is None:
            self._job_set(manifests.job_set, summary, hidden=hidden, after=before)
        else:
            self._study(manifests.study, summary, hidden=hidden, after=before)
        self.register_outputs({})

    def _job_set(
        self, manifest: Mapping[str, Any], summary: str, *, hidden: bool, after: Sequence[pulumi.Resource]
    ) -> None:
        kept = [
            path
            for index, _ in enumerate(manifest["spec"]["replicatedJobs"])
            for path in kept_deadline(f"spec.replicatedJobs[{index}].{_POD_LABELS}")
        ]
        spec = _concealed(_pods_with_deadline(manifest["spec"], self._deadline), hidden)
        self._object(
            "job-set",
            {**self._with_summary(manifest, summary), "spec": spec},
            # Nearly all of a JobSet's spec is immutable: a changed job is another run, not an update.
            pulumi.ResourceOptions.merge(
                self._options(*(("spec",) if hidden else ())),
                pulumi.ResourceOptions(
                    depends_on=list(after), ignore_changes=kept, replace_on_changes=["spec"], delete_before_replace=True
                ),
            ),
        )

    def _study(
        self, manifest: Mapping[str, Any], summary: str, *, hidden: bool, after: Sequence[pulumi.Resource]
    ) -> None:
        self._object(
            "study",
            {**self._with_summary(manifest, summary), "data": _concealed(manifest["data"], hidden)},
            # A changed study is another run: with the old object go its trials.
            pulumi.ResourceOptions.merge(
                self._options(*(("data",) if hidden else ())),
                pulumi.ResourceOptions(depends_on=list(after), replace_on_changes=["data"], delete_before_replace=True),
            ),
        )

    def _claims(self, template: Mapping[str, Any]) -> pulumi.Resource:
        """Declare the template of each replica's claim. Kubernetes never changes such a template."""
        return self._object(
            template["metadata"]["name"],
            self._with_deadline(template),
            pulumi.ResourceOptions.merge(
                self._options(), pulumi.ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)
            ),
        )

    def _queued(self, template: Mapping[str, Any], request: Mapping[str, Any]) -> pulumi.Resource:
        """The request for a role's machines. Nobody waits for it here: the role's pods do."""
        name = request["metadata"]["name"]
        pods = self._object(f"{name}-pods", self._with_deadline(template), self._options())
        return self._object(
            name,
            self._with_deadline(request),
            # A request is never changed, only made anew.
            pulumi.ResourceOptions.merge(
                self._options(),
                pulumi.ResourceOptions(depends_on=[pods], replace_on_changes=["spec"], delete_before_replace=True),
            ),
        )

    def _object(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> KubernetesObject:
        return KubernetesObject(f"{self._prefix}{name}", manifest, opts)

    def _with_deadline(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        metadata = manifest["metadata"]
        labels = {**metadata.get("labels", {}), DEADLINE_LABEL: self._deadline}
        return {**manifest, "metadata": {**metadata, "labels": labels}}

    def _with_summary(self, manifest: Mapping[str, Any], summary: str) -> dict[str, Any]:
        found = self._with_deadline(manifest)
        annotations = {**found["metadata"].get("annotations", {}), SUMMARY_ANNOTATION: summary}
        return {**found, "metadata": {**found["metadata"], "annotations": annotations}}

    def _options(self, *secrets: str) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self,
            provider=self._provider,
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
