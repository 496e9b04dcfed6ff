"""What the gcp provider does beside its types: names, protection, retries, cancellation, functions, drift."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.sandbox.cloud.conftest import session_over
from tests.sandbox.gcp_provider.conftest import INPUTS, Engine, good, plain

from encamp.run.engine.transient import is_transient
from encamp_sandbox.cloud.cloud import IAM_DELAY_VARIABLE, LATENCY_VARIABLE, Cloud
from encamp_sandbox.cloud.faults import Fault, FaultKind
from encamp_sandbox.gcp_provider import client
from encamp_sandbox.provider import UNKNOWN, Asset, Properties, ProviderError, ResourceState, Secret

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sandbox.cloud.desk import Desk

    from encamp_sandbox.gcp_provider.session import GcpSession
    from encamp_sandbox.layout import Layout
    from encamp_sandbox.storage.api import StorageServer

pytestmark = pytest.mark.slow

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
BUCKET = "gcp:storage/bucket:Bucket"
OBJECT = "gcp:storage/bucketObject:BucketObject"
ACCOUNT = "gcp:serviceaccount/account:Account"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
EMAIL = "trainer-1@sandbox-encamp.iam.gserviceaccount.com"
PROJECT = "sandbox-encamp"
NET = "projects/sandbox-encamp/global/networks/net"

#: Faults that pass when the provider asks again, those that do not, and those that refuse nothing.
PASSING = (FaultKind.RATE_LIMIT, FaultKind.INTERNAL, FaultKind.STOCKOUT, FaultKind.CONFLICT)
LASTING = (FaultKind.FORBIDDEN, FaultKind.QUOTA, FaultKind.BUSY, FaultKind.LOST_ANSWER)


def test_an_automatic_name_is_stable(engine: Engine, session: GcpSession) -> None:
    async def work() -> None:
        thing = engine.resource(NETWORK)
        first = await session.check(thing, {}, {}, seed=b"one")
        assert first.inputs["name"].startswith("thing-")
        again = await session.check(thing, first.inputs, {}, seed=b"two")
        assert again.inputs["name"] == first.inputs["name"]
        other = await session.check(thing, {}, {}, seed=b"two")
        assert other.inputs["name"] != first.inputs["name"]

    engine.runner.run(work())


def test_unknown_values_are_not_judged(engine: Engine) -> None:
    assert engine.failures(POOL, good(POOL, {"cluster": UNKNOWN, "nodeConfig": {"labels": UNKNOWN}})) == []


def test_a_preview_knows_no_more_than_it_can(engine: Engine, session: GcpSession, cloud: Cloud) -> None:
    thing, inputs = engine.resource(ACCOUNT), {"accountId": "trainer-1"}
    made = engine.runner.run(session.create(thing, inputs, time_limit=None, preview=True))
    assert made.outputs["uniqueId"] is UNKNOWN
    assert cloud.store.all_of("serviceAccount") == []


def test_a_preview_does_not_know_a_clusters_name_before_google_has_given_it(
    engine: Engine, session: GcpSession
) -> None:
    asked = {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}}}
    inputs = good(CLUSTER, asked)
    new = engine.runner.run(session.create(engine.resource(CLUSTER), inputs, time_limit=None, preview=True)).outputs
    assert new["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"] is UNKNOWN
    made = engine.furnish(CLUSTER, asked)
    assert made.outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"].startswith("localhost:")


def test_a_cluster_is_reachable_by_its_outputs(engine: Engine, layout: Layout) -> None:
    made = engine.furnish(CLUSTER)
    assert made.resource_id == "projects/sandbox-encamp/locations/us-central1/clusters/encamp"
    assert made.outputs["endpoint"] == f"127.0.0.1:{layout.ports.apiserver}"
    assert made.outputs["masterAuth"]["clusterCaCertificate"].startswith("LS0tLS1CRUdJTi")


def test_a_protected_cluster_stays(engine: Engine, cloud: Cloud) -> None:
    made = engine.furnish(CLUSTER, {"deletionProtection": None})
    with pytest.raises(ProviderError, match="deletion_protection"):
        engine.delete(CLUSTER, made)
    assert cloud.store.find(made.resource_id)


def test_a_pool_counts_its_nodes_and_goes_with_its_cluster(engine: Engine, cloud: Cloud) -> None:
    pool = engine.furnish(POOL)
    assert len(pool.outputs["managedInstanceGroupUrls"]) == 3
    engine.delete(CLUSTER, engine.made[CLUSTER])
    assert cloud.store.all_of("nodePool") == []
    engine.delete(POOL, pool)


def test_a_replacement_of_a_fixed_name_deletes_first(engine: Engine) -> None:
    pool = engine.furnish(POOL)
    spot = good(POOL, {"nodeConfig": {"machineType": "n1-standard-4", "spot": True}})
    replaced = engine.diff(POOL, pool, spot)
    assert (len(replaced.replaces), replaced.delete_before_replace) == (1, True)
    assert not engine.diff(POOL, pool, {**pool.inputs, "__defaults": []}).changes


def test_abandoned_resources_stay_in_the_cloud(engine: Engine, cloud: Cloud) -> None:
    left = engine.create(NETWORK, good(NETWORK, {"deletionPolicy": "ABANDON"}))
    engine.delete(NETWORK, left)
    assert cloud.store.find(left.resource_id)


def test_members_leave_a_trace(engine: Engine, cloud: Cloud) -> None:
    member = engine.furnish(PROJECT_MEMBER)
    engine.delete(ACCOUNT, engine.made[ACCOUNT])
    [binding] = cloud.policies.bindings("projects/sandbox-encamp")
    assert binding.members[0].startswith(f"deleted:serviceAccount:{EMAIL}?uid=")
    engine.delete(PROJECT_MEMBER, member)
    assert cloud.policies.bindings("projects/sandbox-encamp") == []


def test_objects_come_from_files_and_texts(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "f.bin"
    file.write_bytes(b"bytes")
    bucket = engine.create(BUCKET, {"name": "data-bucket", "location": "us-central1"})
    made = engine.create(OBJECT, {"bucket": "data-bucket", "name": "f", "source": Asset(path=str(file))})
    assert made.outputs["md5hexhash"] == "4b3a6218bb3e3a7303e8a171a60fcf92"
    assert made.outputs["selfLink"].endswith("/b/data-bucket/o/f")
    engine.create(OBJECT, {"bucket": "data-bucket", "name": "t", "source": Asset(text="text")})
    with pytest.raises(ProviderError, match=r"without `force_destroy` set to true"):
        engine.delete(BUCKET, bucket)
    forced = ResourceState(bucket.resource_id, {**bucket.inputs, "forceDestroy": True}, bucket.outputs)
    engine.delete(BUCKET, forced)
    assert engine.read(BUCKET, forced) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"labels": {"goog-terraform": "1"}}, {}),
        ({"labels": {"mine": "2"}}, {"labels": {"mine": "2"}}),
        ({"lifecycle": {"rule": []}}, {"lifecycleRules": []}),
        ({"versioning": {"enabled": False}}, {"versioning": {"enabled": False}}),
        (
            {"iamConfiguration": {"publicAccessPrevention": "inherited"}},
            {"publicAccessPrevention": "inherited"},
        ),
    ],
)
def test_a_read_tells_what_somebody_changed_in_a_bucket_and_no_more(
    engine: Engine, desk: Desk, change: Properties, told: Properties
) -> None:
    inputs = {
        "name": "b-1",
        "location": "US-CENTRAL1",
        "labels": {"mine": "1"},
        "lifecycleRules": [{"action": {"type": "Delete"}, "condition": {"age": 30}}],
        "publicAccessPrevention": "enforced",
        "uniformBucketLevelAccess": True,
        "versioning": {"enabled": True},
    }
    state = engine.create(BUCKET, inputs)
    desk.do("PATCH", "storage/v1/b/b-1", change)
    found = engine.read(BUCKET, state)
    assert found is not None
    assert {key: value for key, value in found.inputs.items() if value != inputs.get(key)} == told


@pytest.mark.parametrize("kind", PASSING)
def test_a_passing_fault_is_retried(engine: Engine, cloud: Cloud, kind: FaultKind) -> None:
    cloud.faults.add(Fault("compute:networks", "create", kind, 2, "*/networks/net"))
    assert engine.create(NETWORK, good(NETWORK)).resource_id == NET
    assert cloud.faults.armed() == []


@pytest.mark.parametrize("kind", LASTING)
def test_a_lasting_fault_is_told(engine: Engine, cloud: Cloud, kind: FaultKind) -> None:
    cloud.faults.add(Fault("compute:networks", "create", kind, 1, "*/networks/net"))
    with pytest.raises(ProviderError, match="googleapi: Error"):
        engine.create(NETWORK, good(NETWORK))
    assert (cloud.store.find(NET) is not None) is (kind is FaultKind.LOST_ANSWER)
    assert cloud.faults.armed() == []


def test_a_stockout_of_a_pool_is_told_and_not_retried(engine: Engine, cloud: Cloud) -> None:
    engine.furnish(CLUSTER)
    cloud.faults.add(Fault("container:nodePools", "create", FaultKind.STOCKOUT))
    with pytest.raises(ProviderError, match="ZONE_RESOURCE_POOL_EXHAUSTED") as caught:
        engine.create(POOL, good(POOL))
    assert not is_transient(str(caught.value))
    assert cloud.faults.armed() == []
    assert not [pool for pool in cloud.store.all_of("nodePool") if pool.short_name == good(POOL)["name"]]


def test_every_kind_of_fault_is_told_apart() -> None:
    waiting = {FaultKind.HANG, FaultKind.PAUSE, FaultKind.PAUSE_AFTER, FaultKind.NOTE}
    assert set(FaultKind) == {*PASSING, *LASTING, *waiting}


@pytest.mark.parametrize("kind", [FaultKind.PAUSE, FaultKind.PAUSE_AFTER])
def test_a_paused_operation_waits_before_or_after_it_is_done(
    engine: Engine, session: GcpSession, cloud: Cloud, kind: FaultKind
) -> None:
    fault = cloud.faults.add(Fault("compute:networks", "create", kind))

    async def work() -> None:
        creating = session.create(engine.resource(NETWORK), good(NETWORK), time_limit=None, preview=False)
        task = asyncio.create_task(creating)
        await asyncio.sleep(0.2)
        assert [one.json(whole=False)["reached"] for one in cloud.faults.all()] == [True]
        assert not task.done()
        assert (cloud.store.find(NET) is None) is (kind is FaultKind.PAUSE)
        cloud.faults.remove(fault.number)
        assert (await task).outputs["name"] == "net"

    engine.runner.run(work())


def test_a_hang_ends_with_the_engine(engine: Engine, session: GcpSession, cloud: Cloud) -> None:
    cloud.faults.add(Fault("compute:networks", "create", FaultKind.HANG))

    async def work() -> None:
        creating = session.create(engine.resource(NETWORK), good(NETWORK), time_limit=None, preview=False)
        task = asyncio.create_task(creating)
        await asyncio.sleep(0.2)
        assert not task.done()
        session.cancelled.set()
        with pytest.raises(ProviderError, match="timed out"):
            await task

    engine.runner.run(work())


@pytest.mark.parametrize("token", [CLUSTER, POOL])
def test_a_create_of_gke_that_is_cut_short_is_kept_and_gone_on_with(
    tmp_path: Path, layout: Layout, storage: StorageServer, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """Source: resource_container_cluster.go and resource_container_node_pool.go of the official provider."""
    with asyncio.Runner() as runner, closing(Cloud.open(tmp_path / "quick.sqlite3", PROJECT, layout)) as cloud:
        engine = Engine(session_over(cloud, layout, storage), runner)
        for need in INPUTS[token]["needs"]:
            engine.furnish(need)
    monkeypatch.setenv(LATENCY_VARIABLE, "1")
    with asyncio.Runner() as runner, closing(Cloud.open(tmp_path / "quick.sqlite3", PROJECT, layout)) as cloud:
        session = session_over(cloud, layout, storage)
        engine = Engine(session, runner)

        async def work() -> ResourceState:
            creating = session.create(engine.resource(token), good(token), time_limit=None, preview=False)
            task = asyncio.create_task(creating)
            await asyncio.sleep(0.3)
            session.cancelled.set()
            made = await task
            return ResourceState(made.resource_id, good(token), plain(made.outputs))

        state = runner.run(work())
        assert state.outputs["operation"].startswith("operation-")
        engine = Engine(session_over(cloud, layout, storage), runner)
        found = engine.read(token, state)
        assert found is not None
        assert (found.outputs["operation"], found.outputs["name"]) == ("", good(token)["name"])
        assert not engine.diff(
            token, ResourceState(found.resource_id, state.inputs, plain(found.outputs)), state.inputs
        ).changes
        engine.delete(token, state)
        assert engine.read(token, ResourceState(state.resource_id, state.inputs, plain(found.outputs))) is None


def test_functions(engine: Engine, session: GcpSession) -> None:
    engine.create(BUCKET, {"name": "data-bucket", "location": "us-central1"})
    engine.create(OBJECT, {"bucket": "data-bucket", "name": "a/b", "content": "x"})
    token = "gcp:storage/getBucketObjects:getBucketObjects"  # noqa: S105 - a function's token
    found = engine.runner.run(session.invoke(token, {"bucket": "data-bucket", "prefix": "a/"}, preview=False))
    assert [item["name"] for item in found.outputs["bucketObjects"]] == ["a/b"]


def test_a_binding_right_after_its_account_waits_until_iam_knows_the_account(
    tmp_path: Path, layout: Layout, storage: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IAM_DELAY_VARIABLE, "0.5")
    monkeypatch.setattr(client, "_RETRY_SECONDS", 20.0)
    with asyncio.Runner() as runner, closing(Cloud.open(tmp_path / "slow.sqlite3", PROJECT, layout)) as cloud:
        engine = Engine(session_over(cloud, layout, storage), runner)
        began = time.monotonic()
        engine.furnish(PROJECT_MEMBER)
        assert time.monotonic() - began >= 0.4
        [binding] = cloud.policies.bindings(f"projects/{PROJECT}")
        assert binding.members == (f"serviceAccount:{EMAIL}",)


def test_pools_made_at_once_wait_for_each_other(
    tmp_path: Path, layout: Layout, storage: StorageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LATENCY_VARIABLE, "0.2")
    monkeypatch.setattr(client, "_RETRY_SECONDS", 20.0)
    with asyncio.Runner() as runner, closing(Cloud.open(tmp_path / "slow.sqlite3", PROJECT, layout)) as cloud:
        session = session_over(cloud, layout, storage)
        engine = Engine(session, runner)
        engine.furnish(CLUSTER)

        async def work() -> None:
            wanted = [good(POOL, {"name": f"pool-{number}"}) for number in range(4)]
            creates = (session.create(engine.resource(POOL), one, time_limit=60, preview=False) for one in wanted)
            await asyncio.gather(*creates)

        runner.run(work())
        assert [pool.short_name for pool in cloud.store.all_of("nodePool")] == [f"pool-{n}" for n in range(4)]


def test_the_clusters_client_key_is_secret_and_its_address_is_not(engine: Engine, session: GcpSession) -> None:
    engine.furnish(SUBNETWORK)

    async def work() -> Properties:
        made = await session.create(engine.resource(CLUSTER), good(CLUSTER), time_limit=60, preview=False)
        return made.outputs

    outputs = engine.runner.run(work())
    secret = [name for name, value in outputs["masterAuth"].items() if isinstance(value, Secret)]
    assert secret == ["clientKey"]
    assert not isinstance(outputs["endpoint"], Secret)
