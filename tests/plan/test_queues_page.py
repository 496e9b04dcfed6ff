"""The page about queues: its environment can be written, and its job planned in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from encamp.plan.environment.shared_pools import plan_shared_pools
from encamp.plan.job import plan_job
from encamp.spec.environment import EnvironmentSpec, parse_environment
from encamp.spec.job_file import parse_job

PAGE = Path(__file__).parents[2] / "docs" / "queues.md"


def blocks() -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for text in re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def lab(queues: dict[str, Any]) -> EnvironmentSpec:
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", "queues": queues}
    return parse_environment(data, project="my-project", source="docs/queues.md")


def test_the_job_on_the_page_waits_in_the_queue_of_the_page() -> None:
    written, job, _ = blocks()
    environment = lab(written["queues"])
    plan = plan_job(parse_job(job, source="docs/queues.md").named("job").job, environment)
    assert plan.queue is not None
    assert (plan.queue.name, plan.queue.priority_class) == ("research", "lab-urgent")


def test_the_pools_on_the_page_are_shared_by_the_queues_of_teams_with_quotas_for_them() -> None:
    shared = blocks()[2]["queues"]
    kinds = [{"cpu": 256}, {"cpu": 256, "provisioning": "SPOT"}]
    kinds += [{"accelerator": "NVIDIA_L4", "count": 16}, {"accelerator": "v5e", "count": 8}]
    pools = plan_shared_pools(lab({**shared, "teams": {"research": {"quotas": kinds}}}))
    assert [pool.machine_type for pool in pools] == [
        "n1-standard-8",
        "n2-standard-32",
        "g2-standard-24",
        "ct5lp-hightpu-8t",
    ]
