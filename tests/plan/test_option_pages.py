"""The pages of a job's machines and options: their job files are planned, their tables are what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from encamp.plan.job import plan_job
from encamp.plan.machines.preconditions import PRECONDITIONS
from encamp.plan.manifests.job import render_manifests
from encamp.spec.data_files import data_file
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import read_job
from encamp.spec.loading import parse_document
from encamp.spec.rules.registry import rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import JobPlan, NodePoolPlan

DOCS = Path(__file__).resolve().parents[2] / "docs"
MACHINES = DOCS / "machines.md"


def any_pool(test: Callable[[NodePoolPlan], object]) -> Callable[[JobPlan], bool]:
    return lambda plan: any(test(pool) for pool in plan.node_pools)


#: What is true of the job on a page and of no job that does not use the option.
USES: dict[str, Callable[[JobPlan], bool]] = {
    "boot-disks": any_pool(lambda pool: (pool.disk_type, pool.disk_size_gb) == ("pd-balanced", 500)),
    "compact-placement": any_pool(lambda pool: pool.compact and pool.zone == "us-central1-c"),
    "cpu": lambda plan: {pool.max_nodes for pool in plan.node_pools} == {1, 3},
    "flex-start": any_pool(lambda pool: pool.provisioning == "FLEX_START"),
    "gpus": any_pool(lambda pool: pool.accelerator is not None and pool.network_profile == "auto"),
    "identity": lambda plan: plan.identity.account_id is not None,
    "image-streaming": any_pool(lambda pool: pool.image_streaming),
    "limits": lambda plan: plan.limits.max_running_time.seconds == 86_400,
    "mounts": lambda plan: (
        [mount.path for mount in plan.storage.mounts][:2] == ["/gcs/census-data/2026", "/gcs/census-features"]
    ),
    "queued": lambda plan: len(render_manifests(plan).provisioning_requests) == 1,
    "reservations": any_pool(lambda pool: pool.reservation == "training-a100" and pool.zone == "us-central1-c"),
    "run-as": lambda plan: all(group.custom_container and group.non_root for group in plan.groups),
    "spot": lambda plan: all(pool.spot for pool in plan.node_pools),
    "tpu-slices": any_pool(lambda pool: pool.multi_host and pool.max_nodes == 4),
    "tpus": any_pool(lambda pool: pool.tpu_topology == "2x4" and not pool.multi_host),
    "tuning": lambda plan: plan.study is not None and {pool.max_nodes for pool in plan.node_pools} == {3},
    "zones": lambda plan: {pool.zone for pool in plan.node_pools} == {"us-central1-b"},
}


#: Features of nodes in the words of GKE's pages, where they are not those of the table.
_NEEDS = {
    "dataplane-v1": "the older dataplane",
    "dataplane-v2": "Dataplane V2",
    "dcgm": "DCGM metrics",
    "dns-cache": "NodeLocal DNSCache",
    "gcs-fuse": "Cloud Storage FUSE",
    "gpu": "GPUs",
    "managed-prometheus": "Managed Prometheus",
    "network-driver": "managed DRANET",
    "tpu": "TPU chips",
    "workload-identity": "Workload Identity",
}


@pytest.fixture
def lab() -> EnvironmentSpec:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
    return parse_environment(data, project="my-project", source="test")


def test_every_option_has_a_page_and_every_page_is_listed() -> None:
    pages = {path.stem for path in (DOCS / "options").glob("*.md")}
    assert pages == set(USES)
    assert set(re.findall(r"\(options/([a-z-]+)\.md\)", MACHINES.read_text(encoding="utf-8"))) == pages


@pytest.mark.parametrize("name", USES)
def test_the_job_file_of_a_page_is_planned_and_uses_the_option(name: str, lab: EnvironmentSpec) -> None:
    text = (DOCS / "options" / f"{name}.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.DOTALL)
    found = read_job(parse_document(block.encode(), source=f"docs/options/{name}.md")).named(name.replace("-", "_"))
    plan = plan_job(found.job, lab)
    assert USES[name](plan)
    assert render_manifests(plan).job_set["metadata"]["name"] == plan.name


def test_pages_name_rules_and_preconditions_that_there_are() -> None:
    known = {rule.id for rule in PRECONDITIONS}
    for path in (DOCS / "options").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bG\d\d\b", text)) <= known, path.name
        linked = re.findall(r"\[([A-Z]\d\d)\]\(\.\./job-files\.md#([a-z]\d\d)\)", text)
        assert all(shown in rules() and shown.lower() == anchor for shown, anchor in linked), path.name
        for other in re.findall(r"\]\(([a-z-]+\.md)\)", text):
            assert (path.parent / other).exists(), f"{path.name}: {other}"


def test_the_tables_are_what_the_code_says(*, rewrite_goldens: bool) -> None:
    if rewrite_goldens:
        MACHINES.write_text(_with_tables(MACHINES.read_text(encoding="utf-8")), encoding="utf-8")
    page = MACHINES.read_text(encoding="utf-8")
    assert page == _with_tables(page)


def _with_tables(page: str) -> str:
    preconditions = [f"| {rule.id} | {rule.sentence} | {rule.source} |" for rule in PRECONDITIONS]
    quotas = [
        f"| {what} | {name} | `{entry['metric']}`{_dimension(entry)} | {entry['source']} |"
        for what in ("cpus", "gpus", "tpus", "disks")
        for name, entry in data_file("quotas")[what].items()
    ]
    pods = [
        f"| {entry['name']} | {', '.join(map(_need, entry['needs'])) or 'every node'} | {entry['cpuMillis']} "
        f"| {entry['memoryMib']} | {entry['sure']} |"
        for entry in data_file("system_pods")["pods"]
    ]
    titles = ["| pod | on nodes with | milli-CPUs | MiB | how sure |", "|---|---|---:|---:|---|"]
    page = _between(page, "system pods", [*titles, *pods])
    page = _between(page, "preconditions", ["| | it must be so | source |", "|---|---|---|", *preconditions])
    return _between(page, "quotas", ["| what | of | quota | source |", "|---|---|---|---|", *quotas])


def _need(feature: str) -> str:
    return _NEEDS.get(feature, feature.replace("-", " "))


def _dimension(entry: dict[str, str]) -> str:
    return f", `{entry['dimension']}: {entry['family']}`" if "family" in entry else ""


def _between(page: str, name: str, lines: list[str]) -> str:
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    return "\n".join([before + start.rstrip("\n"), *lines, end + rest.partition(end)[2]])
