"""The committed workflows: no keys, no rights that nobody needs, and commands that there are."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from encamp.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
WORKFLOWS = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
HOSTED = "ubuntu-24.04"
RUNNER = f"${{{{ vars.ENCAMP_RUNNER && fromJSON(vars.ENCAMP_RUNNER) || '{HOSTED}' }}}}"
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
#: What each may write, job by job; `id-token` is what stands for a key.
WRITES = {
    "preview": {"preview": {"id-token"}, "comment": {"pull-requests"}},
    "run": {"run": {"id-token"}},
    "drift": {"drift": {"id-token", "issues"}},
    "reap": {"reap": {"id-token"}},
}

#: GitHub's environments, whose rules say which branch gets their secrets and accounts.
ENVIRONMENTS = {
    "run": "${{ vars.ENCAMP_ENVIRONMENT }}-deploy",
    "reap": "${{ vars.ENCAMP_ENVIRONMENT }}-reaper",
}


def loaded(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(file.read_text(), Loader=yaml.BaseLoader)  # noqa: S506 - `on` stays a word
    return content


def all_steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in loaded(file)["jobs"].values() for step in job["steps"]]


def scripts(file: Path) -> list[str]:
    return [step["run"] for step in all_steps(file) if "run" in step]


def test_there_is_a_workflow_for_each_use() -> None:
    assert {file.stem for file in FILES} == set(WRITES)


@WORKFLOWS
def test_every_action_is_pinned_to_a_commit(file: Path) -> None:
    used = [line.strip().removeprefix("- ") for line in file.read_text().splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []


@WORKFLOWS
def test_no_job_may_write_more_than_it_needs(file: Path) -> None:
    content = loaded(file)
    assert content["permissions"] == {}
    found = {
        name: {right for right, level in job["permissions"].items() if level == "write"}
        for name, job in content["jobs"].items()
    }
    assert found == WRITES[file.stem]


@WORKFLOWS
def test_who_enters_google_cloud_may_run_inside_of_the_vpc_and_nobody_else(file: Path) -> None:
    """A runner of one's own holds what the job leaves on it; what needs no cluster stays on a hosted one."""
    for job in loaded(file)["jobs"].values():
        enters = any("google-github-actions/auth" in step.get("uses", "") for step in job["steps"])
        assert job["runs-on"] == (RUNNER if enters else HOSTED)


@WORKFLOWS
def test_google_cloud_is_entered_without_a_key(file: Path) -> None:
    text = file.read_text()
    assert "workload_identity_provider: ${{ vars.GCP_WORKLOAD_IDENTITY_PROVIDER }}" in text
    assert "credentials_json" not in text
    assert "persist-credentials: false" in text


@WORKFLOWS
def test_nothing_that_others_write_becomes_part_of_a_script(file: Path) -> None:
    assert [script for script in scripts(file) if "${{" in script] == []


@WORKFLOWS
def test_every_variable_and_secret_is_explained(file: Path) -> None:
    text = file.read_text()
    head = text[: text.index("\nname:")]
    docs = (ROOT / "docs" / "ci.md").read_text()
    for name in set(re.findall(r"(?:vars|secrets)\.(\w+)", text)):
        assert name in head
        assert name in docs


@WORKFLOWS
def test_every_script_is_one_that_a_shell_takes(file: Path) -> None:
    shell = shutil.which("bash")
    assert shell is not None
    for script in scripts(file):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, capture_output=True)


@WORKFLOWS
def test_every_call_of_encamp_is_one_that_it_takes(file: Path) -> None:
    calls = [line for script in scripts(file) for line in script.splitlines() if ".venv/bin/encamp" in line]
    for line in calls:
        # What stands without quotes may be empty.
        certain = re.sub(r"(?<!\")\$\w+(?!\")", "", line.partition("||")[0])
        words = shlex.split(certain)[1:]
        command: click.Command = cli
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None
            command = found
        command.make_context("encamp", words)
    assert calls or file.stem == "run"


@WORKFLOWS
def test_secrets_and_accounts_that_change_things_hang_on_an_environment_of_their_own(file: Path) -> None:
    """A workflow of a pull request reads repository secrets; an environment for the branch main keeps it out."""
    for job in loaded(file)["jobs"].values():
        changes = [name for name in ("GCP_RUN_ACCOUNT", "GCP_REAPER_ACCOUNT") if f"vars.{name}" in str(job)]
        assert job.get("environment") == ENVIRONMENTS.get(file.stem)
        assert ("secrets." in str(job) or bool(changes)) == ("environment" in job)


def test_every_account_has_a_binding_of_its_own_in_the_docs() -> None:
    docs = (ROOT / "docs" / "ci.md").read_text()
    for account, subject in (
        ("encamp-preview", "repo:acme/ml:pull_request"),
        ("encamp-preview", "repo:acme/ml:ref:refs/heads/main"),
        ("encamp-run", "repo:acme/ml:environment:production-deploy"),
        ("encamp-reaper", "repo:acme/ml:environment:production-reaper"),
    ):
        assert f'$ bind {account}@acme-ml.iam.gserviceaccount.com "$SUBJECT/{subject}"' in docs
    assert "principalSet://" not in docs


@WORKFLOWS
def test_every_tool_is_of_an_exact_version(file: Path) -> None:
    exact = re.compile(r"\d+\.\d+\.\d+")
    steps = [step for step in all_steps(file) if "uses" in step]
    with_versions = {"pulumi/actions": "pulumi-version", "google-github-actions/setup-gcloud": "version"}
    for step in steps:
        key = with_versions.get(step["uses"].partition("@")[0])
        assert key is None or exact.fullmatch(step["with"][key])
    assert "-latest" not in file.read_text()


def test_the_engine_is_the_same_in_workflows_and_in_the_sandbox() -> None:
    tool = (ROOT / "tools" / "pulumi" / "go.mod").read_text()
    version = re.search(r"github\.com/pulumi/pulumi/pkg/v3 v(\S+)", tool)
    assert version is not None
    told = {step.get("with", {}).get("pulumi-version") for file in FILES for step in all_steps(file)}
    assert told - {None} == {version[1]}


def test_a_pull_request_of_a_fork_gets_no_token() -> None:
    job = loaded(ROOT / ".github" / "workflows" / "preview.yaml")["jobs"]["preview"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]


def test_what_may_comment_runs_nothing_of_the_pull_request() -> None:
    job = loaded(ROOT / ".github" / "workflows" / "preview.yaml")["jobs"]["comment"]
    assert [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step] == ["actions/download-artifact"]
