"""Resource policies: how machines that work together are placed.

A policy that a node pool is placed by cannot be deleted. Source:
cloud.google.com/compute/docs/reference/rest/v1/resourcePolicies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.calls import page
from encamp_sandbox.cloud.rest.collection import Collection, Update
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule
from encamp_sandbox.cloud.rest.values import at, default, short
from encamp_sandbox.cloud.services.compute.style import NAME, Compute, numeric_id

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_KINDS = (
    "workloadPolicy",
    "groupPlacementPolicy",
    "snapshotSchedulePolicy",
    "instanceSchedulePolicy",
    "diskConsistencyGroupPolicy",
)
_WORKLOADS = ("HIGH_AVAILABILITY", "HIGH_THROUGHPUT")


def users_of(policy: CloudResource, cloud: Cloud) -> list[str]:
    """Return the full names of the node pools that are placed by a policy."""
    return [
        pool.name
        for pool in cloud.store.all_of("nodePool")
        if short(at(pool.body, "placementPolicy.policyName") or "") == policy.short_name
    ]


def _one_kind(change: Change) -> Problem:
    given = [kind for kind in _KINDS if change.at(kind)]
    return None if len(given) <= 1 else f"only one of {', '.join(_KINDS)} can be given, not {' and '.join(given)}"


def _workload(change: Change) -> Problem:
    policy = change.at("workloadPolicy")
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


def _fill(change: Change) -> None:
    change.body.pop("region", None)
    default(change.body, {"id": numeric_id(), "status": "READY"})


RESOURCE_POLICIES: Final = Collection(
    kind="resourcePolicy",
    path="projects/{project}/regions/{region}/resourcePolicies",
    style=Compute("compute#resourcePolicy"),
    permission="compute.resourcePolicies",
    rules=(
        NAME,
        Rule("compute-resource-policy-has-one-kind", _one_kind),
        Rule("compute-workload-policies", _workload),
    ),
    fill=_fill,
    users=users_of,
    update=Update.MERGE,
    fixed=("workloadPolicy", "groupPlacementPolicy"),
)


async def _aggregated(ask: Ask) -> dict[str, Any]:
    """Return policies of every region, by region."""
    ask.require("compute.resourcePolicies.list")
    found = ask.cloud.store.all_of("resourcePolicy", f"projects/{ask.cloud.project}")
    items, following = page(found, ask.call.query, "maxResults")
    scopes: dict[str, dict[str, Any]] = {}
    for item in items:
        scope = scopes.setdefault(f"regions/{item.name.split('/')[3]}", {"resourcePolicies": []})
        scope["resourcePolicies"].append(RESOURCE_POLICIES.shown(item, ask.cloud))
    answer: dict[str, Any] = {"kind": "compute#resourcePolicyAggregatedList", "items": scopes}
    return {**answer, "nextPageToken": following} if following else answer


AGGREGATED: Final = Route("projects/{project}/aggregated/resourcePolicies", ("GET",), _aggregated)
