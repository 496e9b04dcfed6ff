"""The resources of each committed stack: tokens, names and inputs are state identity, so a golden holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.job_cases import job_case

from encamp.kinds.google import RESOURCES
from encamp.kinds.objects import OBJECTS
from encamp.plan.declared import declared_resources
from encamp.plan.environment.charts import read_chart
from encamp.plan.job import plan_job
from encamp.spec.environment import load_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from encamp.plan.model import JobPlan

pytestmark = pytest.mark.slow

Declared = dict[str, dict[str, Any]]

REPOSITORY = Path(__file__).resolve().parents[2]
STACKS = sorted((REPOSITORY / "stacks").glob("Pulumi.*.yaml"))


#: Jobs that have every kind of resource between them, and every kind of identity and storage.
CASES = (
    "basic-bare",
    "identity-account",
    "identity-direct",
    "mounts",
    "queued",
    "rdma-h200",
    "seventy-workers",
    "storage-environment",
    "storage-given-account",
    "storage-given-bucket",
    "storage-own-bucket",
    "storage-own-bucket-given-account",
    "tpu-7x-multi-host",
    "tpu-v5e-multi-host-by-chips",
    "tuning-distributed",
)
HELD_ELSEWHERE = (
    "gcp:kms/",
    "gcp:logging/",
    "gcp:monitoring/",
    "gcp:projects/iAMAuditConfig",
    "gcp:projects/iAMCustomRole",
    "gcp:projects/iAMMember:IAMMember ml.",
    "kubernetes:batch/",
    "kubernetes:kueue.x-k8s.io/",
    "kubernetes:rbac.authorization.k8s.io/",
)
EXPECTED = {"encamp-owner", "encamp-job", "encamp-environment", "encamp-deadline"}


@pytest.mark.parametrize("path", STACKS, ids=[path.name for path in STACKS])
def test_a_committed_stack_declares_what_its_golden_says(
    registered: Callable[[str], Declared], path: Path, *, rewrite_goldens: bool
) -> None:
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    resources = registered(stack)
    # Charts are held against what they were rendered to, and of some rooms the contents stand in goldens of their own.
    elsewhere = [*_of_charts(), *(key for key in resources if key.startswith(HELD_ELSEWHERE))]
    resources |= {key: {} for key in elsewhere if key in resources}
    for key, inputs in resources.items():
        # The scripts and the JobSet's spec stand in the goldens of the manifests.
        if key == "kubernetes:core/v1:ConfigMap scripts":
            assert set(inputs.pop("data")) == {"bootstrap.py", "bootstrap.json"}
        if key.startswith("kubernetes:jobset"):
            assert inputs.pop("spec")["replicatedJobs"]
    _compare(resources, stack, rewrite=rewrite_goldens)


def _of_charts() -> Iterator[str]:
    for name in ("jobset", "kueue"):
        for item in read_chart(name)["objects"]:
            group = item["apiVersion"]
            token = f"kubernetes:{group if '/' in group else f'core/{group}'}:{item['kind']}"
            yield f"{token} {item['metadata']['name']}"


@pytest.mark.parametrize(
    "case",
    ["identity-account", "identity-direct", "storage-own-bucket", "storage-given-bucket", "storage-given-account"],
)
def test_a_jobs_storage_and_identity_are_what_its_golden_says(
    registered: Callable[[str], Declared], case: str, *, rewrite_goldens: bool
) -> None:
    rooms = ("gcp:storage", "gcp:projects", "gcp:serviceaccount", "kubernetes:core/v1:ServiceAccount")
    resources = {key: inputs for key, inputs in registered(f"job/{case}").items() if key.startswith(rooms)}
    _compare(resources, case, rewrite=rewrite_goldens)


def test_a_bucket_that_stays_is_not_labelled_as_what_is_taken_down(registered: Callable[[str], Declared]) -> None:
    own = registered("job/storage-own-bucket")["gcp:storage/bucket:Bucket results"]
    assert set(own["labels"]) == {"encamp-owner", "encamp-environment", "encamp-results"}
    # Seven days after the end of a job that may take seven days, and a little.
    assert own["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 15}}]


def _compare(resources: dict[str, dict[str, Any]], name: str, *, rewrite: bool) -> None:
    golden = Path(__file__).with_name("golden") / f"{name}.yaml"
    written = yaml.safe_dump(resources, sort_keys=True, width=110, allow_unicode=True)
    if rewrite:
        golden.write_text(written)
    assert yaml.safe_load(golden.read_text()) == yaml.safe_load(written)


def _plan(case: str) -> JobPlan:
    return plan_job(job_case(case).job_file().job, load_environment("sandbox", REPOSITORY))


def _jobs(registered: Callable[[str], Declared]) -> dict[str, dict[str, dict[str, Any]]]:
    return {case: registered(f"job/{case}") for case in CASES}


def test_what_the_intent_names_is_what_the_components_declare(registered: Callable[[str], Declared]) -> None:
    kinds: set[str] = set()
    for case, resources in _jobs(registered).items():
        plan = _plan(case)
        made = {key for key in resources if not key.startswith(("encamp:", "pulumi:"))}
        declared = declared_resources(plan)
        assert sorted(f"{one.type} {one.name}" for one in declared) == sorted(made), case
        kinds |= {one.type for one in declared}
        for one in declared:
            inputs = resources[f"{one.type} {one.name}"]
            assert _cloud_name(inputs, one.type, plan) == one.cloud
    # Every declared kind is one of some job of these, and no job has another.
    in_stack = [kind for kind in OBJECTS if kind.in_stack]
    assert kinds == {kind.token for kind in (*RESOURCES, *in_stack)}


def _cloud_name(inputs: dict[str, Any], kind: str, plan: JobPlan) -> str:
    """What the cloud will call what a component declares."""
    if kind.startswith("kubernetes:"):
        return f"{inputs['metadata']['namespace']}/{inputs['metadata']['name']}"
    if kind.endswith("Member"):
        account = inputs.get("serviceAccountId", "").rpartition("/")[2]
        made = account == "job@sandbox-encamp.iam.gserviceaccount.com"
        own = str(plan.identity.service_account) if made else account
        on = f"gs://{inputs['bucket']}" if "bucket" in inputs else own or inputs["project"]
        return f"{inputs['role']} on {on}"
    if kind == "gcp:serviceaccount/account:Account":
        return f"{inputs['accountId']}@{inputs['project']}.iam.gserviceaccount.com"
    if kind.startswith("gcp:storage"):
        return f"gs://{inputs['bucket']}/{inputs['name']}" if "bucket" in inputs else f"gs://{inputs['name']}"
    return str(inputs["name"])


def test_everything_of_a_job_says_whose_it_is_and_until_when(registered: Callable[[str], Declared]) -> None:
    for case, resources in _jobs(registered).items():
        plan = _plan(case)
        want = {**plan.labels, "encamp-deadline": "1800000000"}
        for key, inputs in resources.items():
            kind = key.partition(" ")[0]
            if kind.startswith(("encamp:", "pulumi:")) or key == "gcp:storage/bucket:Bucket results":
                continue
            found = _labels(inputs)
            if found is not None:
                assert {key: found.get(key) for key in EXPECTED} == want, f"{case} {key}"
            else:
                assert _named(kind, inputs, plan), f"{case} {key}"


def _labels(inputs: dict[str, Any]) -> dict[str, str] | None:
    """The labels of a resource, also where a description stands for them; None where it has neither."""
    nodes = inputs.get("nodeConfig", {}).get("resourceLabels")
    labels = inputs.get("labels") or nodes or inputs.get("metadata", {}).get("labels")
    described = inputs.get("description") or (inputs.get("condition") or {}).get("description")
    if described is not None:
        assert len(described.encode()) <= 256
    return labels or (dict(word.split("=") for word in described.split()) if described else None)


def _named(kind: str, inputs: dict[str, Any], plan: JobPlan) -> bool:
    """What takes neither labels nor a condition says by its name, its bucket or its member whose it is."""
    own = (plan.storage.scratch_bucket, plan.storage.results_bucket)
    if kind == "gcp:storage/bucketObject:BucketObject":
        return inputs["bucket"] in own or plan.job_id in inputs["name"]
    if kind == "gcp:storage/bucketIAMMember:BucketIAMMember":
        mine = "job@" in inputs["member"] or f"/sa/{plan.name}" in inputs["member"]
        return inputs["bucket"] in own or (mine and inputs["bucket"] != plan.storage.bucket)
    return kind == "gcp:compute/resourcePolicy:ResourcePolicy" and inputs["name"].startswith(plan.name[:20])


def test_grants_end_with_the_deadline_wherever_a_condition_can_stand(registered: Callable[[str], Declared]) -> None:
    time_limit = 'request.time < timestamp("2027-01-15T08:00:00Z")'
    unlimited: set[str] = set()
    for resources in _jobs(registered).values():
        for key, inputs in resources.items():
            if "Member" not in key:
                continue
            expression = (inputs.get("condition") or {}).get("expression", "")
            if not expression:
                unlimited.add(key.partition(" ")[2])
            else:
                assert expression.startswith(time_limit)
    assert unlimited == {
        "storage.legacyBucketReader-census-output",
        "storage.legacyBucketReader-results",
        "storage.legacyBucketReader-team-results",
        "storage.objectUser-team-results",
        "storage.objectViewer-packages",
    }


def test_a_secret_among_what_is_searched_over_is_one_of_the_study(registered: Callable[[str], Declared]) -> None:
    resources = registered("job/tuning-hostile")
    study = resources["kubernetes:core/v1:ConfigMap study"]
    assert "canary0signature" in json.dumps(study.pop("data"))
    assert "canary0signature" not in json.dumps(resources)
