"""A job's components against Pulumi's own mocks: what they register, as JSON. ``declare_job.py FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pulumi
from declare_stack import DEADLINE, Recorder
from pulumi.runtime import stack as runtime_stack
from pulumi.runtime.sync_await import _sync_await

from encamp.components.training_job import TrainingJob
from encamp.plan.job import plan_job
from encamp.spec.environment import parse_environment
from encamp.spec.job_file import load_job


def declare(path: Path) -> None:
    data = {"name": "sandbox", "region": "us-central1", "artifactsBucket": "sandbox-encamp-artifacts"}
    environment = parse_environment(data, project="sandbox-encamp", source="test")
    plan = plan_job(load_job(path).named("job").job, environment)
    TrainingJob(plan.name, plan, cluster="encamp", kubeconfig="{}", deadline=DEADLINE)


if __name__ == "__main__":
    recorder = Recorder()
    pulumi.runtime.set_mocks(recorder, project="encamp", stack="job", preview=False)
    _sync_await(runtime_stack.run_pulumi_func(lambda: declare(Path(sys.argv[1]))))
    sys.stdout.write(json.dumps(recorder.resources))
