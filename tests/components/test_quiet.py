"""A preview right after an up is empty: of every committed stack, and of jobs of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
#: Stacks by the cloud that they are brought up in, one after the other.
CLOUDS = {
    "acme-ml": ("production", "production-digits"),
    "my-lab-project": ("environment/with-an-api",),
    "sandbox-encamp": (
        "sandbox",
        "digits",
        "golden/identity-account",
        "golden/identity-direct",
        "golden/queued",
        "golden/tpu-7x-multi-host",
        "golden/tuning-distributed",
    ),
}
STACKS = [stack for stacks in CLOUDS.values() for stack in stacks]


def test_every_committed_stack_is_brought_up() -> None:
    committed = {path.name.split(".")[1] for path in (REPOSITORY / "stacks").glob("Pulumi.*.yaml")}
    assert committed <= set(STACKS)


@pytest.mark.parametrize("stack", STACKS)
def test_nothing_is_refused_and_nothing_would_be_changed_afterwards(programs: Any, stack: str) -> None:
    arguments = [f"{project}={','.join(stacks)}" for project, stacks in CLOUDS.items()]
    said = programs.ask({"twice": arguments})[stack]
    assert int(said.pop("")[0]) > 10
    assert said == {}
