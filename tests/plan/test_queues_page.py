"""The page about queues: its environment can be written, and its job planned in it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from encamp.plan.job import plan_job
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import parse_job

PAGE = Path(__file__).parents[2] / "docs" / "queues.md"


def test_the_job_on_the_page_waits_in_the_queue_of_the_page() -> None:
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    written, job = blocks
    data = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts", **written}
    environment = parse_environment(data, project="my-project", source="docs/queues.md")
    plan = plan_job(parse_job(job, source="docs/queues.md").named("job").job, environment)
    assert plan.queue is not None
    assert (plan.queue.name, plan.queue.priority_class) == ("research", "lab-urgent")
