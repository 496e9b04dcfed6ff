"""What is looked at while a job lives: its own objects, the machines of its pools and what stands on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.acceptance.evidence import OUTPUTS, Evidence

from encamp.acceptance.sightings import Sightings
from encamp.acceptance.watcher import EVENTS, LEASES, NODES, PODS, POOLS, SYSTEM_PODS, WORKLOADS, JobWatcher
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN = Evidence("cpu").plan
POOL = PLAN.node_pools[0].name


def named(name: str, uid: str = "", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or name, "namespace": fields.pop("namespace", "n")}, **fields}


class Cluster:
    """Lists what it was given, by kind, namespace and selectors."""

    def __init__(self, items: Mapping[tuple[str, str], list[dict[str, Any]]]) -> None:
        self.items = items
        self.asked: list[tuple[str, str, str, str]] = []
        self.refuses = ""

    def list(self, kind: str, namespace: str, selector: str = "", fields: str = "") -> list[dict[str, Any]]:
        self.asked.append((kind, namespace, selector, fields))
        if kind == self.refuses:
            raise EngineError("the API server refused: 403")
        return self.items.get((kind, namespace), [])


class Container:
    def node_pools(self, path: str) -> list[dict[str, Any]]:
        assert path == OUTPUTS.cluster_path
        return [{"name": POOL}, {"name": "of-somebody-else"}]


@pytest.fixture
def cluster() -> Cluster:
    own, other = {"uid": "pod", "name": "p"}, {"uid": "other", "name": "q"}
    jobs = PLAN.namespace
    return Cluster(
        {
            ("nodes", ""): [named("node-1")],
            ("pods", jobs): [named("p", "pod")],
            ("pods", ""): [named("p", "pod", namespace=jobs), named("fluentbit", namespace="kube-system")],
            ("jobsets", jobs): [named(PLAN.name, "set")],
            ("workloads", jobs): [
                {"metadata": {"name": "w", "ownerReferences": [{"uid": "set"}]}},
                {"metadata": {"name": "x", "ownerReferences": [{"uid": "another"}]}},
            ],
            ("events", jobs): [named("e", involvedObject=own), named("f", involvedObject=other)],
            ("events", "default"): [named("g", involvedObject={"name": "node-1"})],
            ("leases", "kube-node-lease"): [named("node-1"), named("node-2")],
        }
    )


def watcher(cluster: Any, sightings: Sightings, clock: list[float]) -> JobWatcher:
    container: Any = Container()
    return JobWatcher(
        PLAN, cluster, container, OUTPUTS.cluster_path, sightings=sightings, seconds=5.0, clock=lambda: clock[0]
    )


def names(sightings: Sightings, kind: str) -> list[str]:
    return [item.get("name") or item["metadata"]["name"] for item in sightings.latest(kind)]


def test_only_what_is_of_the_job_is_kept(cluster: Cluster) -> None:
    seen = Sightings()
    watcher(cluster, seen, [100.0]).look()
    kinds = (POOLS, NODES, PODS, SYSTEM_PODS, WORKLOADS, EVENTS, LEASES)
    assert [names(seen, kind) for kind in kinds] == [[POOL], ["node-1"], ["p"], ["fluentbit"], ["w"], ["e"], ["node-1"]]
    assert ("nodes", "", f"cloud.google.com/gke-nodepool in ({POOL})", "") in cluster.asked
    assert ("pods", PLAN.namespace, f"encamp-job={PLAN.name}", "") in cluster.asked
    assert ("pods", "", "", "spec.nodeName=node-1") in cluster.asked


def test_it_looks_no_oftener_than_it_may_and_once_more_at_the_end(cluster: Cluster) -> None:
    clock, seen = [100.0], Sightings()
    watch = watcher(cluster, seen, clock)
    looks = []
    for now in (100.0, 101.0, 104.9, 105.0):
        clock[0] = now
        before = len(cluster.asked)
        watch.look()
        looks.append(len(cluster.asked) > before)
    assert looks == [True, False, False, True]
    cluster.items = {}
    clock[0] = 105.1
    watch.end()
    assert seen.gone(NODES) == {"node-1": 105.1}


def test_what_is_refused_is_noted_and_the_rest_is_looked_at(cluster: Cluster) -> None:
    cluster.refuses = "leases"
    seen = Sightings()
    watch = watcher(cluster, seen, [100.0])
    watch.look()
    assert watch.refused == {LEASES: "the API server refused: 403"}
    assert names(seen, NODES) == ["node-1"]
