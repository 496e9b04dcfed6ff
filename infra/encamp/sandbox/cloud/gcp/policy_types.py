"""Resource policies of Compute Engine: how machines that work together are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.gcp.common import COMPUTE_NAME, COMPUTE_NAME_SOURCE, DELETION_POLICY, PROJECT
from encamp.sandbox.cloud.gcp.model import ResourceType, Rule, pattern_rule, short
from encamp.sandbox.cloud.gcp.stored import StoredBackend

if TYPE_CHECKING:
    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.cloud.store import CloudResource, CloudStore
    from encamp.sandbox.provider import Properties

_COMPUTE = "https://www.googleapis.com/compute/v1"
_SOURCE = "cloud.google.com/compute/docs/reference/rest/v1/resourcePolicies"
_KINDS = (
    "workloadPolicy",
    "groupPlacementPolicy",
    "snapshotSchedulePolicy",
    "instanceSchedulePolicy",
    "diskConsistencyGroupPolicy",
)
_WORKLOADS = ("HIGH_AVAILABILITY", "HIGH_THROUGHPUT")


def _full_name(inputs: Properties, context: Context) -> str:
    return f"projects/{context.project}/regions/{context.region_of(inputs)}/resourcePolicies/{inputs['name']}"


def _outputs(resource: CloudResource, context: Context) -> dict[str, Any]:
    return {"selfLink": f"{_COMPUTE}/{resource.name}", "region": context.region_of(resource.body["inputs"])}


def policy_users(store: CloudStore, resource: CloudResource) -> list[str]:
    """Full names of the node pools that are placed by a policy."""
    return [
        pool.name
        for pool in store.all_of("nodePool")
        if short((pool.body["inputs"].get("placementPolicy") or {}).get("policyName") or "") == resource.short_name
    ]


def _users(resource: CloudResource, context: Context) -> list[str]:
    return policy_users(context.cloud.store, resource)


def _one_kind(inputs: Properties, _: Context) -> Problem:
    given = [kind for kind in _KINDS if inputs.get(kind)]
    return None if len(given) <= 1 else f"only one of {', '.join(_KINDS)} can be given, not {' and '.join(given)}"


def _workload(inputs: Properties, _: Context) -> Problem:
    policy = inputs.get("workloadPolicy")
    if not policy:
        return None
    if policy.get("type") not in _WORKLOADS:
        return f"expected workload_policy.type to be one of {list(_WORKLOADS)}, got {policy.get('type')}"
    topology = policy.get("acceleratorTopology")
    if topology and policy["type"] != "HIGH_THROUGHPUT":
        return "accelerator_topology can be set with HIGH_THROUGHPUT only"
    if topology and policy.get("maxTopologyDistance"):
        return "accelerator_topology and max_topology_distance exclude each other"
    return None


RESOURCE_POLICY: Final = ResourceType(
    "gcp:compute/resourcePolicy:ResourcePolicy",
    wheel=("pulumi_gcp.compute", "ResourcePolicy"),
    backend=StoredBackend(kind="resourcePolicy", full_name=_full_name, outputs=_outputs, users=_users),
    required=(),
    immutable=(
        "name", "project", "region", "description", "workloadPolicy", "groupPlacementPolicy", "instanceSchedulePolicy",
        "diskConsistencyGroupPolicy",
    ),
    computed=("selfLink",),
    rules=(
        PROJECT,
        pattern_rule("name", "name", COMPUTE_NAME, COMPUTE_NAME_SOURCE, f"doesn't match regexp {COMPUTE_NAME!r}"),
        DELETION_POLICY,
        Rule("one kind", _SOURCE, _KINDS, _one_kind),
        Rule("workload policy", _SOURCE + "#ResourcePolicyWorkloadPolicy", ("workloadPolicy",), _workload, api=True),
    ),
    autoname="name",
)  # fmt: skip
