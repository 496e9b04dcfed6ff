"""What programs hand to the provider: nothing empty, and no secret among what they export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.job_cases import planned_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Resources = dict[str, dict[str, Any]]

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
#: Cases that need more than their job file: packed packages, an environment with the teams that they name.
ELSEWHERE = {"packages-and-requirements", "packages-staging-bucket", "queue-queued", "queue-spot"}
JOBS = sorted(f"job/{name}" for name in planned_cases() if name not in ELSEWHERE)
ENVIRONMENTS = sorted(f"environment/{path.stem}" for path in TESTS.glob("components/environments/*.yaml"))
COMMITTED = sorted(path.name.split(".")[1] for path in (TESTS.parent / "stacks").glob("Pulumi.*.yaml"))
PROGRAMS = (*JOBS, *ENVIRONMENTS, *COMMITTED)
#: An empty value that the provider needs, with the reason.
NEEDED = {
    "gcp:container/nodePool:NodePool placementPolicy.type": "required beside a policy's name, where GKE takes no type",
}

#: Filled in by GKE on machines with local disks of their own, where the provider replaces a pool that lacks them.
SERVER_FILLED = (
    "nodeConfig.ephemeralStorageLocalSsdConfig",
    "nodeConfig.gvnic",
    "nodeConfig.localNvmeSsdBlockConfig",
)


def empty(value: Any, path: str) -> Iterator[str]:
    """Paths of empty lists, objects and texts."""
    if value in ([], {}, ""):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from empty(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from empty(item, path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_empty_is_sent(registered: Callable[[str], Resources], program: str) -> None:
    found = {
        f"{key.partition(' ')[0]} {path}"
        for key, inputs in registered(program).items()
        if key.startswith("gcp:")
        for path in empty(inputs, "")
    }
    assert found - set(NEEDED) == set()


@pytest.mark.parametrize("program", [*ENVIRONMENTS, *COMMITTED])
def test_no_output_of_a_stack_is_secret(noted: Callable[[str], dict[str, Any]], program: str) -> None:
    assert noted(program)["secret"] == []


@pytest.mark.parametrize("program", ["job/gpu-h100", "job/gpu-b200", "production"])
def test_disks_and_drivers_that_gke_fills_in_replace_no_pool(
    noted: Callable[[str], dict[str, Any]], program: str
) -> None:
    ignored = noted(program)["ignored"]
    pools = [paths for key, paths in ignored.items() if key.startswith("gcp:container/nodePool:NodePool")]
    assert pools
    for paths in pools:
        assert set(SERVER_FILLED) <= set(paths)
