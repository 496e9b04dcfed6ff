"""The committed environment `production`, whole: it comes up, runs a job in its team's queue, and goes down.

The sandbox stands for its project, so nothing of the file is changed but what cannot be had here: the key at Google
that encrypts the stack's secrets. A passphrase stands for it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from encamp.cloud.endpoints import Service
from encamp.cloud.rest import GoogleClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

PROJECT, STACK = "acme-ml", "production"
STACK_FILE = f"stacks/Pulumi.{STACK}.yaml"
_KEY_AT_GOOGLE = re.compile(r"^secretsprovider: gcpkms:.*\n", re.MULTILINE)
#: What of the file each of its blocks is to have made, by the engine's types.
MADE = {
    "driver": "kubernetes:core/v1:ServiceAccount driver",
    "reaper": "kubernetes:batch/v1:CronJob reaper",
    "queues": "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue",
    "access": "gcp:projects/iAMCustomRole:IAMCustomRole",
    "audit": "gcp:logging/projectSink:ProjectSink audit",
    "job logs": "gcp:logging/projectExclusion:ProjectExclusion",
    "monitoring": "gcp:monitoring/alertPolicy:AlertPolicy",
    "budget": "gcp:billing/budget:Budget",
    "encryption": "gcp:kms/cryptoKey:CryptoKey",
    "Docker Hub": "gcp:artifactregistry/repository:Repository production-docker-hub",
}
#: Google deletes neither, and others may use a service that is on.
STAYS = {"keyRing", "cryptoKey", "service", "serviceIdentity"}
CLUSTERS_OWN = {"default", "kube-node-lease", "kube-public", "kube-system"}


@pytest.fixture(scope="module")
def production(camps: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    """A sandbox that stands for the project, and a copy of the checkout; nothing is up yet."""
    checkout = camps.copied_checkout(tmp_path_factory.mktemp("checkout"))
    file = checkout / STACK_FILE
    text, replaced = _KEY_AT_GOOGLE.subn("", file.read_text())
    assert replaced == 1
    file.write_text(text)
    root = tmp_path_factory.mktemp("production") / "sb"
    outputs = tmp_path_factory.mktemp("said")
    with camps.opened_camp(root, outputs, checkout=checkout, up=False, project=PROJECT) as camp:
        camp.environment["ENCAMP_STATE_DIR"] = str(root / "state")
        yield camp


@pytest.fixture
def camp(production: Camp, monkeypatch: pytest.MonkeyPatch) -> Camp:
    production.enter(monkeypatch)
    return production


def resources(camp: Camp) -> list[str]:
    """Type and name of everything in the environment's stack."""
    found = json.loads(camp.pulumi("stack", "export", "--stack", STACK))["deployment"].get("resources") or []
    return [f"{one['type']} {one['urn'].rpartition('::')[2]}" for one in found]


def in_the_cloud(camp: Camp) -> dict[str, str]:
    """Name and kind of everything that the project has."""
    front = f"http://127.0.0.1:{camp.layout.ports.front}/encamp/v1/resources"
    answer = httpx.get(front, headers={"authorization": f"Bearer {camp.layout.token}"}, trust_env=False)
    return {one["name"]: one["kind"] for one in answer.raise_for_status().json()["resources"]}


def empty(bucket: str) -> None:
    """Delete every version of everything in a bucket."""
    client, path = GoogleClient(), f"/storage/v1/b/{bucket}/o"
    for one in list(client.pages(Service.STORAGE, path, "items", {"versions": "true"})):
        params = {"generation": one["generation"]}
        client.request(Service.STORAGE, "DELETE", f"{path}/{quote(one['name'], safe='')}", params=params)


def test_it_comes_up_as_it_is_committed(camp: Camp) -> None:
    said = camp.encamp("environment", "up", STACK)
    assert said.endswith(f"environment {STACK} is up: cluster encamp, results in gs://acme-ml-artifacts\n")
    made = resources(camp)
    assert {block for block, start in MADE.items() if not any(one.startswith(start) for one in made)} == set()
    for namespace, deployment in (
        ("jobset-system", "jobset-controller"),
        ("kueue-system", "kueue-controller-manager"),
    ):
        ready = "jsonpath={.status.readyReplicas}"
        assert camp.tool("kubectl", "get", "deployment", deployment, "-n", namespace, "-o", ready) == "1"
    server = camp.tool("kubectl", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    assert json.loads(camp.pulumi("stack", "output", "kubeconfig", "--stack", STACK, "--json")) != server


def test_nothing_changes_by_itself(camp: Camp) -> None:
    camp.pulumi("preview", "--stack", STACK, "--expect-no-changes")


def test_a_job_trains_in_its_teams_queue(camp: Camp) -> None:
    before = in_the_cloud(camp)
    said = camp.encamp("run", "examples/digits/job.yaml", "--job-id", "first", "--environment", STACK)
    receipt = json.loads(_read("acme-ml-artifacts", "jobs/first/receipt.json"))
    assert receipt["outcome"]["state"] == "SUCCEEDED", said
    assert "us-central1-docker.pkg.dev/acme-ml/encamp-docker-hub/tensorflow/tensorflow:2.11.0" in said
    assert in_the_cloud(camp).keys() - before.keys() == set()
    assert camp.tool("kubectl", "get", "jobsets,workloads,pods", "-n", "encamp-jobs", "-o", "name") == ""


def test_it_goes_down_when_somebody_means_it(camp: Camp) -> None:
    """In the order of docs/environments.md: each step is refused until the one before it is done."""
    file: Path = camp.checkout / STACK_FILE
    assert "is protected" in camp.encamp("environment", "down", STACK, "--yes", code=2)
    file.write_text(file.read_text().replace("    name: production\n", "    name: production\n    protect: false\n"))
    camp.encamp("environment", "up", STACK)
    assert "hold something: acme-ml-artifacts" in camp.encamp("environment", "down", STACK, "--yes", code=2)
    assert len(resources(camp)) > len(MADE)
    empty("acme-ml-artifacts")
    camp.encamp("environment", "down", STACK, "--yes")
    assert resources(camp) == []
    assert {name: kind for name, kind in in_the_cloud(camp).items() if kind not in STAYS} == {}
    namespaces = camp.tool("kubectl", "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert set(namespaces) == CLUSTERS_OWN


def _read(bucket: str, name: str) -> str:
    answer = GoogleClient().request(
        Service.STORAGE, "GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", params={"alt": "media"}
    )
    return answer.text
