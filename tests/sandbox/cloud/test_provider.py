"""What the gcp provider does with its table: checks, refusals, outputs, faults."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from encamp.sandbox.cloud.faults import Fault, FaultKind
from encamp.sandbox.cloud.logging_api import LoggingApi
from encamp.sandbox.provider import UNKNOWN, Asset, Properties, ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from encamp.sandbox.cloud.cloud import Cloud
    from encamp.sandbox.cloud.gcp.session import GcpSession
    from encamp.sandbox.layout import Layout

pytestmark = pytest.mark.slow

NETWORK = "gcp:compute/network:Network"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
OBJECT = "gcp:storage/bucketObject:BucketObject"
ACCOUNT = "gcp:serviceaccount/account:Account"
ACCOUNT_MEMBER = "gcp:serviceaccount/iAMMember:IAMMember"
BUCKET_MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
EMAIL = "trainer-1@sandbox-encamp.iam.gserviceaccount.com"
CLUSTER_INPUTS = {
    "name": "encamp",
    "location": "us-central1",
    "initialNodeCount": 1,
    "removeDefaultNodePool": True,
    "deletionProtection": False,
    "workloadIdentityConfig": {"workloadPool": "sandbox-encamp.svc.id.goog"},
}
POOL_INPUTS = {
    "name": "pool",
    "cluster": "encamp",
    "location": "us-central1",
    "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"},
    "nodeConfig": {"machineType": "n1-standard-4"},
}
POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
WORKLOAD = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}
SLICE: Properties = {
    "nodeConfig": {"machineType": "ct5lp-hightpu-4t"},
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    "nodeLocations": ["us-central1-a"],
    "autoscaling": {"minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"},
}

#: Kinds that refuse nothing, or not at once.
WAITING = (FaultKind.HANG, FaultKind.PAUSE, FaultKind.PAUSE_AFTER, FaultKind.NOTE)


def resource(token: str) -> Resource:
    return Resource(token, f"urn:pulumi:dev::proj::{token}::thing", "thing")


def create(session: GcpSession, token: str, inputs: Properties) -> ResourceState:
    async def work() -> ResourceState:
        checked = await session.check(resource(token), {}, inputs, seed=b"seed")
        assert list(checked.failures) == []
        made = await session.create(resource(token), checked.inputs, time_limit=None, preview=False)
        return ResourceState(made.resource_id, checked.inputs, made.outputs)

    return asyncio.run(work())


def failures(session: GcpSession, token: str, inputs: Properties) -> list[str]:
    return [item.reason for item in asyncio.run(session.check(resource(token), {}, inputs, seed=b"s")).failures]


def delete(session: GcpSession, token: str, state: ResourceState) -> None:
    asyncio.run(session.delete(resource(token), state, time_limit=None))


def test_a_name_of_its_own_is_stable(session: GcpSession) -> None:
    async def work() -> None:
        first = await session.check(resource(NETWORK), {}, {}, seed=b"one")
        assert first.inputs["name"].startswith("thing-")
        again = await session.check(resource(NETWORK), first.inputs, {}, seed=b"two")
        assert again.inputs["name"] == first.inputs["name"]
        other = await session.check(resource(NETWORK), {}, {}, seed=b"two")
        assert other.inputs["name"] != first.inputs["name"]

    asyncio.run(work())


def test_what_exists_is_refused(session: GcpSession) -> None:
    create(session, NETWORK, {"name": "net"})
    with pytest.raises(ProviderError, match=r"Error 409: Already exists: projects/sandbox-encamp/global/networks/net"):
        create(session, NETWORK, {"name": "net"})


def test_a_parent_has_to_exist(session: GcpSession) -> None:
    subnet = {"name": "sub", "network": "nowhere", "ipCidrRange": "10.0.0.0/20"}
    with pytest.raises(ProviderError, match=r"Error 404: .*networks/nowhere"):
        create(session, "gcp:compute/subnetwork:Subnetwork", subnet)


def test_ranges_must_not_overlap_and_a_network_in_use_stays(session: GcpSession) -> None:
    network = create(session, NETWORK, {"name": "net"})
    subnet = {"name": "sub", "network": network.outputs["selfLink"], "ipCidrRange": "10.0.0.0/20"}
    create(session, "gcp:compute/subnetwork:Subnetwork", subnet)
    with pytest.raises(ProviderError, match="conflicts with existing subnetwork 'sub'"):
        create(session, "gcp:compute/subnetwork:Subnetwork", {**subnet, "name": "two"})
    with pytest.raises(ProviderError, match="already being used by"):
        delete(session, NETWORK, network)


def test_another_project_is_refused(session: GcpSession) -> None:
    assert "serves the project sandbox-encamp only" in failures(session, NETWORK, {"project": "real-one"})[0]


@pytest.mark.parametrize(
    ("token", "inputs", "problem"),
    [
        (NETWORK, {"name": "Upper"}, "doesn't match regexp"),
        (ACCOUNT, {"accountId": "short"}, "6 to 30"),
        (ACCOUNT, {}, 'missing required property "accountId"'),
        (BUCKET, {"name": "no", "location": "us"}, "3 to 63"),
        (BUCKET, {"name": "fine-name", "location": "us", "labels": {"Big": "x"}}, "Label key"),
        (BUCKET, {"name": "fine-name", "location": "us", "labels": {"k": "x" * 64}}, "Label value"),
        (OBJECT, {"bucket": "b", "name": "n"}, "exactly one of content and source"),
        (CLUSTER, {**CLUSTER_INPUTS, "enableAutopilot": True}, "Standard clusters only"),
        (POOL, {**POOL_INPUTS, "nodeCount": 2}, "not both"),
        (POOL, {**POOL_INPUTS, "autoscaling": {"maxNodeCount": 1, "totalMaxNodeCount": 2}}, "both per-zone and total"),
        (POOL, {**POOL_INPUTS, "autoscaling": {"minNodeCount": 3, "maxNodeCount": 2}}, "has to lie between"),
        (POOL, {**POOL_INPUTS, "placementPolicy": {"type": "COMPACT"}}, "exactly one zone"),
        (POOL, {**POOL_INPUTS, "nodeConfig": {"flexStart": True}}, "auto_repair"),
        (
            POOL,
            {**POOL_INPUTS, "queuedProvisioning": {"enabled": True}, "nodeConfig": {"spot": True}},
            "queued_provisioning excludes spot",
        ),
        (
            POOL,
            {**POOL_INPUTS, "nodeConfig": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}},
            "effect",
        ),
    ],
)
def test_bad_inputs_are_told_at_preview(session: GcpSession, token: str, inputs: Properties, problem: str) -> None:
    assert problem in " ".join(failures(session, token, inputs))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nodeConfig": {"maxRunDuration": "10368001s"}}, "at most 10368000s"),
        (
            {
                "nodeConfig": {
                    "maxRunDuration": "604801s",
                    "flexStart": True,
                    "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                },
                "management": {"autoRepair": False},
            },
            "at most 604800s",
        ),
        ({"nodeConfig": {"maxRunDuration": "1h"}}, "number of seconds"),
        ({"nodeConfig": {"serviceAccount": EMAIL}}, "does not exist"),
        ({"nodeConfig": {"spot": True, "preemptible": True}}, "Only one of spot"),
        ({"nodeLocations": ["europe-west1-b"]}, "zones of the cluster's region"),
        ({"maxPodsPerNode": 4}, "between 8 and 256"),
        ({"cluster": "other"}, "Error 404"),
        (
            {"nodeConfig": {"machineType": "a3-highgpu-8g", "guestAccelerators": [{"type": "nvidia-l4", "count": 8}]}},
            "a3-highgpu-8g has 8 x nvidia-h100-80gb, not 8 x nvidia-l4",
        ),
        (
            {
                "nodeConfig": {
                    "machineType": "n1-standard-96",
                    "guestAccelerators": [{"type": "nvidia-tesla-t4", "count": 1}],
                }
            },
            "not compatible with n1-standard-96",
        ),
        (
            {
                "nodeConfig": {
                    "machineType": "n1-standard-8",
                    "guestAccelerators": [{"type": "nvidia-tesla-k80", "count": 1}],
                }
            },
            "no longer offered",
        ),
        ({"nodeConfig": {"machineType": "a4-highgpu-8g", "diskType": "pd-ssd"}}, "not compatible"),
        ({"nodeConfig": {"machineType": "ct3p-hightpu-4t"}}, "requires a placement policy with a TPU topology"),
        (
            {
                "nodeConfig": {"machineType": "ct5lp-hightpu-8t"},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"},
                "nodeLocations": ["us-central1-a"],
            },
            "single-host pool takes no tpu_topology",
        ),
        (
            {
                "nodeConfig": {"machineType": "n1-standard-8"},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"},
                "nodeLocations": ["us-central1-a"],
            },
            "requires a TPU machine type",
        ),
        ({**SLICE, "autoscaling": {"totalMaxNodeCount": 4}}, "not by total_max_node_count"),
        ({**SLICE, "autoscaling": {"maxNodeCount": 3}}, "has 4 nodes: max_node_count cannot be 3"),
        (
            {**SLICE, "placementPolicy": {"type": "COMPACT", "tpuTopology": "3x3"}},
            "3x3 is not supported for machine type ct5lp-hightpu-4t",
        ),
        (
            {
                "placementPolicy": {"type": "", "policyName": "absent"},
                "nodeConfig": {"machineType": "tpu7x-standard-4t"},
                "nodeLocations": ["us-central1-a"],
            },
            "'absent' was not found",
        ),
        (
            {"nodeConfig": {"reservationAffinity": {"consumeReservationType": "SPECIFIC_RESERVATION"}}},
            "needs key compute.googleapis.com/reservation-name",
        ),
        (
            {
                "networkConfig": {"acceleratorNetworkProfile": "auto"},
                "nodeConfig": {"machineType": "g2-standard-4"},
            },
            "does not support an accelerator network profile",
        ),
    ],
)
def test_the_api_refuses_bad_pools(session: GcpSession, change: dict[str, Any], problem: str) -> None:
    create(session, CLUSTER, CLUSTER_INPUTS)
    with pytest.raises(ProviderError, match=problem):
        create(session, POOL, {**POOL_INPUTS, **change})


def test_a_slice_is_placed_by_its_topology_or_by_a_workload_policy(session: GcpSession, cloud: Cloud) -> None:
    create(session, CLUSTER, CLUSTER_INPUTS)
    pool = create(session, POOL, {**POOL_INPUTS, **SLICE})
    assert cloud.store.get(pool.resource_id).body["facts"]["placedTopology"] == "4x4"
    policy = {"name": "slice", "region": "us-central1", "workloadPolicy": WORKLOAD}
    made = create(session, POLICY, policy)
    named = {
        "name": "named",
        "nodeConfig": {"machineType": "tpu7x-standard-4t"},
        "nodeLocations": ["us-central1-c"],
        "placementPolicy": {"type": "", "policyName": "slice"},
    }
    with pytest.raises(ProviderError, match="max_node_count cannot be 1"):
        create(session, POOL, {**POOL_INPUTS, **named, "autoscaling": {"maxNodeCount": 1}})
    placed = create(session, POOL, {**POOL_INPUTS, **named, "autoscaling": {"maxNodeCount": 2}})
    assert cloud.store.get(placed.resource_id).body["facts"]["placedTopology"] == "2x2x2"
    with pytest.raises(ProviderError, match="already being used by"):
        delete(session, POLICY, made)
    delete(session, POOL, placed)
    delete(session, POLICY, made)
    assert cloud.store.all_of("resourcePolicy") == []


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"workloadPolicy": {"type": "FAST"}}, "HIGH_THROUGHPUT"),
        ({"workloadPolicy": {"type": "HIGH_AVAILABILITY", "acceleratorTopology": "2x2x2"}}, "HIGH_THROUGHPUT only"),
        ({"workloadPolicy": {**WORKLOAD, "maxTopologyDistance": "BLOCK"}}, "exclude each other"),
    ],
)
def test_the_api_refuses_bad_policies(session: GcpSession, policy: dict[str, Any], problem: str) -> None:
    with pytest.raises(ProviderError, match=problem):
        create(session, POLICY, {"name": "slice", "region": "us-central1", **policy})


def test_unknown_values_are_not_judged(session: GcpSession) -> None:
    assert failures(session, POOL, {**POOL_INPUTS, "cluster": UNKNOWN, "nodeConfig": {"labels": UNKNOWN}}) == []


def test_a_cluster_is_reachable_by_its_outputs(session: GcpSession, layout: Layout) -> None:
    made = create(session, CLUSTER, CLUSTER_INPUTS)
    assert made.resource_id == "projects/sandbox-encamp/locations/us-central1/clusters/encamp"
    assert made.outputs["endpoint"] == f"127.0.0.1:{layout.ports.apiserver}"
    assert made.outputs["masterAuth"]["clusterCaCertificate"].startswith("LS0tLS1CRUdJTi")
    with pytest.raises(ProviderError, match=r"Error 403: Insufficient quota.*one control plane.*quotaExceeded"):
        create(session, CLUSTER, {**CLUSTER_INPUTS, "name": "second"})


def test_a_cluster_has_a_name_where_one_was_asked_for(session: GcpSession, layout: Layout) -> None:
    asked = {"dnsEndpointConfig": {"allowExternalTraffic": True}}
    outputs = create(session, CLUSTER, {**CLUSTER_INPUTS, "controlPlaneEndpointsConfig": asked}).outputs
    name = {"allowExternalTraffic": True, "endpoint": f"localhost:{layout.ports.apiserver}"}
    assert outputs["controlPlaneEndpointsConfig"] == {"dnsEndpointConfig": name}


def test_entries_that_are_excluded_are_not_taken_in(session: GcpSession, cloud: Cloud) -> None:
    jobs = 'resource.type="k8s_container" AND resource.labels.namespace_name="jobs"'
    create(session, "gcp:logging/projectExclusion:ProjectExclusion", {"name": "jobs", "filter": jobs})
    api = LoggingApi(cloud.database, cloud.access)

    def entry(namespace: str) -> dict[str, Any]:
        labels = {"namespace_name": namespace}
        return {
            "logName": "projects/sandbox-encamp/logs/stdout",
            "resource": {"type": "k8s_container", "labels": labels},
        }

    api.write({"entries": [entry("jobs"), entry("drivers")]})
    found = api.find({"resourceNames": ["projects/sandbox-encamp"]})["entries"]
    assert [one["resource"]["labels"]["namespace_name"] for one in found] == ["drivers"]


def test_a_protected_cluster_stays(session: GcpSession, cloud: Cloud) -> None:
    inputs = {key: value for key, value in CLUSTER_INPUTS.items() if key != "deletionProtection"}
    made = create(session, CLUSTER, inputs)
    with pytest.raises(ProviderError, match="deletion_protection"):
        delete(session, CLUSTER, made)
    assert cloud.store.find(made.resource_id)


def test_a_pool_counts_its_nodes_and_goes_with_its_cluster(session: GcpSession, cloud: Cloud) -> None:
    cluster = create(session, CLUSTER, CLUSTER_INPUTS)
    pool = create(session, POOL, POOL_INPUTS)
    facts = cloud.store.get(pool.resource_id).body["facts"]
    assert (facts["currentNodeCount"], len(pool.outputs["managedInstanceGroupUrls"])) == (0, 3)
    delete(session, CLUSTER, cluster)
    assert cloud.store.all_of("nodePool") == []
    delete(session, POOL, pool)


def test_changes_replace_or_update(session: GcpSession) -> None:
    async def work() -> None:
        state = ResourceState("id", POOL_INPUTS, {})
        spot = {**POOL_INPUTS, "nodeConfig": {"machineType": "n1-standard-4", "spot": True}}
        replaced = await session.diff(resource(POOL), state, spot, ignore_changes=[])
        assert (len(replaced.replaces), replaced.delete_before_replace) == (1, True)
        bigger = {**POOL_INPUTS, "nodeConfig": {"machineType": "n1-standard-8"}}
        updated = await session.diff(resource(POOL), state, bigger, ignore_changes=[])
        assert (len(updated.changes), len(updated.replaces)) == (1, 0)
        same = await session.diff(resource(POOL), state, {**POOL_INPUTS, "__defaults": []}, ignore_changes=[])
        assert not same.changes

    asyncio.run(work())


def test_members_have_to_exist_and_leave_a_trace(session: GcpSession, cloud: Cloud) -> None:
    binding = {"project": "sandbox-encamp", "role": "roles/logging.logWriter", "member": f"serviceAccount:{EMAIL}"}
    with pytest.raises(ProviderError, match=f"Error 400: Service account {EMAIL} does not exist"):
        create(session, PROJECT_MEMBER, binding)
    account = create(session, ACCOUNT, {"accountId": "trainer-1"})
    assert (account.outputs["email"], account.outputs["member"]) == (EMAIL, f"serviceAccount:{EMAIL}")
    member = create(session, PROJECT_MEMBER, binding)
    delete(session, ACCOUNT, account)
    left = cloud.policies.bindings("projects/sandbox-encamp")[0].members[0]
    assert left.startswith(f"deleted:serviceAccount:{EMAIL}?uid=")
    delete(session, PROJECT_MEMBER, member)
    assert cloud.policies.bindings("projects/sandbox-encamp") == []


def test_workload_identity_needs_the_clusters_pool(session: GcpSession) -> None:
    account = create(session, ACCOUNT, {"accountId": "trainer-1"})
    binding = {
        "serviceAccountId": account.outputs["name"],
        "role": "roles/iam.workloadIdentityUser",
        "member": "serviceAccount:sandbox-encamp.svc.id.goog[jobs/trainer]",
    }
    with pytest.raises(ProviderError, match="Identity Pool does not exist"):
        create(session, ACCOUNT_MEMBER, binding)
    create(session, CLUSTER, CLUSTER_INPUTS)
    assert create(session, ACCOUNT_MEMBER, binding).outputs["etag"]


def test_conditions_need_uniform_access(session: GcpSession) -> None:
    create(session, BUCKET, {"name": "plain-bucket", "location": "us-central1"})
    binding = {
        "bucket": "plain-bucket",
        "role": "roles/storage.objectAdmin",
        "member": "user:a@example.com",
        "condition": {"title": "t", "expression": 'resource.name.startsWith("projects/_/buckets/plain-bucket/")'},
    }
    with pytest.raises(ProviderError, match="uniform bucket-level access"):
        create(session, BUCKET_MEMBER, binding)


def test_objects_come_from_files_and_texts(session: GcpSession, tmp_path: Any) -> None:
    file = tmp_path / "f.bin"
    file.write_bytes(b"bytes")
    bucket = create(session, BUCKET, {"name": "data-bucket", "location": "us-central1"})
    made = create(session, OBJECT, {"bucket": "data-bucket", "name": "f", "source": Asset(path=str(file))})
    assert made.outputs["md5hexhash"] == "4b3a6218bb3e3a7303e8a171a60fcf92"
    assert made.outputs["selfLink"].endswith("/b/data-bucket/o/f")
    create(session, OBJECT, {"bucket": "data-bucket", "name": "t", "source": Asset(text="text")})
    with pytest.raises(ProviderError, match=r"without `force_destroy` set to true"):
        delete(session, BUCKET, bucket)
    forced = ResourceState(bucket.resource_id, {**bucket.inputs, "forceDestroy": True}, bucket.outputs)
    delete(session, BUCKET, forced)
    assert asyncio.run(session.read(resource(BUCKET), forced)) is None


def test_a_read_gives_back_what_was_created(session: GcpSession) -> None:
    for token, inputs in (
        (CLUSTER, CLUSTER_INPUTS),
        (POOL, POOL_INPUTS),
        (ACCOUNT, {"accountId": "trainer-1"}),
        (BUCKET, {"name": "data-bucket", "location": "us-central1", "labels": {"k": "v"}}),
    ):
        state = create(session, token, inputs)
        read = asyncio.run(session.read(resource(token), state))
        assert read
        assert (read.inputs, read.outputs, read.resource_id) == (state.inputs, state.outputs, state.resource_id)


def test_a_read_tells_what_somebody_changed_in_a_bucket_and_no_more(session: GcpSession) -> None:
    inputs = {
        "name": "b-1",
        "location": "US-CENTRAL1",
        "labels": {"mine": "1"},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 30}}],
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": True,
        "versioning": {"enabled": True},
    }
    state = create(session, BUCKET, inputs)

    access = {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"}
    whole = {
        "labels": inputs["labels"],
        "lifecycle": {"rule": inputs["lifecycleRules"]},
        "iamConfiguration": access,
        "versioning": {"enabled": True},
    }

    async def changed(body: Properties) -> Properties:
        await session._context.storage.update_bucket("b-1", whole | body)
        found = await session.read(resource(BUCKET), state)
        assert found is not None
        return {key: value for key, value in found.inputs.items() if value != inputs.get(key)}

    assert asyncio.run(changed({"labels": {"mine": "1", "goog-terraform": "1"}})) == {}
    assert asyncio.run(changed({"labels": {"mine": "2"}})) == {"labels": {"mine": "2"}}
    assert asyncio.run(changed({"lifecycle": {"rule": []}})) == {"lifecycleRules": []}
    assert asyncio.run(changed({"versioning": {"enabled": False}})) == {"versioning": {"enabled": False}}
    open_access = {**access, "publicAccessPrevention": "inherited"}
    assert asyncio.run(changed({"iamConfiguration": open_access})) == {"publicAccessPrevention": "inherited"}


def test_protected_and_abandoned_resources(session: GcpSession, cloud: Cloud) -> None:
    kept = create(session, NETWORK, {"name": "kept", "deletionPolicy": "PREVENT"})
    with pytest.raises(ProviderError, match="PREVENT"):
        delete(session, NETWORK, kept)
    left = create(session, NETWORK, {"name": "left", "deletionPolicy": "ABANDON"})
    delete(session, NETWORK, left)
    assert cloud.store.find(left.resource_id)


@pytest.mark.parametrize("kind", [kind for kind in FaultKind if kind not in WAITING])
def test_faults_strike_as_often_as_they_were_armed(session: GcpSession, cloud: Cloud, kind: FaultKind) -> None:
    cloud.faults.add(Fault(NETWORK, "create", kind, 1, "*/networks/net"))
    create(session, NETWORK, {"name": "other"})
    with pytest.raises(ProviderError, match="googleapi: Error"):
        create(session, NETWORK, {"name": "net"})
    happened = cloud.store.find("projects/sandbox-encamp/global/networks/net") is not None
    assert happened is (kind is FaultKind.LOST_ANSWER)
    assert cloud.faults.armed() == []


@pytest.mark.parametrize("kind", [FaultKind.PAUSE, FaultKind.PAUSE_AFTER])
def test_a_paused_operation_waits_before_or_after_it_is_done(
    session: GcpSession, cloud: Cloud, kind: FaultKind
) -> None:
    fault = cloud.faults.add(Fault(NETWORK, "create", kind))

    async def work() -> None:
        task = asyncio.create_task(session.create(resource(NETWORK), {"name": "net"}, time_limit=None, preview=False))
        await asyncio.sleep(0.05)
        assert [one.json(whole=False)["reached"] for one in cloud.faults.all()] == [True]
        assert not task.done()
        assert (cloud.store.find("projects/sandbox-encamp/global/networks/net") is None) is (kind is FaultKind.PAUSE)
        cloud.faults.remove(fault.number)
        assert (await task).outputs["name"] == "net"

    asyncio.run(work())


def test_a_hang_ends_with_the_engine(session: GcpSession, cloud: Cloud) -> None:
    cloud.faults.add(Fault(NETWORK, "create", FaultKind.HANG))

    async def work() -> None:
        task = asyncio.create_task(session.create(resource(NETWORK), {"name": "net"}, time_limit=None, preview=False))
        await asyncio.sleep(0.05)
        assert not task.done()
        session.cancelled.set()
        with pytest.raises(ProviderError, match="timed out"):
            await task

    asyncio.run(work())


def test_a_preview_knows_no_more_than_it_can(session: GcpSession, cloud: Cloud) -> None:
    made = asyncio.run(session.create(resource(ACCOUNT), {"accountId": "trainer-1"}, time_limit=None, preview=True))
    assert made.outputs["uniqueId"] is UNKNOWN
    assert cloud.store.all_of("serviceAccount") == []


def test_a_preview_does_not_know_a_cluster_s_name_before_google_has_given_it(session: GcpSession) -> None:
    asked = {**CLUSTER_INPUTS, "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}}}
    new = asyncio.run(session.create(resource(CLUSTER), asked, time_limit=None, preview=True)).outputs
    assert new["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"] is UNKNOWN
    made = create(session, CLUSTER, asked)
    state = ResourceState(made.resource_id, asked, made.outputs)
    change = session.update(resource(CLUSTER), state, asked, time_limit=None, preview=True, ignore_changes=())
    assert asyncio.run(change)["controlPlaneEndpointsConfig"] == made.outputs["controlPlaneEndpointsConfig"]


def test_functions(session: GcpSession) -> None:
    create(session, BUCKET, {"name": "data-bucket", "location": "us-central1"})
    create(session, OBJECT, {"bucket": "data-bucket", "name": "a/b", "content": "x"})
    token = "gcp:storage/getBucketObjects:getBucketObjects"  # noqa: S105 - a function's token
    found = asyncio.run(session.invoke(token, {"bucket": "data-bucket", "prefix": "a/"}, preview=False))
    assert [item["name"] for item in found.outputs["bucketObjects"]] == ["a/b"]
