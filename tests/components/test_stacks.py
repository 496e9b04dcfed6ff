"""The resources of each committed stack: tokens, names and inputs are state identity, so a golden holds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
STACKS = sorted((REPOSITORY / "stacks").glob("Pulumi.*.yaml"))


def registered(stack: str) -> dict[str, dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("declare_stack.py")), stack],
        env={"PYTHONPATH": str(REPOSITORY / "infra"), "PATH": "", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    resources: dict[str, dict[str, Any]] = json.loads(ended.stdout)
    return resources


@pytest.mark.parametrize("path", STACKS, ids=[path.name for path in STACKS])
def test_a_committed_stack_declares_what_its_golden_says(path: Path, *, rewrite_goldens: bool) -> None:
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    resources = registered(stack)
    for key, inputs in resources.items():
        # The scripts and the JobSet's spec stand in the goldens of the manifests.
        if key.startswith("kubernetes:core/v1:ConfigMap"):
            assert set(inputs.pop("data")) == {"bootstrap.py", "bootstrap.json"}
        if key.startswith("kubernetes:jobset"):
            assert inputs.pop("spec")["replicatedJobs"]
    _compare(resources, stack, rewrite=rewrite_goldens)


@pytest.mark.parametrize(
    "case", ["identity-direct", "storage-own-bucket", "storage-given-bucket", "storage-given-account"]
)
def test_a_jobs_storage_and_identity_are_what_its_golden_says(case: str, *, rewrite_goldens: bool) -> None:
    rooms = ("gcp:storage", "gcp:projects", "gcp:serviceaccount", "kubernetes:core/v1:ServiceAccount")
    resources = {key: inputs for key, inputs in registered(f"golden/{case}").items() if key.startswith(rooms)}
    _compare(resources, case, rewrite=rewrite_goldens)


def test_a_bucket_that_stays_is_not_labelled_as_what_is_taken_down() -> None:
    own = registered("golden/storage-own-bucket")["gcp:storage/bucket:Bucket results"]
    assert set(own["labels"]) == {"encamp-owner", "encamp-environment", "encamp-results"}
    # Seven days after the end of a job that may take seven days, and a little.
    assert own["lifecycleRules"] == [{"action": {"type": "Delete"}, "condition": {"age": 15}}]


def _compare(resources: dict[str, dict[str, Any]], name: str, *, rewrite: bool) -> None:
    golden = Path(__file__).with_name("golden") / f"{name}.yaml"
    written = yaml.safe_dump(resources, sort_keys=True, width=110, allow_unicode=True)
    if rewrite:
        golden.write_text(written)
    assert yaml.safe_load(golden.read_text()) == yaml.safe_load(written)


def test_every_labelled_resource_of_a_job_says_whose_it_is_and_until_when() -> None:
    expected = {"encamp-owner", "encamp-job", "encamp-environment", "encamp-deadline"}
    labelled: dict[str, set[str]] = {}
    for key, inputs in registered("digits").items():
        for labels in (
            inputs.get("labels"),
            inputs.get("nodeConfig", {}).get("resourceLabels"),
            inputs.get("metadata", {}).get("labels"),
        ):
            if labels is not None:
                labelled[key.partition(" ")[0]] = set(labels) & expected
    assert labelled == dict.fromkeys(
        (
            "gcp:storage/bucket:Bucket",
            "gcp:container/nodePool:NodePool",
            "kubernetes:core/v1:ServiceAccount",
            "kubernetes:core/v1:ConfigMap",
            "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet",
        ),
        expected,
    )
