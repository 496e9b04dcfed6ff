"""What an environment's plan decides where nothing is written, and where something is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from encamp.errors import SpecError
from encamp.plan.environment.adoption import FoundCluster, cluster_problems
from encamp.plan.environment.model import LifecyclePlan
from encamp.plan.environment.planning import plan_environment
from encamp.spec.environment import parse_environment

if TYPE_CHECKING:
    from encamp.plan.model import EnvironmentPlan

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
FIT = FoundCluster(workload_pool="my-project.svc.id.goog", pods_range="pods", gcs_fuse=True)
UNFINISHED = LifecyclePlan("AbortIncompleteMultipartUpload", age_days=7)


def planned(project: str = "my-project", **changes: Any) -> EnvironmentPlan:
    return plan_environment(parse_environment(DATA | changes, project=project, source="x"))


def test_what_production_gets_unasked() -> None:
    plan = planned()
    assert plan.protect
    assert plan.artifacts.versioning
    assert plan.gke.nodes is not None
    assert plan.gke.nodes.project_roles == ("roles/container.defaultNodeServiceAccount",)
    assert plan.gke.system_pool is not None
    assert (plan.gke.system_pool.min_nodes, plan.gke.system_pool.max_nodes) == (1, 3)
    assert plan.gke.auto_provisioning is None
    assert {"JOBSET", "DCGM"} <= set(plan.gke.metrics)
    assert (plan.key, plan.logs, plan.budget) == (None, None, None)


def test_the_sandbox_gets_nothing_that_it_has_no_use_for() -> None:
    plan = planned("sandbox-lab")
    assert not plan.protect
    assert not plan.artifacts.versioning
    assert (plan.gke.nodes, plan.gke.system_pool, plan.warnings) == (None, None, ())
    asked = planned("sandbox-lab", protect=True, storage={"versioning": True}, gke={"systemPool": {}})
    assert asked.protect
    assert asked.artifacts.versioning
    assert asked.gke.system_pool is not None


def test_an_api_server_that_everybody_reaches_is_warned_of() -> None:
    (warning,) = planned().warnings
    assert "gke.authorizedNetworks" in warning
    assert planned(gke={"authorizedNetworks": []}).warnings == ()
    assert planned(gke={"privateEndpoint": True}).warnings == ()
    assert planned(adopt=["cluster"]).warnings == ()


def test_the_api_server_has_a_name_that_runners_and_drivers_reach_unless_somebody_says_otherwise() -> None:
    assert planned().gke.dns_endpoint is True
    assert planned(gke={"authorizedNetworks": []}).gke.dns_endpoint is True
    assert planned(gke={"dnsEndpoint": False}).gke.dns_endpoint is False
    # The cluster says itself whether it has one.
    assert planned("sandbox-lab").gke.dns_endpoint is None
    assert planned(adopt=["cluster"]).gke.dns_endpoint is None


def test_a_cluster_that_nobody_outside_of_it_reaches_is_refused_with_the_way_out() -> None:
    with pytest.raises(SpecError, match="nobody could reach the API server") as found:
        planned(gke={"dnsEndpoint": False, "authorizedNetworks": []})
    (problem,) = found.value.problems
    assert problem.path == "gke.authorizedNetworks"
    assert "leave dnsEndpoint out" in str(problem.hint)
    reachable: tuple[dict[str, Any], ...] = (
        {"dnsEndpoint": False, "authorizedNetworks": [{"cidr": "203.0.113.0/24"}]},
        {"dnsEndpoint": False, "authorizedNetworks": [], "privateEndpoint": True},
        {"dnsEndpoint": False},
    )
    for gke in reachable:
        planned(gke=gke)


@pytest.mark.parametrize(
    ("start", "hours", "window"),
    [
        ("02:00", 8, ("2026-01-01T02:00:00Z", "2026-01-01T10:00:00Z")),
        ("21:30", 12, ("2026-01-01T21:30:00Z", "2026-01-02T09:30:00Z")),
        ("00:00", 24, ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")),
    ],
)
def test_a_window_may_reach_into_the_next_day(start: str, hours: int, window: tuple[str, str]) -> None:
    plan = planned(gke={"maintenance": {"days": ["MO", "TH"], "start": start, "hours": hours}}).gke.maintenance
    assert (plan.start, plan.end) == window
    assert plan.recurrence == "FREQ=WEEKLY;BYDAY=MO,TH"


def test_deleting_old_results_leaves_their_old_versions_to_their_own_rule() -> None:
    plan = planned(artifactsRetentionDays=90, storage={"colderAfterDays": 30, "checkpointSuffixes": [".pt"]})
    assert plan.artifacts.lifecycle == (
        LifecyclePlan("Delete", age_days=90, live=True),
        LifecyclePlan("SetStorageClass", age_days=30, storage_class="NEARLINE"),
        LifecyclePlan("Delete", old_days=7),
        LifecyclePlan("Delete", newer=3),
        LifecyclePlan("Delete", old_days=1, suffixes=(".pt",)),
        UNFINISHED,
    )
    bare = planned(artifactsRetentionDays=90, storage={"versioning": False})
    assert bare.artifacts.lifecycle == (LifecyclePlan("Delete", age_days=90), UNFINISHED)


def test_a_key_is_made_in_a_ring_of_the_environments_name() -> None:
    plan = planned(encryption={"rotationDays": 30})
    assert plan.key is not None
    ring = "projects/my-project/locations/us-central1/keyRings/lab"
    assert (plan.key.full_name, plan.key.ring, plan.key.rotation) == (f"{ring}/cryptoKeys/encamp", "lab", "2592000s")
    assert "cloudkms.googleapis.com" in plan.services
    given = "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"
    there = planned(encryption={"key": given, "grant": False}).key
    assert there is not None
    assert (there.full_name, there.ring, there.agents) == (given, None, ())


def test_a_budget_counts_what_carries_the_environments_label() -> None:
    written = {"billingAccount": "0123AB-4567CD-89EF01", "amount": 500, "at": [1.0, 0.5]}
    budget = planned(budget=written).budget
    assert budget is not None
    assert budget.labels == {"encamp-environment": "lab"}
    assert budget.thresholds == ((0.5, "CURRENT_SPEND"), (1.0, "CURRENT_SPEND"), (1.0, "FORECASTED_SPEND"))
    whole = planned(budget=written | {"wholeProject": True}).budget
    assert whole is not None
    assert whole.labels == {}
    assert "billingbudgets.googleapis.com" in planned(budget=written).services


def test_an_account_of_somebody_elses_gets_nothing_here() -> None:
    nodes = planned(gke={"nodeServiceAccount": "nodes@other.iam.gserviceaccount.com"}).gke.nodes
    assert nodes is not None
    assert (nodes.email, nodes.account_id, nodes.project_roles) == ("nodes@other.iam.gserviceaccount.com", None, ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload_pool": None}, "--workload-pool=my-project.svc.id.goog"),
        ({"workload_pool": "other.svc.id.goog"}, "Workload Identity"),
        ({"pods_range": None}, "VPC-native"),
        ({"gcs_fuse": False}, "GCS FUSE"),
    ],
)
def test_a_cluster_that_jobs_cannot_run_in_is_not_adopted(change: dict[str, Any], message: str) -> None:
    plan = planned(adopt=["cluster"])
    assert cluster_problems(FIT, plan) == []
    (problem,) = cluster_problems(replace(FIT, **change), plan)
    assert message in problem
