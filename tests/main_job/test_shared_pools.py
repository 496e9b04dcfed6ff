"""Jobs of a queue that do not fit together, on machines of their environment, with the real Kueue.

The environment has queues and is in a sandbox of its own. One kind of machine lives for seconds, and one job's deadline
is seconds away, by a transformation of the program, as any program may have one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from encamp.cloud.leftovers import JobPlace, resources
from encamp.cloud.resources import Container, ServiceAccounts
from encamp.cloud.rest import GoogleClient
from encamp.plan.names import short_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

PROJECT, BUCKET = "sandbox-encamp", "sandbox-encamp-artifacts"
CLUSTER = f"projects/{PROJECT}/locations/us-central1/clusters/encamp"
#: Room for one replica on each kind of machine.
QUEUES = {
    "default": "research",
    "teams": {"research": {"quotas": [{"cpu": 4}, {"cpu": 8, "provisioning": "SPOT"}]}},
    "pools": [{"machineType": "n1-standard-4"}, {"machineType": "n1-standard-8", "provisioning": "SPOT"}],
}
POOLS = ["sandbox-n1-standard-4", "sandbox-n1-standard-8-spot"]
#: How long a node stays without a pod, how long a spot machine lives, and when the cluster ends the job "alone".
IDLE_SECONDS, SPOT_SECONDS, DEADLINE_SECONDS = 40, 30, 15
PROGRAM = f"""
import pulumi
from encamp.program import main


def shorten(args):
    if args.type_ == "gcp:container/nodePool:NodePool" and args.props.get("name") == "{POOLS[1]}":
        args.props["node_config"]["max_run_duration"] = "{SPOT_SECONDS}s"
    if args.type_.endswith(":JobSet") and args.props["metadata"]["name"].startswith("alone-"):
        for group in args.props["spec"]["replicatedJobs"]:
            group["template"]["spec"]["activeDeadlineSeconds"] = {DEADLINE_SECONDS}
    return pulumi.ResourceTransformationResult(args.props, args.opts)


pulumi.runtime.register_stack_transformation(shorten)
main()
"""


@pytest.fixture(scope="module")
def queue_camp(camps: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Camp]:
    checkout = camps.copied_checkout(tmp_path_factory.mktemp("queues") / "checkout")
    stack = checkout / "stacks" / "Pulumi.sandbox.yaml"
    written = yaml.safe_load(stack.read_text())
    written["config"]["encamp:environment"]["queues"] = QUEUES
    stack.write_text(yaml.safe_dump(written))
    (checkout / "infra" / "__main__.py").write_text(PROGRAM)
    root, said = tmp_path_factory.mktemp("camp") / "sb", tmp_path_factory.mktemp("said")
    with camps.opened_camp(root, said, checkout=checkout, idle_seconds=IDLE_SECONDS) as camp:
        yield camp


@pytest.fixture
def camp(queue_camp: Camp, monkeypatch: pytest.MonkeyPatch) -> Camp:
    """The sandbox with queues instead of the shared one."""
    queue_camp.enter(monkeypatch)
    return queue_camp


@pytest.fixture
def one_machine(job: Callable[..., str]) -> Callable[..., str]:
    """Writes a job file of one replica that acts as told; takes further fields of both blocks."""

    def write(act: str, training: dict[str, Any] | None = None, **block: Any) -> str:
        path = Path(job(f"chief-0={act}", **(training or {})))
        written = yaml.safe_load(path.read_text())
        for key in ("workerType", "workerCount"):
            del written["trainingInput"][key]
        written["encamp"] |= block
        path.write_text(yaml.safe_dump(written))
        return str(path)

    return write


@dataclass(frozen=True)
class Cloud:
    """What the cloud and the cluster list."""

    camp: Camp

    def pools(self) -> list[str]:
        return sorted(pool["name"] for pool in Container(GoogleClient()).node_pools(CLUSTER))

    def accounts(self) -> list[str]:
        return [account["email"] for account in ServiceAccounts(GoogleClient()).accounts(PROJECT)]

    def buckets(self) -> list[str]:
        return [bucket["name"] for bucket in self.camp.storage().buckets(PROJECT)]

    def of_job(self, job_id: str) -> set[str]:
        """Kinds of what Google lists of a job."""
        name = short_name(PROJECT, "sandbox", job_id)
        labels = {"encamp-job": name, "encamp-owner": "encamp", "encamp-environment": "sandbox"}
        place = JobPlace(PROJECT, labels, CLUSTER, "encamp-jobs", (BUCKET,))
        return {one.kind for one in resources(GoogleClient(), place)}

    def nodes(self) -> dict[str, str]:
        """Nodes by name, with the time of their making."""
        found = self._items("nodes")
        return {node["metadata"]["name"]: node["metadata"]["creationTimestamp"] for node in found}

    def pods(self, job_id: str) -> list[dict[str, Any]]:
        label = f"encamp-job={short_name(PROJECT, 'sandbox', job_id)}"
        return self._items("pods", "-n", "encamp-jobs", "-l", label)

    def node_of(self, job_id: str) -> str:
        """The node of a job's only replica; empty before it has one, or while it does not run."""
        pods = [pod for pod in self.pods(job_id) if pod.get("status", {}).get("phase") == "Running"]
        return str(pods[0]["spec"].get("nodeName", "")) if pods else ""

    def _items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.camp.tool("kubectl", "get", *words, "-o", "json"))["items"]
        return found


def until_some(camp: Camp, asked: Callable[[], str]) -> str:
    """What is asked for, as soon as it is not empty."""
    found: list[str] = []

    def is_there() -> bool:
        found[:] = [asked()]
        return bool(found[0])

    camp.until(is_there)
    return found[0]


def test_a_waiting_job_holds_nothing_and_runs_on_the_machine_that_another_left(
    camp: Camp, one_machine: Callable[..., str]
) -> None:
    cloud = Cloud(camp)
    pools = cloud.pools()
    assert pools == POOLS
    first = camp.start("run", one_machine("sleep"), "--job-id", "first")
    node = until_some(camp, lambda: cloud.node_of("first"))
    made = cloud.nodes()
    assert list(made) == [node]

    second = camp.start("run", one_machine("exit:0:20"), "--job-id", "second")
    second.until("the job waits in the queue research: couldn't assign flavors to pod set", seconds=180)
    # Its stack is up and its replicas do not exist: all that it holds are bindings.
    assert cloud.of_job("second") == {"binding"}
    assert cloud.accounts() == []
    assert cloud.buckets() == [BUCKET]
    assert cloud.pools() == pools
    assert cloud.pods("second") == []

    camp.encamp("cancel", "first")
    # It runs on the machine that was made for the first; no pool was made, and no other machine.
    assert until_some(camp, lambda: cloud.node_of("second")) == node
    assert cloud.nodes() == made
    assert cloud.pools() == pools
    first.ends(5)
    second.ends(0)
    receipts = {name: camp.receipt(name) for name in ("first", "second")}
    assert [receipt["outcome"]["state"] for receipt in receipts.values()] == ["CANCELLED", "SUCCEEDED"]
    for receipt in receipts.values():
        assert receipt["sharedPools"] == ["sandbox-n1-standard-4"]
        assert receipt["nodeSeconds"].keys() == {"n1-standard-4"}
        kinds = {one["type"].rpartition(":")[2] for one in receipt["resources"]}
        assert kinds.isdisjoint({"NodePool", "Account", "Bucket"})
    for name in receipts:
        assert cloud.of_job(name) == set()
        camp.assert_nothing_left(name)
    # An idle pool goes back to nothing, whoever used it.
    camp.until(lambda: cloud.nodes() == {})


def test_the_packages_of_a_job_lie_beside_its_results_until_its_end(
    camp: Camp, one_machine: Callable[..., str]
) -> None:
    running = camp.start("run", one_machine("sleep"), "--job-id", "packed")
    until_some(camp, lambda: Cloud(camp).node_of("packed"))
    packages = [name for name in names_below(camp, "jobs/packed/packages/") if name.endswith(".whl")]
    assert len(packages) == 1
    camp.encamp("cancel", "packed")
    running.ends(5)
    assert names_below(camp, "jobs/packed/packages/") == []
    assert "jobs/packed/receipt.json" in names_below(camp, "jobs/packed/")


def names_below(camp: Camp, prefix: str) -> list[str]:
    return [one.name for one in camp.storage().objects(BUCKET, prefix)]


def test_a_shared_machine_ends_at_its_age_and_its_job_goes_on_elsewhere(
    camp: Camp, one_machine: Callable[..., str]
) -> None:
    """The last switch of a machine that nothing else ended. The job's own limits are days away: it is tried again."""
    cloud = Cloud(camp)
    path = one_machine("sleep", {"masterType": "n1-standard-8"}, provisioning="SPOT")
    running = camp.start("run", path, "--job-id", "aged")
    node = until_some(camp, lambda: cloud.node_of("aged"))
    camp.until(lambda: node not in cloud.nodes())
    other = until_some(camp, lambda: cloud.node_of("aged"))
    assert other != node
    assert "was preempted" in running.said()
    camp.encamp("cancel", "aged")
    running.ends(5)


def test_the_clusters_deadline_ends_a_job_that_nobody_drives_and_its_machine_goes(
    camp: Camp, one_machine: Callable[..., str]
) -> None:
    cloud = Cloud(camp)
    driver = camp.start("run", one_machine("sleep"), "--job-id", "alone")
    driver.until("waiting for the replicas")
    driver.process.kill()
    driver.process.wait()
    name = short_name(PROJECT, "sandbox", "alone")
    asked = ("kubectl", "get", "jobset", name, "-n", "encamp-jobs", "-o", "jsonpath={.status.terminalState}")
    camp.until(lambda: camp.tool(*asked) == "Failed")
    # Nothing but the autoscaler takes the machine, and the pool stays: it is nobody's but the environment's.
    camp.until(lambda: cloud.nodes() == {})
    assert cloud.pools() == POOLS
    camp.encamp("reap")
    assert "the cluster ended it" in camp.receipt("alone")["outcome"]["message"]
    assert "chief-0 is here and will sleep" in camp.read("alone", "logs/master-replica-0.log")
    camp.assert_nothing_left("alone")
    assert cloud.pools() == POOLS


def test_a_running_job_keeps_its_account_when_nothing_asks_for_one_any_more(
    camp: Camp, one_machine: Callable[..., str], tmp_path: Path
) -> None:
    """As after an upgrade, or a changed default of its environment: a second `up` by hand takes nothing away."""
    given = yaml.safe_load(Path(one_machine("sleep")).read_text())
    folder = tmp_path / "stack"
    (folder / "program").mkdir(parents=True)
    (folder / "program" / "__main__.py").write_text("from encamp.program import main\n\nmain()\n")
    (folder / "Pulumi.yaml").write_text("name: encamp\nruntime: python\nmain: program\n")
    camp.pulumi("-C", str(folder), "stack", "init", "kept")
    file = folder / "Pulumi.kept.yaml"
    written = yaml.safe_load(file.read_text()) or {}

    def says(identity: dict[str, str]) -> None:
        job = {**given, "jobId": "kept", "encamp": {**given["encamp"], "identity": identity}}
        config = {"encamp:environmentStack": "sandbox", "encamp:job": job, "encamp:jobFolder": str(tmp_path)}
        file.write_text(yaml.safe_dump({**written, "config": config}))

    says({"mode": "SERVICE_ACCOUNT"})
    camp.pulumi("-C", str(folder), "up", "-s", "kept", "--yes", "--skip-preview")
    cloud = Cloud(camp)
    (account,) = cloud.accounts()
    says({})
    camp.pulumi("-C", str(folder), "preview", "-s", "kept", "--expect-no-changes")
    camp.pulumi("-C", str(folder), "up", "-s", "kept", "--yes", "--skip-preview")
    assert cloud.accounts() == [account]
    camp.pulumi("-C", str(folder), "destroy", "-s", "kept", "--yes", "--skip-preview")
    camp.pulumi("-C", str(folder), "stack", "rm", "kept", "--yes")
    assert cloud.accounts() == []
