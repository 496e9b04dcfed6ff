"""The resources of each committed stack: tokens, names and inputs are state identity, so a golden holds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    golden = Path(__file__).with_name("golden") / f"{stack}.yaml"
    written = yaml.safe_dump(resources, sort_keys=True, width=110, allow_unicode=True)
    if rewrite_goldens:
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
