from __future__ import annotations

import json
from pathlib import Path

import pytest

from encamp.errors import PlanError
from encamp.plan.machines.allocatable import GPU_RESOURCE, TPU_RESOURCE, allocatable, capacity, disk_amounts
from encamp.plan.model import Accelerator
from encamp.spec import data_files

DATA = Path(data_files.__file__).parent / "data"


def test_a_recorded_node_of_gke_is_predicted() -> None:
    # kubectl describe node, n2-standard-4, GKE 1.36.3, no image streaming: 3920m and 13591652Ki of 16380004Ki.
    whole, node = capacity("n2-standard-4"), allocatable("n2-standard-4", image_streaming=False)
    assert whole.cpu_millis == 4000
    assert whole.memory_mib == 16380004 // 1024
    assert node.cpu_millis == 3920
    assert node.memory_mib == pytest.approx(13591652 / 1024, abs=1)


def test_the_disk_of_a_recorded_node_of_gke_is_predicted() -> None:
    # The same node with a boot disk of 100 GiB: 47060071478 bytes of 98831908Ki.
    whole, usable = disk_amounts(100)
    assert whole == pytest.approx(98831908 / 2**20, abs=0.01)
    assert usable == pytest.approx(47060071478 / 2**30, abs=0.01)


def test_image_streaming_takes_memory() -> None:
    less = allocatable("n1-standard-4", image_streaming=True)
    more = allocatable("n1-standard-4", image_streaming=False)
    assert more.memory_mib - less.memory_mib == 101  # 4 % of 1000 + 800 + 736 MiB
    assert less.cpu_millis == more.cpu_millis


def test_devices_are_part_of_a_node() -> None:
    assert allocatable("n1-standard-8", Accelerator("nvidia-tesla-t4", 2)).devices == {GPU_RESOURCE: 2}
    assert allocatable("a2-highgpu-4g").devices == {GPU_RESOURCE: 4}
    assert allocatable("ct3-hightpu-4t").devices == {TPU_RESOURCE: 4}


def test_arm_machines_have_figures_of_their_own() -> None:
    assert 0 < allocatable("a4x-highgpu-4g").memory_mib < capacity("a4x-highgpu-4g").memory_mib < 884 * 1024


def test_unknown_machines_are_refused() -> None:
    with pytest.raises(PlanError, match="x9-huge"):
        allocatable("x9-huge")


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.name)
def test_every_table_says_where_it_comes_from(path: Path) -> None:
    assert '"source"' in path.read_text(encoding="utf-8")
    assert isinstance(json.loads(path.read_bytes()), dict)
