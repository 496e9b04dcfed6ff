"""Previews after an up and after a refresh are empty: of every committed stack, environment and job case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.job_cases import planned_cases

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
#: Stacks by the cloud that they are brought up in, one after the other.
CLOUDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("acme-ml", ("production", "production-digits")),
    ("my-lab-project", ("environment/with-an-api",)),
    ("sandbox-encamp", ("acceptance",)),
    (
        "sandbox-encamp",
        (
            "sandbox",
            "digits",
            "job/identity-account",
            "job/a2-highgpu",
            "job/flex-start",
            "job/gpu-h100-mega",
            "job/gpu-h200",
            "job/gpu-l4",
            "job/identity-direct",
            "job/queued",
            "job/reservation",
            "job/spot-all-roles",
            "job/tpu-7x-multi-host",
            "job/tpu-v5e-single-host",
            "job/tuning-distributed",
        ),
    ),
)
STACKS = [stack for _, stacks in CLOUDS for stack in stacks]
#: Environments of ``environments/``, each in a cloud of its own: there is one control plane in each.
ENVIRONMENTS = ("with-queues", "with-drivers", "with-a-reaper", "with-access")
#: Jobs that cannot be made in this cloud alone, and why.
ELSEWHERE = {
    "own-service-account": "its account is of another project",
    "storage-given-account": "its account is of another project",
    "storage-own-bucket-given-account": "its account is of another project",
    "packages-and-requirements": "its packages lie on the author's disk",
    "packages-staging-bucket": "its packages lie on the author's disk",
    "queue-queued": "it runs in an environment of its own",
    "queue-spot": "it runs in an environment of its own",
}
JOBS = sorted(f"job/{name}" for name in planned_cases() if name not in ELSEWHERE)


def quiet(programs: Any, arguments: list[str], stack: str) -> None:
    """Nothing of a stack is refused, and nothing would be changed afterwards."""
    said = programs.ask({"twice": arguments})[stack]
    assert int(said.pop("")[0]) > 10
    assert said == {}


def test_every_committed_stack_is_brought_up() -> None:
    committed = {path.name.split(".")[1] for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml")}
    assert committed <= set(STACKS)


def test_every_job_case_is_brought_up() -> None:
    assert planned_cases().keys() >= ELSEWHERE.keys()
    assert len(JOBS) > 70


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_is_refused_and_nothing_would_be_changed_afterwards(programs: Any, stack: str) -> None:
    quiet(programs, [f"{project}={','.join(stacks)}" for project, stacks in CLOUDS], stack)


@pytest.mark.jobs
@pytest.mark.parametrize("stack", [*JOBS, *(f"environment/{name}" for name in ENVIRONMENTS)])
def test_every_job_case_and_environment_is_quiet(programs: Any, stack: str) -> None:
    jobs = f"sandbox-encamp=sandbox,{','.join(JOBS)}"
    quiet(programs, [jobs, *(f"my-lab-project=environment/{name}" for name in ENVIRONMENTS)], stack)
