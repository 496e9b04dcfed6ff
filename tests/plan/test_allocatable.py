from __future__ import annotations

import json
from pathlib import Path

import pytest

from encamp.errors import PlanError
from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE, allocatable, capacity, replica_request
from encamp.plan.model import Accelerator
from encamp.spec import data_files

DATA = Path(data_files.__file__).parent / "data"
MACHINES = json.loads((DATA / "machines.json").read_bytes())
TPU_MACHINES = [
    name
    for kind in json.loads((DATA / "tpus.json").read_bytes()).values()
    for name, host in kind["machines"].items()
    if host["vcpu"] is not None
]
EVERY = [name for name, entry in MACHINES.items() if entry["vcpu"] > 1] + TPU_MACHINES


@pytest.mark.parametrize("name", EVERY)
def test_one_replica_fits_a_node_and_two_do_not(name: str) -> None:
    node, replica = allocatable(name), replica_request(name)
    assert 0 < replica.cpu_millis < node.cpu_millis < capacity(name).cpu_millis
    assert 0 < replica.memory_mib < node.memory_mib < capacity(name).memory_mib
    assert 2 * replica.cpu_millis > node.cpu_millis
    assert node.memory_mib - replica.memory_mib >= 250
    assert node.cpu_millis - replica.cpu_millis >= 150


def test_gke_reserves_what_its_documentation_says() -> None:
    # n1-standard-4: 60 + 10 + 2 x 5 millis; 25 % of 4 GiB + 20 % of 4 + 10 % of 7, and 100 MiB of eviction.
    whole, node = capacity("n1-standard-4"), allocatable("n1-standard-4")
    assert whole.cpu_millis - node.cpu_millis == 80
    assert whole.memory_mib - node.memory_mib == round((1.0 + 0.8 + 0.7) * 1024) + 100


def test_devices_are_part_of_a_node() -> None:
    assert allocatable("n1-standard-8", Accelerator("nvidia-tesla-t4", 2)).devices == {GPU_RESOURCE: 2}
    assert allocatable("a2-highgpu-4g").devices == {GPU_RESOURCE: 4}
    assert allocatable("ct3-hightpu-4t").devices == {TPU_RESOURCE: 4}


def test_unknown_machines_are_refused() -> None:
    with pytest.raises(PlanError, match="x9-huge"):
        allocatable("x9-huge")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_every_table_says_where_it_comes_from(path: Path) -> None:
    assert '"source"' in path.read_text(encoding="utf-8")
