"""Known facts of a container image: its CUDA, its CPU architectures, and whether it is built for TPUs.

Tables: ``spec/data/runtimes.json`` for the stock images of runtime versions, ``spec/data/images.json`` for others. No
registry is asked: of an image that no table knows, nothing is known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class ImageFacts:
    """Facts about an image; None if nothing is known.

    Attributes:
        cuda: version of its CUDA.
        architectures: CPUs that it runs on, in Kubernetes' words.
        tpus: whether its framework is built for TPUs.
    """

    cuda: str | None = None
    architectures: tuple[str, ...] | None = None
    tpus: bool | None = None


def image_facts(image: str) -> ImageFacts:
    """Return the tables' facts of an image, by its name and tag."""
    repository, _, tag = image.partition("@")[0].rpartition(":")
    stock = data_file("runtimes")
    if repository == stock["image"]:
        found = next((entry for entry in stock["versions"].values() if _is_tag_of(tag, entry)), None)
        cuda = found["cuda"] if found is not None and "-gpu" in tag else None
        return ImageFacts(cuda, tuple(stock["architectures"]) if found is not None else None, tpus=False)
    table = data_file("images")
    for entry in table["gpu"]:
        if repository in (entry["repository"], f"docker.io/{entry['repository']}"):
            named = re.search(entry["cuda"], tag)
            architectures = entry["architectures"]
            return ImageFacts(named[1] if named else None, tuple(architectures) if architectures else None, tpus=False)
    if any(repository == entry["repository"] for entry in table["tpu"]):
        return ImageFacts(tpus=True)
    return ImageFacts()


def newest_stock_cuda() -> str:
    """Return the newest CUDA of a stock image: what GPUs need beyond it, no runtime version has."""
    return max((entry["cuda"] for entry in data_file("runtimes")["versions"].values()), key=_numbers)


def stock_runtime(image: str) -> tuple[str, str] | None:
    """Return the runtime version that a stock image stands for, and its Python; None for any other image."""
    table = data_file("runtimes")
    repository, _, tag = image.rpartition(":")
    if repository.removeprefix("docker.io/") != table["image"]:
        return None
    for version, entry in table["versions"].items():
        if tag in {f"{entry['tag']}{gpu}{entry['python3Suffix']}" for gpu in ("", "-gpu")}:
            return version, entry["python3"]
    return None


def is_older(version: str, least: str) -> bool:
    """Whether a version such as ``11.2`` comes before another."""
    return _numbers(version) < _numbers(least)


def tpu_examples() -> Mapping[str, str]:
    """Return images that run on TPUs, by framework."""
    return {entry["framework"]: entry["example"] for entry in data_file("images")["tpu"]}


def installs_tpu_support(requirements: Sequence[str]) -> bool:
    """Whether one of a job's requirements brings a framework that is built for TPUs."""
    table = data_file("images")["tpuRequirements"]
    wanted = [*(re.escape(name) + r"(?![\w-])" for name in table["names"]), *map(re.escape, table["extras"])]
    return any(re.match(pattern, text.replace(" ", "")) for text in requirements for pattern in wanted)


def _is_tag_of(tag: str, entry: Mapping[str, Any]) -> bool:
    return tag == entry["tag"] or tag.startswith(f"{entry['tag']}-")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
