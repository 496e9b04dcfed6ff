"""What may be written of an environment's queues."""

from __future__ import annotations

from typing import Any

import pytest

from encamp.errors import SpecError
from encamp.spec.environment import parse_environment

DATA = {"name": "lab", "region": "us-central1", "artifactsBucket": "lab-artifacts"}
L4 = {"provisioning": "SPOT", "accelerator": "NVIDIA_L4", "count": 8}


def problems(**queues: Any) -> set[str]:
    """The paths of what is wrong."""
    try:
        parse_environment(DATA | {"queues": queues}, project="my-project", source="x")
    except SpecError as error:
        return {problem.path for problem in error.problems}
    return set()


def team(*quotas: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"research": {"quotas": list(quotas), **more}}


def test_queues_of_two_teams() -> None:
    queues = {
        "default": "research",
        "teams": team(L4, {"cpu": 64, "memoryGib": "256"}) | {"vision": {"quotas": [L4], "borrow": False}},
        "priorities": {"low": 10, "high": 100},
        "preemption": "lower-priority",
    }
    assert problems(**queues) == set()
    spec = parse_environment(DATA | {"queues": queues}, project="my-project", source="x").queues
    assert spec is not None
    assert spec.teams is not None
    assert (spec.longest_wait_hours, spec.teams["research"].borrow, spec.teams["vision"].borrow) == (168, True, False)
    assert spec.teams["research"].quotas[1].memory_gib == 256


@pytest.mark.parametrize(
    ("queues", "path"),
    [
        ({}, "queues.teams"),
        ({"teams": {"Research": {"quotas": [L4]}}}, "queues.teams.Research"),
        ({"teams": {"research": {}}}, "queues.teams.research.quotas"),
        ({"teams": team({"count": 8})}, "queues.teams.research.quotas[0].count"),
        ({"teams": team(L4, L4 | {"count": 1})}, "queues.teams.research.quotas[1]"),
        ({"teams": team(L4 | {"accelerator": "NVIDIA_L5"})}, "queues.teams.research.quotas[0].accelerator"),
        ({"teams": team({"accelerator": "v5e"})}, "queues.teams.research.quotas[0].count"),
        ({"teams": team({"cpu": -1})}, "queues.teams.research.quotas[0].cpu"),
        ({"teams": team({"provisioning": "QUEUED", "cpu": 1})}, "queues.teams.research.quotas[0].provisioning"),
        ({"teams": team(L4), "default": "reserch"}, "queues.default"),
        ({"teams": team(L4), "preemption": "lower-priority"}, "queues.preemption"),
        ({"teams": team(L4), "preemption": "always"}, "queues.preemption"),
        ({"teams": team(L4), "priorities": {"Low": 1}}, "queues.priorities.Low"),
        ({"teams": team(L4), "priorities": {"low": 2**31}}, "queues.priorities.low"),
        ({"teams": team(L4), "longestWaitHours": 0}, "queues.longestWaitHours"),
        ({"teams": team(L4 | {"gpus": 1})}, "queues.teams.research.quotas[0].gpus"),
    ],
)
def test_wrong_queues_say_where(queues: dict[str, Any], path: str) -> None:
    assert problems(**queues) == {path}


def test_kueue_takes_so_many_kinds_of_machines() -> None:
    accelerators = ["NVIDIA_L4", "NVIDIA_TESLA_T4", "NVIDIA_B200", "NVIDIA_GB200", "v4", "v5e", "v5p", "v6e", "7x"]
    accelerators += ["NVIDIA_TESLA_A100", "NVIDIA_A100_80GB", "NVIDIA_H100_80GB", "NVIDIA_H200_141GB"]
    kinds = ["ON_DEMAND", "SPOT", "FLEX_START", "QUEUED", "RESERVATION"]
    quotas = [{"accelerator": one, "provisioning": kind, "count": 1} for one in accelerators for kind in kinds]
    assert problems(teams=team(*quotas[:64])) == set()
    assert problems(teams=team(*quotas)) == {"queues.teams"}
