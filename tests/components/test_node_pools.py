"""What each way of getting machines becomes in the provider's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

Declared = dict[str, dict[str, Any]]


def pool_of(resources: dict[str, dict[str, Any]], machine: str) -> dict[str, Any]:
    pools = (inputs for key, inputs in resources.items() if key.startswith("gcp:container/nodePool:NodePool"))
    return next(inputs for inputs in pools if inputs["nodeConfig"]["machineType"] == machine)


ANY = {"locationPolicy": "ANY"}


@pytest.mark.parametrize(
    ("case", "machine", "pool", "config"),
    [
        (
            "flex-start",
            "a3-highgpu-8g",
            {
                "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 2, **ANY},
                "management": {"autoRepair": False, "autoUpgrade": True},
                "networkConfig": {"acceleratorNetworkProfile": "auto"},
            },
            {
                "flexStart": True,
                "spot": False,
                "gcfsConfig": {"enabled": True},
                "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
            },
        ),
        (
            "flex-start",
            "n1-standard-4",
            {"management": {"autoRepair": True, "autoUpgrade": True}},
            {"spot": False, "gcfsConfig": {"enabled": True}},
        ),
        ("queued", "a3-highgpu-8g", {"queuedProvisioning": {"enabled": True}}, {"flexStart": True}),
        ("spot-all-roles", "n1-standard-4", {}, {"spot": True}),
        (
            "reservation",
            "a2-highgpu-8g",
            {},
            {
                "reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["training"],
                }
            },
        ),
        (
            "tpu-v6e-multi-host",
            "ct6e-standard-4t",
            {
                "autoscaling": {"minNodeCount": 0, "maxNodeCount": 4, **ANY},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
                "nodeLocations": ["us-central1-b"],
            },
            {"diskType": "hyperdisk-balanced"},
        ),
        ("tpu-v5e-single-host", "ct5lp-hightpu-8t", {"nodeLocations": ["us-central1-a"]}, {}),
        (
            "compact-a2",
            "a2-highgpu-8g",
            {"placementPolicy": {"type": "COMPACT"}, "nodeLocations": ["us-central1-c"], "maxPodsPerNode": 32},
            {},
        ),
        ("compact-a2", "n1-standard-4", {"placementPolicy": None, "nodeLocations": ["us-central1-c"]}, {}),
        ("gpu-h200", "a3-ultragpu-8g", {"nodeLocations": ["us-central1-b"], "placementPolicy": None}, {}),
    ],
)
def test_a_pool_in_the_providers_words(
    registered: Callable[[str], Declared], case: str, machine: str, pool: dict[str, Any], config: dict[str, Any]
) -> None:
    found = pool_of(registered(f"job/{case}"), machine)
    assert {key: found.get(key) for key in pool} == pool
    assert {key: found["nodeConfig"].get(key) for key in config} == config
    if case == "tpu-v5e-single-host":
        assert "placementPolicy" not in found


def test_what_a_job_makes_has_the_environments_account_and_key(registered: Callable[[str], Declared]) -> None:
    resources = registered("job/basic-bare@full")
    key = "projects/my-lab-project/locations/us-central1/keyRings/lab/cryptoKeys/encamp"
    config = pool_of(resources, "n1-standard-4")["nodeConfig"]
    assert config["bootDiskKmsKey"] == key
    assert config["serviceAccount"].startswith("encamp-nodes-")
    assert resources["gcp:storage/bucket:Bucket scratch"]["encryption"] == {"defaultKmsKeyName": key}
    assert "bootDiskKmsKey" not in pool_of(registered("job/spot-all-roles"), "n1-standard-4")["nodeConfig"]


def test_a_slice_of_tpu_7x_is_placed_by_a_workload_policy(registered: Callable[[str], Declared]) -> None:
    resources = registered("job/tpu-7x-multi-host")
    pool = pool_of(resources, "tpu7x-standard-4t")
    policy = next(inputs for key, inputs in resources.items() if key.startswith("gcp:compute/resourcePolicy"))
    assert policy["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}
    assert pool["placementPolicy"] == {"type": "", "policyName": policy["name"]}


def test_a_job_that_is_queued_for_asks_before_its_pods_run(registered: Callable[[str], Declared]) -> None:
    resources = registered("job/queued")
    request = next(inputs for key, inputs in resources.items() if "ProvisioningRequest" in key)
    template = next(inputs for key, inputs in resources.items() if "PodTemplate" in key)
    assert request["spec"]["podSets"] == [{"count": 2, "podTemplateRef": {"name": template["metadata"]["name"]}}]
    assert request["metadata"]["labels"]["encamp-deadline"]


def test_replicas_on_several_machines_with_rdma_claim_its_network(registered: Callable[[str], Declared]) -> None:
    resources = registered("job/rdma-h200")
    pool = pool_of(resources, "a3-ultragpu-8g")
    assert pool["networkConfig"] == {"acceleratorNetworkProfile": "auto"}
    assert pool["nodeConfig"]["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    template = next(inputs for key, inputs in resources.items() if "ResourceClaimTemplate" in key)
    assert template["metadata"]["labels"]["encamp-deadline"]
    job_set = next(inputs for key, inputs in resources.items() if ":JobSet " in key)
    for job in job_set["spec"]["replicatedJobs"]:
        (claim,) = job["template"]["spec"]["template"]["spec"]["resourceClaims"]
        assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_what_is_paid_for_carries_the_jobs_own_labels_beside_encamps(registered: Callable[[str], Declared]) -> None:
    found = registered("job/labels-on-the-bill")
    own = {"team": "vision", "cost-center": "c-42"}
    pool = pool_of(found, "n1-standard-4")["nodeConfig"]["resourceLabels"]
    buckets = [inputs["labels"] for key, inputs in found.items() if key.startswith("gcp:storage/bucket:Bucket ")]
    assert len(buckets) == 2
    for labels in (pool, *buckets):
        assert labels | own == labels
        assert labels["encamp-owner"] == "encamp"
