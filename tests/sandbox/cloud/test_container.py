"""GKE: operations, updates of clusters and pools, and what the server fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.cloud.desk import PROJECT, Desk
from tests.sandbox.cloud.examples import EXAMPLES

from encamp.plan.machines import catalog
from encamp_sandbox.cloud.cloud import LATENCY_VARIABLE, Cloud
from encamp_sandbox.cloud.faults import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from encamp_sandbox.layout import Layout
    from encamp_sandbox.storage.api import StorageServer

pytestmark = pytest.mark.slow

LOCATION = f"container/v1/{PROJECT}/locations/us-central1"
CLUSTER = f"{LOCATION}/clusters/encamp"
POOL = f"{CLUSTER}/nodePools/pool"


@pytest.fixture
def cluster(desk: Desk) -> Desk:
    """A desk of a cloud with the example's cluster."""
    example = EXAMPLES["container:clusters"]
    example.furnish(desk)
    assert example.create(desk).status == 200
    return desk


@pytest.fixture
def slow(tmp_path: Path, layout: Layout, storage: StorageServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk of a cloud whose operations take an hour."""
    monkeypatch.setenv(LATENCY_VARIABLE, "3600")
    cloud = Cloud.open(tmp_path / "slow.sqlite3", "sandbox-encamp", layout)
    yield Desk(cloud, layout, storage)
    cloud.close()


def pool(desk: Desk, name: str = "pool", **config: Any) -> dict[str, Any]:
    """Make a pool and show it."""
    body = {"name": name, "initialNodeCount": 1, "config": {"machineType": "n1-standard-4", **config}}
    desk.do("POST", f"{CLUSTER}/nodePools", {"nodePool": body})
    return desk.do("GET", f"{CLUSTER}/nodePools/{name}")


def test_a_change_is_an_operation(cluster: Desk) -> None:
    operation = cluster.do("POST", f"{CLUSTER}/nodePools", {"nodePool": {"name": "pool", "initialNodeCount": 1}})
    assert (operation["operationType"], operation["status"]) == ("CREATE_NODE_POOL", "DONE")
    assert operation["targetLink"].endswith(f"/{PROJECT}/locations/us-central1/clusters/encamp/nodePools/pool")
    assert cluster.do("GET", f"{LOCATION}/operations/{operation['name']}") == operation
    kinds = [one["operationType"] for one in cluster.do("GET", f"{LOCATION}/operations")["operations"]]
    assert sorted(kinds) == ["CREATE_CLUSTER", "CREATE_NODE_POOL"]


def test_a_stockout_ends_the_operation_of_a_pool(cluster: Desk) -> None:
    cluster.cloud.faults.add(Fault("container:nodePools", "create", FaultKind.STOCKOUT))
    operation = cluster.do("POST", f"{CLUSTER}/nodePools", {"nodePool": {"name": "pool", "initialNodeCount": 1}})
    assert operation["operationType"] == "CREATE_NODE_POOL"
    ended = cluster.do("GET", f"{LOCATION}/operations/{operation['name']}")
    assert ended["status"] == "DONE"
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in ended["statusMessage"]
    assert ended["error"] == {"code": 8, "message": ended["statusMessage"]}
    assert cluster.refused("GET", POOL).status == 404


def test_one_operation_runs_on_a_cluster_at_a_time(slow: Desk) -> None:
    body = {"cluster": {"name": "encamp", "initialNodeCount": 1}}
    operation = slow.do("POST", f"{LOCATION}/clusters", body)
    assert operation["status"] == "RUNNING"
    for method, path, more in (
        ("POST", f"{CLUSTER}/nodePools", {"nodePool": {"name": "pool", "initialNodeCount": 1}}),
        ("PUT", CLUSTER, {"update": {"desiredLoggingService": "none"}}),
        ("POST", f"{CLUSTER}/nodePools/default-pool:setSize", {"nodeCount": 2}),
        ("DELETE", CLUSTER, None),
    ):
        answer = slow.refused(method, path, more)
        assert (answer.status, answer.body["error"]["status"]) == (400, "FAILED_PRECONDITION"), path
        assert answer.message == f"Cluster is running incompatible operation {operation['name']}."
        assert answer.belief == "gke-one-operation-a-cluster"


def test_an_update_replaces_what_it_names(cluster: Desk) -> None:
    before = cluster.do("GET", CLUSTER)
    update = {
        "desiredReleaseChannel": {"channel": "RAPID"},
        "desiredAddonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}},
        "desiredMasterAuthorizedNetworksConfig": {"enabled": True, "cidrBlocks": [{"cidrBlock": "198.51.100.0/24"}]},
    }
    operation = cluster.do("PUT", CLUSTER, {"update": update})
    assert operation["operationType"] == "UPDATE_CLUSTER"
    after = cluster.do("GET", CLUSTER)
    assert after["releaseChannel"] == {"channel": "RAPID"}
    assert after["addonsConfig"] == before["addonsConfig"] | update["desiredAddonsConfig"]
    assert after["masterAuthorizedNetworksConfig"]["cidrBlocks"] == [{"cidrBlock": "198.51.100.0/24"}]
    assert after["workloadIdentityConfig"] == before["workloadIdentityConfig"]
    wrong = cluster.refused("PUT", CLUSTER, {"update": {"desiredReleaseChannel": {"channel": "FAST"}}})
    assert wrong.belief == "gke-release-channels"
    stale = cluster.refused("PUT", CLUSTER, {"update": {"etag": before["etag"]}})
    assert (stale.status, stale.belief) == (409, "api-stale-etag-is-409")


def test_labels_of_a_cluster_need_the_fingerprint_of_today(cluster: Desk) -> None:
    before = cluster.do("GET", CLUSTER)
    body = {"resourceLabels": {"team": "lab"}, "labelFingerprint": before["labelFingerprint"]}
    cluster.do("POST", f"{CLUSTER}:setResourceLabels", body)
    after = cluster.do("GET", CLUSTER)
    assert after["resourceLabels"] == {"team": "lab"}
    stale = cluster.refused("POST", f"{CLUSTER}:setResourceLabels", body)
    assert (stale.status, stale.belief) == (412, "gke-labels-have-fingerprints")


def test_a_pool_is_changed_field_by_field(cluster: Desk) -> None:
    pool(cluster, labels={"a": "1"})
    cluster.do("PUT", POOL, {"labels": {"labels": {"b": "2"}}, "nodeVersion": "1.37", "diskSizeGb": 200})
    cluster.do("POST", f"{POOL}:setAutoscaling", {"autoscaling": {"enabled": True, "maxNodeCount": 4}})
    cluster.do("POST", f"{POOL}:setManagement", {"management": {"autoUpgrade": True}})
    shown = cluster.do("GET", POOL)
    assert (shown["config"]["labels"], shown["config"]["diskSizeGb"]) == ({"b": "2"}, 200)
    assert (shown["version"], shown["autoscaling"]["maxNodeCount"]) == ("1.37", 4)
    assert shown["management"] == {"autoUpgrade": True}
    wrong = cluster.refused("POST", f"{POOL}:setAutoscaling", {"autoscaling": {"enabled": True, "maxNodeCount": 1001}})
    assert wrong.belief == "gke-1000-nodes-a-pool-and-zone"
    assert cluster.do("POST", f"{POOL}:setSize", {"nodeCount": 2})["operationType"] == "SET_NODE_POOL_SIZE"
    assert cluster.do("GET", POOL)["currentNodeCount"] == 6
    for count in (-1, True, "two", 15001):
        assert cluster.ask("POST", f"{POOL}:setSize", {"nodeCount": count}).status == 400


def test_a_cluster_shows_what_the_server_fills_in(desk: Desk) -> None:
    desk.do("POST", f"{LOCATION}/clusters", {"cluster": {"name": "encamp", "initialNodeCount": 1}})
    shown = desk.do("GET", CLUSTER)
    port = desk.layout.ports.apiserver
    assert shown["locations"] == ["us-central1-a", "us-central1-b", "us-central1-c"]
    assert (shown["status"], shown["endpoint"], shown["location"]) == ("RUNNING", f"127.0.0.1:{port}", "us-central1")
    assert shown["currentMasterVersion"] == shown["initialClusterVersion"] == shown["nodePools"][0]["version"]
    assert shown["releaseChannel"] == {"channel": "REGULAR"}
    assert shown["masterAuth"].keys() == {"clusterCaCertificate"}
    endpoints = shown["controlPlaneEndpointsConfig"]
    assert endpoints["dnsEndpointConfig"] == {"allowExternalTraffic": False, "endpoint": f"localhost:{port}"}
    assert endpoints["ipEndpointsConfig"]["enablePublicEndpoint"] is True
    assert shown["addonsConfig"]["gcePersistentDiskCsiDriverConfig"] == {"enabled": True}
    assert shown["monitoringConfig"]["managedPrometheusConfig"] == {"enabled": True}
    [default] = shown["nodePools"]
    assert (default["name"], default["initialNodeCount"], shown["currentNodeCount"]) == ("default-pool", 1, 3)


def test_a_pool_shows_what_the_server_fills_in(cluster: Desk) -> None:
    shown = pool(cluster)
    config = shown["config"]
    assert (config["diskType"], config["diskSizeGb"], config["imageType"]) == ("pd-balanced", 100, "COS_CONTAINERD")
    assert config["metadata"] == {"disable-legacy-endpoints": "true"}
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert config["shieldedInstanceConfig"] == {"enableIntegrityMonitoring": True}
    assert shown["upgradeSettings"] == {"maxSurge": 1, "strategy": "SURGE"}
    assert shown["management"] == {"autoRepair": True, "autoUpgrade": True}
    assert (shown["networkConfig"]["podRange"], shown["podIpv4CidrSize"]) == ("pods", 24)
    assert len(shown["instanceGroupUrls"]) == len(shown["locations"]) == 3
    assert "ephemeralStorageLocalSsdConfig" not in config
    assert "gvnic" not in config


@pytest.mark.parametrize(
    ("machine", "disks", "gvnic"),
    [
        ("a2-ultragpu-1g", 1, False),
        ("a3-highgpu-8g", 16, True),
        ("a4x-highgpu-4g", 4, True),
        ("c3-standard-4-lssd", 1, True),
        ("c4-standard-96-lssd", 16, True),
        ("g2-standard-8", 0, True),
        ("n1-standard-8", 0, False),
    ],
)
def test_machines_with_disks_of_their_own_show_them(cluster: Desk, machine: str, disks: int, gvnic: bool) -> None:
    config = pool(cluster, machineType=machine)["config"]
    found = config.get("ephemeralStorageLocalSsdConfig")
    assert found == ({"localSsdCount": disks} if disks else None)
    assert config.get("gvnic") == ({"enabled": True} if gvnic else None)


def test_disks_that_were_asked_for_as_blocks_are_no_ephemeral_storage(cluster: Desk) -> None:
    asked = {"localSsdCount": 16}
    config = pool(cluster, machineType="a3-highgpu-8g", localNvmeSsdBlockConfig=asked)["config"]
    assert config["localNvmeSsdBlockConfig"] == asked
    assert "ephemeralStorageLocalSsdConfig" not in config


def test_accelerators_bring_their_taint(cluster: Desk) -> None:
    config = pool(cluster, machineType="g2-standard-8")["config"]
    machine = catalog.machine("g2-standard-8").accelerator
    assert machine is not None
    assert config["accelerators"] == [{"acceleratorCount": "1", "acceleratorType": machine.type}]
    assert config["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]


def test_a_slice_is_placed_by_its_topology_or_by_a_workload_policy(cluster: Desk) -> None:
    policies = EXAMPLES["compute:resourcePolicies"]
    assert policies.create(cluster).status == 200
    scaling = {"enabled": True, "maxNodeCount": 4, "locationPolicy": "ANY"}
    by_topology = {
        "name": "sized",
        "config": {"machineType": "ct5lp-hightpu-4t"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
        "locations": ["us-central1-a"],
        "autoscaling": scaling,
    }
    cluster.do("POST", f"{CLUSTER}/nodePools", {"nodePool": by_topology})
    assert cluster.do("GET", f"{CLUSTER}/nodePools/sized")["placedTopology"] == "4x4"
    named = {
        "name": "named",
        "config": {"machineType": "tpu7x-standard-4t"},
        "placementPolicy": {"policyName": "slice"},
        "locations": ["us-central1-c"],
        "autoscaling": {"enabled": True, "maxNodeCount": 1},
    }
    few = cluster.refused("POST", f"{CLUSTER}/nodePools", {"nodePool": named})
    assert (few.belief, "max_node_count cannot be 1" in few.message) == ("gke-tpu-slices", True)
    cluster.do(
        "POST", f"{CLUSTER}/nodePools", {"nodePool": {**named, "autoscaling": {"enabled": True, "maxNodeCount": 2}}}
    )
    assert cluster.do("GET", f"{CLUSTER}/nodePools/named")["placedTopology"] == "2x2x2"
    assert "already being used by" in cluster.refused("DELETE", policies.path).message
    cluster.do("DELETE", f"{CLUSTER}/nodePools/named")
    cluster.do("DELETE", policies.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"maxRunDuration": "10368001s"}}, "at most 10368000s"),
        (
            {"config": {"maxRunDuration": "604801s", "flexStart": True}, "management": {"autoRepair": False}},
            "at most 604800s",
        ),
        (
            {
                "config": {
                    "machineType": "n1-standard-96",
                    "accelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "1"}],
                }
            },
            "not compatible with n1-standard-96",
        ),
        (
            {
                "config": {
                    "machineType": "n1-standard-8",
                    "accelerators": [{"acceleratorType": "nvidia-tesla-k80", "acceleratorCount": "1"}],
                }
            },
            "no longer offered",
        ),
        ({"config": {"machineType": "ct3p-hightpu-4t"}}, "requires a placement policy with a TPU topology"),
        (
            {
                "config": {"machineType": "ct5lp-hightpu-8t"},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"},
                "locations": ["us-central1-a"],
            },
            "single-host pool takes no tpu_topology",
        ),
        (
            {"placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"}, "locations": ["us-central1-a"]},
            "requires a TPU machine type",
        ),
        (
            {
                "config": {"machineType": "ct5lp-hightpu-4t"},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
                "locations": ["us-central1-a"],
            },
            "not by total_max_node_count",
        ),
        ({"autoscaling": {"enabled": True, "maxNodeCount": 1, "totalMaxNodeCount": 2}}, "both per-zone and total"),
    ],
)
def test_pools_that_gke_refuses(cluster: Desk, change: dict[str, Any], message: str) -> None:
    answer = EXAMPLES["container:nodePools"].create(cluster, {"nodePool": change})
    assert answer.status == 400
    assert message in answer.message


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"type": "HIGH_AVAILABILITY", "acceleratorTopology": "2x2x2"}, "HIGH_THROUGHPUT only"),
        (
            {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2", "maxTopologyDistance": "BLOCK"},
            "exclude each other",
        ),
    ],
)
def test_workload_policies_that_compute_refuses(desk: Desk, policy: dict[str, Any], message: str) -> None:
    answer = EXAMPLES["compute:resourcePolicies"].create(desk, {"workloadPolicy": policy})
    assert (answer.status, message in answer.message) == (400, True)


def test_pools_of_a_cluster_with_routes_cannot_say_how_many_pods_a_node_has(desk: Desk) -> None:
    routed = {"name": "routed", "initialNodeCount": 1, "ipAllocationPolicy": {"useIpAliases": False}}
    desk.do("POST", f"{LOCATION}/clusters", {"cluster": routed})
    assert desk.do("GET", f"{LOCATION}/clusters/routed")["ipAllocationPolicy"] == {
        "useRoutes": True,
        "stackType": "IPV4",
    }
    body = {"name": "pool", "initialNodeCount": 0, "maxPodsConstraint": {"maxPodsPerNode": "32"}}
    answer = desk.ask("POST", f"{LOCATION}/clusters/routed/nodePools", {"nodePool": body})
    assert (answer.status, answer.message) == (400, "max_pods_per_node requires a VPC-native cluster")


def test_pools_go_with_their_cluster(cluster: Desk) -> None:
    pool(cluster)
    assert cluster.do("DELETE", CLUSTER)["operationType"] == "DELETE_CLUSTER"
    assert cluster.cloud.store.all_of("nodePool") == []
    assert cluster.ask("GET", POOL).status == 404
