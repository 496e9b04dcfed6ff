"""Previews as a property: quiet while nothing has changed, and of a change they tell what it does and no more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

REPOSITORY = Path(__file__).resolve().parents[2]
SECOND = """\
config:
  gcp:project: sandbox-encamp
  gcp:region: us-central1
  encamp:environmentStack: sandbox
  encamp:job:
    file: examples/digits/job.yaml
    jobId: second
"""
RENAME = (
    'RENAMED: tuple[Renamed, ...] = (Renamed("encamp:components:GkeCluster", was_type="encamp:components:Cluster"),)'
)


class Change:
    """A repository of its own, with the program and the stacks of this one, and what is changed there."""

    def __init__(self, folder: Path, camp: Camp) -> None:
        """Take a copied checkout and begin a change in it."""
        self._folder, self._camp = folder, camp
        self._git("init", "--quiet", "--initial-branch=main")
        (folder / ".git" / "info" / "exclude").write_text("__pycache__/\n.venv\n")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=base")
        self._git("switch", "--quiet", "--create=change")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self._folder / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def write(self, file: str, text: str) -> None:
        (self._folder / file).write_text(text)

    def preview(self) -> dict[str, str]:
        """The comment's part of each stack, and under ``""`` what comes before them."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=change")
        ended = subprocess.run(
            [sys.executable, "-m", "encamp.cli", "ci", "preview", "--base", "main"],
            # A runner has no key of the stacks.
            env={
                **self._camp.environment,
                "PYTHONPATH": str(self._folder / "infra"),
                "PULUMI_CONFIG_PASSPHRASE": "none",
            },
            cwd=self._folder,
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        head, *parts = re.split(r"^#### `(.+)`\n", ended.stdout, flags=re.MULTILINE)
        return {"": head, **dict(zip(parts[::2], parts[1::2], strict=True))}

    def status(self) -> str:
        return self._git("status", "--porcelain")

    def _git(self, *words: str) -> str:
        who = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
        command = ["git", *who, *words]
        return subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=True).stdout


def steps(part: str) -> list[str]:
    """The resources that something is done to."""
    return [line for line in part.splitlines() if line.startswith(("+ ", "- ", "! "))]


def test_by_hand_previews_tell_what_changes_and_no_more_and_reap_ends_the_job(
    camp: Camp, checkout: Path, tmp_path: Path
) -> None:
    before = camp.tool("git", "status", "--porcelain")
    camp.pulumi("up", "-s", "digits", "--yes", "--skip-preview")
    camp.until(lambda: len(camp.nodes()) == 3)
    assert "still trains" in camp.encamp("reap", "--dry-run")

    # Nodes came, the providers are newer than those that made it all, Google added a label, somebody changed another.
    for stack in ("sandbox", "digits"):
        made_by_older_providers(camp, stack, tmp_path / f"{stack}.json")
    camp.tool(
        "kubectl", "label", "namespace", "encamp-jobs", "encamp-owner=somebody", "goog-terraform=true", "--overwrite"
    )
    drifted = camp.encamp("ci", "drift", code=1)
    assert steps(drifted) == ["! changed kubernetes:core/v1:Namespace sandbox"]
    # The official kubernetes plugin spells the path with a dot.
    assert re.search(r'metadata\.labels(\["encamp-owner"\]|\.encamp-owner): "somebody" → "encamp"', drifted)
    assert "`digits` agrees with the cloud" in drifted
    camp.tool("kubectl", "label", "namespace", "encamp-jobs", "encamp-owner=encamp", "goog-terraform-", "--overwrite")

    # Nodes go, and of a change only the change is shown.
    camp.until(lambda: not camp.nodes())
    change = Change(checkout, camp)
    change.edit("stacks/Pulumi.sandbox.yaml", "artifactsBucket:", "artifactsRetentionDays: 90\n    artifactsBucket:")
    change.edit("examples/digits/job.yaml", "--epochs=20", "--epochs=30")
    change.write("stacks/Pulumi.second.yaml", SECOND)
    change.edit("infra/encamp/components/cluster.py", '"encamp:components:Cluster"', '"encamp:components:GkeCluster"')
    change.edit("infra/encamp/components/renamed.py", "RENAMED: tuple[Renamed, ...] = ()", RENAME)
    said = change.preview()
    # The cluster's component has another name, and nothing in it is made anew.
    assert steps(said["sandbox"]) == ["! changed gcp:storage/bucket:Bucket sandbox-artifacts"]
    assert "lifecycleRules[" in said["sandbox"]
    assert steps(said["digits"]) == ["! replaced kubernetes:jobset.x-k8s.io/v1alpha2:JobSet job-set"]
    assert "**The job itself is replaced.**" in said["digits"]
    assert "No other resource is replaced or destroyed." in said["digits"]
    assert "--epochs=30" in said["digits"]
    made = steps(said["second"])
    assert all(line.startswith("+ made ") for line in made)
    assert "+ made gcp:container/nodePool:NodePool n1-standard-4" in made
    assert "| `second` (added job) |" in said[""]
    assert change.status() == ""
    assert "second" not in {stack["name"] for stack in camp.stacks()}

    camp.encamp("reap")
    receipt = camp.receipt("digits_by_hand")
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    for replica in ("master-replica-0", "worker-replica-0", "worker-replica-1"):
        assert "one of 3 replicas" in camp.read("digits_by_hand", f"logs/{replica}.log")
    assert camp.accuracy("digits", "digits_by_hand") >= 0.9
    camp.assert_nothing_left()
    refused = subprocess.run(
        ["pulumi", "up", "-s", "digits", "--yes", "--non-interactive"],
        env=camp.environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert refused.returncode != 0
    assert "digits_by_hand has ended" in refused.stdout + refused.stderr
    assert camp.tool("git", "status", "--porcelain") == before


def made_by_older_providers(camp: Camp, stack: str, file: Path) -> None:
    """Let a stack's state say that providers of earlier releases made it."""
    state = camp.pulumi("stack", "export", "-s", stack)
    older = re.sub(r"default_10_\d+_\d+", "default_10_1_0", state)
    older = re.sub(r'"version": "10\.\d+\.\d+"', '"version": "10.1.0"', older)
    older = re.sub(r'"version": "4\.\d+\.\d+"', '"version": "4.30.0"', older)
    assert older != state
    file.write_text(older)
    camp.pulumi("stack", "import", "-s", stack, "--file", str(file))


def test_the_doctor_finds_what_the_committed_stacks_need_in_an_environment_that_is_up(camp: Camp) -> None:
    found = {line.split(":")[0] for line in camp.encamp("doctor", "-s", "digits").splitlines()}
    looked_at = {"APIs", "billing", "cluster", "credentials", "project", "quota", "rights", "secrets", "state"}
    assert {f"OK    {subject}" for subject in looked_at} <= found
    assert not {line for line in found if line.startswith("BAD")}
