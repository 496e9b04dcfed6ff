"""The committed environment `production`, whole: planned, brought up, looked at by its reaper, used, and taken down.

The sandbox stands for the project of the file. What must be there before (docs/production.md, step 1) is made as the
docs say: the bucket of states, and the record, which is a PostgreSQL server. Charts, driver, reaper and webhooks are
real objects, and JobSet, Kueue and the reaper run as the pods that these objects ask for.

What differs from Google, and why:

- `secretsprovider` is taken out of a copy of the file, and a passphrase encrypts the stack: the engine asks Cloud KMS
  by gRPC, which the sandbox does not speak. All else in the file is as committed, until `protect: false` is added to
  take the environment down, as the docs say.
- Pods run the sandbox's own builds of JobSet and Kueue and this checkout of encamp: there are no images here.
- The reaper finds no job that it would have to end, since a pod has no provider plugins here (kubelet/own_image.py).
- The job is driven by a process outside the cluster, for the same reason.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from encamp.cloud.endpoints import Service
from encamp.cloud.rest import GoogleClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

PROJECT, STACK = "acme-ml", "production"
STACK_FILE = f"stacks/Pulumi.{STACK}.yaml"
STATES = "acme-pulumi-state"
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
#: Google deletes neither key rings nor keys, and others may use a service that is on.
STAYS = {"keyRing", "cryptoKey", "service", "serviceIdentity"}
CLUSTERS_OWN = {"default", "gmp-system", "kube-node-lease", "kube-public", "kube-system"}


@pytest.fixture(scope="module")
def record(load_module: Callable[[str, str], Any]) -> Iterator[str]:
    """URL of the team's record; the server's socket lies where pods see it."""
    with load_module("encamp_tests_postgres", "run/postgres.py").postgres(Path(sys.prefix)) as url:
        yield url


@pytest.fixture(scope="module")
def production(camps: Any, record: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    """A sandbox that stands for the project, and a copy of the checkout; nothing of the environment is there yet."""
    checkout = camps.copied_checkout(tmp_path_factory.mktemp("checkout"))
    file = checkout / STACK_FILE
    text, replaced = _KEY_AT_GOOGLE.subn("", file.read_text())
    assert replaced == 1
    file.write_text(text)
    root = tmp_path_factory.mktemp("production") / "sb"
    outputs = tmp_path_factory.mktemp("said")
    with camps.opened_camp(root, outputs, checkout=checkout, up=False, project=PROJECT) as camp:
        camp.environment |= {
            "ENCAMP_STATE_DIR": str(root / "state"),
            "ENCAMP_RECORD_URL": record,
            "PULUMI_BACKEND_URL": f"gs://{STATES}",
            # By it the engine's own client reaches the sandbox's buckets.
            "https_proxy": f"http://127.0.0.1:{camp.layout.ports.proxy}",
            "no_proxy": "localhost,127.0.0.1",
        }
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
    """Name and kind of everything that the project has; deleted roles keep their ids for weeks."""
    front = f"http://127.0.0.1:{camp.layout.ports.front}/encamp/v1/resources"
    answer = httpx.get(front, headers={"authorization": f"Bearer {camp.layout.token}"}, trust_env=False)
    found = answer.raise_for_status().json()["resources"]
    return {one["name"]: one["kind"] for one in found if not one["body"].get("deleted")}


def empty(bucket: str) -> None:
    """Delete every version of everything in a bucket."""
    client, path = GoogleClient(), f"/storage/v1/b/{bucket}/o"
    for one in list(client.pages(Service.STORAGE, path, "items", {"versions": "true"})):
        params = {"generation": one["generation"]}
        client.request(Service.STORAGE, "DELETE", f"{path}/{quote(one['name'], safe='')}", params=params)


def test_it_is_planned_before_anything_is_there(camp: Camp) -> None:
    bucket = {
        "name": STATES,
        "location": "US-CENTRAL1",
        "versioning": {"enabled": True},
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}, "publicAccessPrevention": "enforced"},
    }
    GoogleClient().request(Service.STORAGE, "POST", "/storage/v1/b", params={"project": PROJECT}, json=bucket)
    before = in_the_cloud(camp)
    camp.pulumi("stack", "init", STACK)
    steps = json.loads(camp.pulumi("preview", "--stack", STACK, "--json"))["changeSummary"]
    assert steps.keys() == {"create"}
    assert steps["create"] > len(MADE)
    assert in_the_cloud(camp) == before


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
    camp.pulumi("preview", "--stack", STACK, "--refresh", "--expect-no-changes")


def test_its_reaper_waits_for_its_secret_and_then_looks_at_everything(camp: Camp, record: str) -> None:
    """With its own account and role at Google, its token in the cluster, the team's record and the bucket of states.

    Its role holds for objects of every bucket of the project, that of states among them.
    """
    jsonpath = "jsonpath={.items[0].metadata.namespace} {.items[0].metadata.name}"
    namespace, cron = camp.tool("kubectl", "get", "cronjobs", "--all-namespaces", "-o", jsonpath).split()
    camp.tool("kubectl", "create", "job", "once", f"--from=cronjob/{cron}", "-n", namespace)
    waiting = "jsonpath={.items[*].status.containerStatuses[*].state.waiting.message}"
    pods = ("kubectl", "get", "pods", "-n", namespace, "-l", "job-name=once", "-o")
    camp.until(lambda: 'secret "encamp-record" not found' in camp.tool(*pods, waiting))
    given = {"ENCAMP_RECORD_URL": record, "PULUMI_CONFIG_PASSPHRASE": ""}
    literals = [f"--from-literal={name}={value}" for name, value in given.items()]
    camp.tool("kubectl", "create", "secret", "generic", "encamp-record", "-n", namespace, *literals)
    ended = "jsonpath={.items[*].status.phase}"
    camp.until(lambda: camp.tool(*pods, ended) in {"Succeeded", "Failed"})
    said = camp.tool("kubectl", "logs", "job/once", "-n", namespace)
    assert (camp.tool(*pods, ended), said) == ("Succeeded", "no job needs an end\n")
    camp.tool("kubectl", "delete", "job", "once", "-n", namespace)
    camp.tool("kubectl", "delete", "secret", "encamp-record", "-n", namespace)


def test_a_state_among_the_objects_that_nobody_can_read_is_set_aside(camp: Camp) -> None:
    """The engine itself lists no stack while one of them is damaged."""
    storage = camp.storage()
    storage.upload(STATES, ".pulumi/stacks/encamp/job-nobodys.json", b"garbage {")
    camp.pulumi("stack", "ls", code=1)
    said = camp.encamp("reap", "-s", STACK)
    assert "stack job-nobodys: its unreadable state is set aside" in said
    (aside,) = [one.name for one in storage.objects(STATES, ".pulumi/unreadable/")]
    assert f"gs://{STATES}/{aside}" in said
    assert storage.read(STATES, aside) == b"garbage {"
    assert "job-nobodys" not in camp.pulumi("stack", "ls")
    assert camp.encamp("reap", "-s", STACK, "--quiet") == ""
    storage.delete(STATES, aside)


def test_a_job_trains_in_its_teams_queue(camp: Camp) -> None:
    before = in_the_cloud(camp)
    said = camp.encamp("run", "-v", "examples/digits/job.yaml", "--job-id", "first", "--environment", STACK)
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
    left = {name: kind for name, kind in in_the_cloud(camp).items() if kind not in STAYS}
    assert [kind for name, kind in left.items() if name.rpartition("/")[2] != STATES] == [], left
    namespaces = camp.tool("kubectl", "get", "namespaces", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert set(namespaces) == CLUSTERS_OWN


def _read(bucket: str, name: str) -> str:
    answer = GoogleClient().request(
        Service.STORAGE, "GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}", params={"alt": "media"}
    )
    return answer.text
