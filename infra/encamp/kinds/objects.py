"""Kubernetes objects of a job, in the order in which they are deleted: what makes others goes first.

Source of the permissions: cloud.google.com/kubernetes-engine/docs/reference/api-permissions. A group that the page does
not name counts as a third party's (documented for custom resources, believed for ``resource.k8s.io``).
"""

from __future__ import annotations

from encamp.kinds.model import ObjectKind

JOB_SET = ObjectKind("JobSet", "jobset.x-k8s.io", "v1alpha2", has_replicas=True)
JOB = ObjectKind("Job", "batch", "v1", "container.jobs", in_stack=False, has_replicas=True)
POD = ObjectKind("Pod", "", "v1", "container.pods", in_stack=False, has_replicas=True)
SERVICE = ObjectKind("Service", "", "v1", "container.services", in_stack=False)
PROVISIONING_REQUEST = ObjectKind("ProvisioningRequest", "autoscaling.x-k8s.io", "v1beta1")
POD_TEMPLATE = ObjectKind("PodTemplate", "", "v1", "container.podTemplates")
CLAIM_TEMPLATE = ObjectKind("ResourceClaimTemplate", "resource.k8s.io", "v1", newer=True)
NETWORK_POLICY = ObjectKind("NetworkPolicy", "networking.k8s.io", "v1", "container.networkPolicies")
CONFIG_MAP = ObjectKind("ConfigMap", "", "v1", "container.configMaps")
SERVICE_ACCOUNT = ObjectKind("ServiceAccount", "", "v1", "container.serviceAccounts")

OBJECTS = (
    JOB_SET, JOB, POD, SERVICE, PROVISIONING_REQUEST, POD_TEMPLATE, CLAIM_TEMPLATE, NETWORK_POLICY, CONFIG_MAP,
    SERVICE_ACCOUNT,
)  # fmt: skip
#: Kinds that end when the replicas do; others wait for the first.
REPLICA_KINDS = tuple(kind for kind in reversed(OBJECTS) if kind.has_replicas)
