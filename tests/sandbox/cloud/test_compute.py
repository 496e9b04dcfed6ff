"""Compute Engine as far as networks, and jobs, have anything there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.desk import PROJECT
from tests.sandbox.cloud.examples import EXAMPLES

if TYPE_CHECKING:
    from tests.sandbox.cloud.desk import Desk

pytestmark = pytest.mark.slow

REGION = f"compute/v1/{PROJECT}/regions/us-central1"
SUBNET = EXAMPLES["compute:subnetworks"].path
URL = "https://www.googleapis.com/compute/v1"


def test_resource_policies_are_listed_and_go_once_no_pool_is_placed_by_them(desk: Desk) -> None:
    policies = f"{REGION}/resourcePolicies"
    for name in ("one", "two"):
        body = {"name": name, "description": "encamp-job=j", "workloadPolicy": {"type": "HIGH_THROUGHPUT"}}
        desk.do("POST", policies, body)
    pool = f"{PROJECT}/locations/us-central1/clusters/c/nodePools/p"
    desk.cloud.store.create("nodePool", pool, {"placementPolicy": {"policyName": "one"}})
    listed = desk.do("GET", policies)
    assert [(item["name"], item["description"]) for item in listed["items"]] == [
        ("one", "encamp-job=j"),
        ("two", "encamp-job=j"),
    ]
    everywhere = desk.do("GET", f"compute/v1/{PROJECT}/aggregated/resourcePolicies")
    scope = everywhere["items"]["regions/us-central1"]["resourcePolicies"]
    assert [item["name"] for item in scope] == ["one", "two"]
    assert desk.do("GET", f"{policies}/one")["workloadPolicy"] == {"type": "HIGH_THROUGHPUT"}
    used = desk.refused("DELETE", f"{policies}/one")
    assert (used.status, used.reason) == (400, "resourceInUseByAnotherResource")
    assert desk.do("DELETE", f"{policies}/two")["operationType"] == "delete"
    assert desk.ask("DELETE", f"{policies}/two").status == 404


def test_every_change_is_an_operation_that_can_be_read_and_waited_for(desk: Desk) -> None:
    example = EXAMPLES["compute:networks"]
    operation = example.create(desk).body
    assert (operation["kind"], operation["operationType"], operation["status"]) == (
        "compute#operation",
        "insert",
        "DONE",
    )
    assert operation["targetLink"] == f"{URL}/{PROJECT}/global/networks/net"
    path = f"compute/v1/{PROJECT}/global/operations/{operation['name']}"
    assert desk.do("GET", path) == operation
    assert desk.do("POST", f"{path}/wait") == operation
    assert desk.refused("GET", f"compute/v1/{PROJECT}/global/operations/absent").status == 404


def test_a_patch_merges_and_needs_the_fingerprint_of_today(desk: Desk) -> None:
    EXAMPLES["compute:subnetworks"].furnish(desk)
    EXAMPLES["compute:subnetworks"].create(desk)
    before = desk.do("GET", SUBNET)
    patch = {"fingerprint": before["fingerprint"], "description": "of jobs"}
    assert desk.do("PATCH", SUBNET, patch)["operationType"] == "patch"
    after = desk.do("GET", SUBNET)
    assert (after["description"], after["ipCidrRange"]) == ("of jobs", before["ipCidrRange"])
    stale = desk.refused("PATCH", SUBNET, patch)
    assert (stale.status, stale.reason, stale.belief) == (412, "conditionNotMet", "compute-stale-is-412")
    fixed = desk.refused("PATCH", SUBNET, {"purpose": "GLOBAL_MANAGED_PROXY"})
    assert (fixed.status, fixed.belief) == (400, "api-fixed-fields")


def test_fields_with_methods_of_their_own(desk: Desk) -> None:
    EXAMPLES["compute:subnetworks"].furnish(desk)
    EXAMPLES["compute:subnetworks"].create(desk)
    desk.do("POST", f"{SUBNET}/setPrivateIpGoogleAccess", {"privateIpGoogleAccess": True})
    desk.do("POST", f"{SUBNET}/expandIpCidrRange", {"ipCidrRange": "10.0.0.0/16"})
    shown = desk.do("GET", SUBNET)
    assert (shown["privateIpGoogleAccess"], shown["ipCidrRange"]) == (True, "10.0.0.0/16")
    assert (
        "does not contain"
        in desk.refused("POST", f"{SUBNET}/expandIpCidrRange", {"ipCidrRange": "10.0.0.0/20"}).message
    )


def test_networks_and_subnetworks_show_what_the_server_fills_in(desk: Desk) -> None:
    EXAMPLES["compute:subnetworks"].furnish(desk)
    EXAMPLES["compute:subnetworks"].create(desk)
    network = desk.do("GET", EXAMPLES["compute:networks"].path)
    assert network["routingConfig"] == {"routingMode": "REGIONAL"}
    assert (network["mtu"], network["networkFirewallPolicyEnforcementOrder"]) == (1460, "AFTER_CLASSIC_FIREWALL")
    assert network["subnetworks"] == [f"{URL}/{PROJECT}/regions/us-central1/subnetworks/sub"]
    subnet = desk.do("GET", SUBNET)
    assert (subnet["gatewayAddress"], subnet["purpose"], subnet["stackType"]) == ("10.0.0.1", "PRIVATE", "IPV4_ONLY")
    assert subnet["network"] == f"{URL}/{PROJECT}/global/networks/net"


def test_a_nat_is_a_list_inside_its_router(desk: Desk) -> None:
    example = EXAMPLES["compute:routers"]
    example.furnish(desk)
    example.create(desk)
    [nat] = desk.do("GET", example.path)["nats"]
    assert (nat["minPortsPerVm"], nat["udpIdleTimeoutSec"], nat["endpointTypes"]) == (64, 30, ["ENDPOINT_TYPE_VM"])
    desk.do("PATCH", example.path, {"nats": [{**nat, "minPortsPerVm": 128}]})
    assert desk.do("GET", example.path)["nats"][0]["minPortsPerVm"] == 128
    desk.do("PATCH", example.path, {"nats": []})
    assert desk.do("GET", example.path)["nats"] == []


def test_quotas_of_a_region_say_what_its_node_pools_use(desk: Desk) -> None:
    for region, spot in (("us-central1", False), ("us-central1", True), ("europe-west4", False)):
        body = {"config": {"machineType": "n1-standard-8", "spot": spot}, "currentNodeCount": 3}
        desk.cloud.store.create("nodePool", f"{PROJECT}/locations/{region}/clusters/c/nodePools/p{spot}", body)
    shown = desk.do("GET", REGION)
    used = {one["metric"]: one["usage"] for one in shown["quotas"]}
    assert (used["CPUS"], used["PREEMPTIBLE_CPUS"], used["INSTANCES"], used["N2_CPUS"]) == (24, 24, 6, 0)
    assert "IN_USE_ADDRESSES" in used
