"""The kubelet's pure rules: text in, text out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encamp.cloud import quantity
from encamp.errors import PlanError
from encamp_sandbox.kubelet import accelerators, autoscaler, fit, pools
from encamp_sandbox.kubelet.addresses import AddressBook
from encamp_sandbox.kubelet.environment import ConfigError, container_environment, field
from encamp_sandbox.kubelet.expansion import expand, expand_all
from encamp_sandbox.kubelet.plain import rewrite_hosts, rewrite_paths
from encamp_sandbox.kubelet.requirements import requirements
from encamp_sandbox.kubelet.status import ContainerState, conditions, phase

if TYPE_CHECKING:
    from pathlib import Path

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLUSTER = {"name": "encamp", "location": "us-central1"}
PARENT = "projects/p/locations/us-central1/clusters/encamp"


# From k8s.io/kubernetes/third_party/forked/golang/expansion/expand_test.go.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)-$(VAR_B)", "A-B"),
        ("f000-$$VAR_A", "f000-$VAR_A"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$(VAR_DNE)", "$(VAR_DNE)"),
        ("$VAR_A", "$VAR_A"),
        ("$(VAR_A", "$(VAR_A"),
        ("$(VAR_A)$(", "A$("),
        ("$", "$"),
        ("$$", "$"),
        ("foo$", "foo$"),
        ("$(EMPTY)", ""),
        ("$()", "$()"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("$?", "$?"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    variables = {"VAR_A": "A", "VAR_B": "B", "EMPTY": "", "VAR_REF": "$(VAR_A)"}
    assert expand(text, variables) == expected


@given(st.text())
def test_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert expand(text.replace("$", "$$"), {"x": "y"}) == text
    assert expand_all([text.replace("$", "")], {}) == [text.replace("$", "")]


@pytest.mark.parametrize(
    ("text", "divisor", "expected"),
    [
        ("1500m", "1", 2),
        ("1500m", "1m", 1500),
        ("2", None, 2),
        ("16Gi", "1Mi", 16384),
        ("1e3", None, 1000),
        ("1.5G", "1M", 1500),
        (".5", None, 1),
        ("3", "0", 3),
    ],
)
def test_quantities_are_counted_in_units_rounded_up(text: str, divisor: str | None, expected: int) -> None:
    assert quantity.in_units(text, divisor) == expected


@pytest.mark.parametrize("text", ["", "Gi", "1 G", "1Q", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity.parse(text)


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"b": "2", "a": 'say "1"'}, "annotations": {}},
    "spec": {"containers": [{"name": "c"}], "nodeName": "node"},
    "status": {"podIP": "10.8.0.2", "hostIP": "127.0.0.1"},
}


def resolve(container: dict[str, Any], objects: dict[str, Any] | None = None) -> dict[str, str]:
    async def lookup(kind: str, name: str) -> dict[str, Any] | None:
        return (objects or {}).get(f"{kind}/{name}")

    return asyncio.run(container_environment(POD, {"name": "c", **container}, {"cpu": "1930m"}, lookup))


def test_later_variables_see_earlier_ones_and_none_else() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]
    assert resolve({"env": env}) == {"A": "1", "B": "1$(C)", "C": "3"}


def test_a_limit_that_is_not_set_is_the_nodes() -> None:
    reference = {"resourceFieldRef": {"resource": "limits.cpu"}}
    assert resolve({"env": [{"name": "CPUS", "valueFrom": reference}]}) == {"CPUS": "2"}


def test_what_is_missing_is_named() -> None:
    missing = {"configMapKeyRef": {"name": "m", "key": "k"}}
    with pytest.raises(ConfigError, match='configmap "m" not found'):
        resolve({"env": [{"name": "X", "valueFrom": missing}]})
    with pytest.raises(ConfigError, match="couldn't find key k in configmap m"):
        resolve({"env": [{"name": "X", "valueFrom": missing}]}, {"configmaps/m": {"kind": "ConfigMap"}})
    assert resolve({"envFrom": [{"secretRef": {"name": "s", "optional": True}}]}) == {}


def test_fields_of_the_downward_api() -> None:
    assert field(POD, "metadata.labels") == 'a="say \\"1\\""\nb="2"'
    assert field(POD, "metadata.annotations['none']") == ""
    with pytest.raises(ConfigError, match="unsupported fieldPath"):
        field(POD, "status.phase")


def state(code: int | None = None, *, waiting: bool = False, init: bool = False) -> ContainerState:
    made = ContainerState("c", "image", init=init)
    if code is not None:
        made.end(code, "Error", MOMENT, MOMENT)
    elif not waiting:
        made.run(MOMENT, "id")
    return made


@pytest.mark.parametrize(
    ("policy", "states", "terminal", "expected"),
    [
        ("Never", [state(waiting=True)], False, "Pending"),
        ("Never", [state()], False, "Running"),
        ("Never", [state(0), state()], False, "Running"),
        ("Never", [state(0)], False, "Succeeded"),
        ("Never", [state(0), state(1)], False, "Failed"),
        ("OnFailure", [state(1)], False, "Running"),
        ("OnFailure", [state(0)], False, "Succeeded"),
        ("Always", [state(0)], False, "Running"),
        ("Always", [state(0)], True, "Succeeded"),
        ("Always", [state(2)], True, "Failed"),
        ("Never", [state(waiting=True)], True, "Failed"),
    ],
)
def test_the_phase_of_a_pod(policy: str, states: list[ContainerState], terminal: bool, expected: str) -> None:
    assert phase(policy, [], states, terminal=terminal) == expected


def test_init_containers_hold_a_pod_back() -> None:
    assert phase("Never", [state(init=True)], [state(waiting=True)], terminal=False) == "Pending"
    assert phase("Never", [state(1, init=True)], [state(waiting=True)], terminal=False) == "Failed"
    assert phase("OnFailure", [state(1, init=True)], [state(waiting=True)], terminal=False) == "Pending"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    later = datetime(2026, 1, 2, 4, 0, 0, tzinfo=UTC)
    first = conditions("Running", [], [state()], sandbox=True, before=[], now=MOMENT)
    again = conditions("Running", [], [state()], sandbox=True, before=first, now=later)
    assert again == first
    ended = conditions("Succeeded", [], [state(0)], sandbox=False, before=again, now=later)
    times = {one["type"]: one["lastTransitionTime"] for one in ended}
    assert times["Ready"] == "2026-01-02T04:00:00Z"
    assert times["Initialized"] == "2026-01-02T03:04:05Z"


def pool(name: str = "p", maximum: int = 2, **config: Any) -> pools.Pool:
    scaling = {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": maximum}
    described = {"name": name, "config": {"machineType": "e2-standard-4", **config}, "autoscaling": scaling}
    return pools.read(CLUSTER, described, PARENT)


def waiting(uid: str, cpu: str = "3", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"uid": uid, "name": uid}, "spec": {"containers": [container], **spec}}


def test_a_tpu_slice_comes_whole() -> None:
    described = {
        "name": "tpu",
        "config": {"machineType": "ct5lp-hightpu-4t"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
        "autoscaling": {"enabled": True, "maxNodeCount": 4},
    }
    found = pools.read(CLUSTER, described, PARENT)
    assert found.allocatable["google.com/tpu"] == "4"
    assert found.labels["cloud.google.com/gke-tpu-accelerator"] == "tpu-v5-lite-podslice"
    assert found.labels["cloud.google.com/gke-tpu-topology"] == "4x4"
    pod = waiting("a", "1", tolerations=[{"operator": "Exists"}])
    assert autoscaler.plan([pod], [found], {}, []).add[found.full_name] == 4


def test_an_unknown_machine_is_an_error_of_its_pool() -> None:
    with pytest.raises(PlanError):
        pool(machineType="abacus-1")


def test_pods_share_nodes_and_no_more_come_than_the_maximum() -> None:
    small, full = pool(maximum=2), f"{PARENT}/nodePools/p"
    four = [waiting(str(index), "1") for index in range(4)]
    done = autoscaler.plan(four, [small], {}, [])
    assert done.add == {full: 2}
    five = [waiting(str(index)) for index in range(5)]
    done = autoscaler.plan(five, [small], {full: 1}, [])
    assert done.add == {full: 1}
    assert set(done.unschedulable.values()) == {"pod didn't trigger scale-up: 1 max node group size reached"}
    fresh = [(small, fit.free(small.allocatable))]
    assert autoscaler.plan(five[:1], [small], {full: 1}, fresh).add == {}


def test_the_smallest_pool_that_fits_grows() -> None:
    big, small = pool("big", machineType="e2-standard-16"), pool("small")
    done = autoscaler.plan([waiting("a")], [big, small], {}, [])
    assert done.add == {small.full_name: 1}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"x": "y"}}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, "node(s) had untolerated taint {encamp-job: j}"),
        ({"tolerations": [{"key": "encamp-job", "value": "other"}]}, "node(s) had untolerated taint {encamp-job: j}"),
        ({"tolerations": [{"key": "encamp-job", "operator": "Exists"}]}, None),
        ({"tolerations": [{"key": "encamp-job", "value": "j", "effect": "NoSchedule"}]}, None),
    ],
)
def test_why_a_pod_does_not_fit(spec: dict[str, Any], reason: str | None) -> None:
    marked = pool(taints=[{"key": "encamp-job", "value": "j", "effect": "NO_SCHEDULE"}])
    left = fit.free(marked.allocatable)
    assert fit.obstacle(waiting("a", "1", **spec), marked.labels, marked.taints, left) == reason
    greedy = waiting("b", "64", tolerations=[{"operator": "Exists"}])
    assert fit.obstacle(greedy, marked.labels, marked.taints, left) == "Insufficient cpu"


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["1", "2"], True),
        ("NotIn", ["2"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["1"], True),
        ("Lt", ["1"], False),
    ],
)
def test_node_affinity(operator: str, values: list[str], fits: bool) -> None:
    term = {"matchExpressions": [{"key": "size", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod = waiting("a", "1", affinity={"nodeAffinity": required})
    found = fit.obstacle(pod, {"size": "2"}, [], {"cpu": quantity.parse("4"), "pods": quantity.parse("9")})
    assert (found is None) == fits


def test_names_of_nodes_are_labels_too() -> None:
    long = pools.read({**CLUSTER, "name": "c" * 40}, {"name": "p" * 40}, PARENT)
    name = long.node(0, "127.0.0.1", 1)["metadata"]["name"]
    assert len(name) <= 63
    assert name.startswith("gke-ccc")


def test_an_address_stays_with_its_host_name() -> None:
    book = AddressBook("10.0.0.0/29")
    first = book.take("a")
    book.give_back(first)
    assert book.take("b") != first
    assert book.take("a") == first
    assert book.take("a") != first, "the old pod is still there"
    assert {book.take("c"), book.take("d")} & {first, book.gateway} == set()
    with pytest.raises(RuntimeError, match="no address is left"):
        book.take("e")


def test_without_namespaces_names_and_paths_are_rewritten() -> None:
    ports = {"n/j-worker-0-0.j": 4000, "n/j-worker-0-1.j": 4001}
    text = '{"cluster":{"worker":["j-worker-0-0.j:2222","j-worker-0-1.j.n.svc.cluster.local:2222"]},"x":"other:2222"}'
    rewritten = rewrite_hosts(text, "n/j-worker-0-0.j", ports.__getitem__)
    assert rewritten == '{"cluster":{"worker":["127.0.0.1:4000","127.0.0.1:4001"]},"x":"other:2222"}'
    paths = {"/encamp": "/d/v", "/encamp/deep": "/d/w"}
    assert rewrite_paths("/encamp/bootstrap.py", paths) == "/d/v/bootstrap.py"
    assert rewrite_paths("--a=/encamp/deep/x:/encamp", paths) == "--a=/d/w/x:/d/v"
    assert rewrite_paths("gs://b/encamp /encamped /x/encamp", paths) == "gs://b/encamp /encamped /x/encamp"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ('{"requirements": ["scikit-learn", 7]}', ["scikit-learn"]),
        ('{"requirements": "scikit-learn"}', []),
        ('["requirements"]', []),
        ("no JSON", []),
    ],
)
def test_requirements_are_those_of_the_set_up(tmp_path: Path, settings: str, found: list[str]) -> None:
    (tmp_path / "bootstrap.json").write_text(settings)
    mount = {"source": str(tmp_path), "target": "/encamp", "read_only": True}
    assert requirements([{"source": "/nowhere", "target": "/x", "read_only": True}, mount]) == found
    assert requirements([{**mount, "read_only": False}]) == [], "the trainer writes there"


def test_accelerators_are_counted() -> None:
    container = {"resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}}
    assert accelerators.environment(container) == {"ENCAMP_SIMULATED_ACCELERATORS": '{"nvidia.com/gpu": 2}'}
    assert "simulated" in accelerators.notes(container)[0].text
    assert accelerators.notes({}) == []


@pytest.mark.parametrize(
    ("change", "devices"),
    [
        ({}, {"mrdma.google.com": 8}),
        ({"labels": {}}, {}),
        ({"profile": None}, {}),
        ({"datapath": "LEGACY_DATAPATH"}, {}),
        ({"machine": "a3-megagpu-8g"}, {}),
    ],
)
def test_interfaces_with_rdma_come_by_label_profile_and_dataplane(
    change: dict[str, Any], devices: dict[str, int]
) -> None:
    driver = {"cloud.google.com/gke-networking-dra-driver": "true"}
    described = {
        "name": "p",
        "config": {"machineType": change.get("machine", "a3-ultragpu-8g"), "labels": change.get("labels", driver)},
        "networkConfig": {"acceleratorNetworkProfile": change.get("profile", "auto")},
        "autoscaling": {"enabled": True, "totalMaxNodeCount": 2},
    }
    cluster = CLUSTER | {"networkConfig": {"datapathProvider": change.get("datapath", "ADVANCED_DATAPATH")}}
    found = pools.read(cluster, described, PARENT)
    assert found.devices == devices
    pod = waiting("a", "1", tolerations=[{"operator": "Exists"}])
    done = autoscaler.plan([pod], [found], {}, [], {"a": {"mrdma.google.com": 8}})
    assert done.add == ({found.full_name: 1} if devices else {})


def test_two_pods_that_claim_everything_need_two_nodes() -> None:
    described = {
        "name": "p",
        "config": {
            "machineType": "a4x-highgpu-4g",
            "labels": {"cloud.google.com/gke-networking-dra-driver": "true"},
        },
        "networkConfig": {"acceleratorNetworkProfile": "auto"},
        "autoscaling": {"enabled": True, "totalMaxNodeCount": 4},
    }
    found = pools.read(CLUSTER, described, PARENT)
    assert found.labels["kubernetes.io/arch"] == "arm64"
    assert {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"} in found.taints
    pods = [waiting(str(index), "1", tolerations=[{"operator": "Exists"}]) for index in range(2)]
    claimed = {str(index): {"mrdma.google.com": 4} for index in range(2)}
    assert autoscaler.plan(pods, [found], {}, [], claimed).add == {found.full_name: 2}
    assert autoscaler.plan(pods, [found], {}, []).add == {found.full_name: 1}
