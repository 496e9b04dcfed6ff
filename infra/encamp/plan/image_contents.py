"""The Python and the distributions of an image, as far as tables know it by the image's name.

Tables: ``spec/data/image_packages.json`` and ``runtimes.json``. No registry is asked.

Belief: stock-image-packages, python-image-packages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.plan.image_facts import stock_runtime
from encamp.spec.ai_platform import version_key
from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

#: Docker's own images of Python, such as ``python:3.11-slim``; caches of Docker Hub name them below ``library/``.
_PYTHON_IMAGE = re.compile(r"(?:(?:.*/)?library/|docker\.io/)?python:(3\.\d+)(?:\.\d+)?(?:-[\w.-]+)?")


@dataclass(frozen=True)
class ImageContents:
    """An image's Python and its distributions.

    Attributes:
        image: its name without registry, such as ``tensorflow/tensorflow:2.11.0``.
        runtime_version: that it stands for, None for an image that is no stock image.
        python: version of its Python, such as ``3.8``.
        packages: distributions that pip installed, with their versions; empty text for a version that is not known.
        system: distributions of its operating system beside them.
    """

    image: str
    runtime_version: str | None
    python: str
    packages: Mapping[str, str]
    system: Collection[str] = ()


def image_contents(image: str) -> ImageContents | None:
    """Return the contents of an image; None if no table knows it.

    Args:
        image: name and tag, also as a cache of Docker Hub names it.
    """
    if found := _PYTHON_IMAGE.fullmatch(image):
        name = f"python:{image.rpartition(':')[2]}"
        return ImageContents(name, None, found[1], dict.fromkeys(_python_packages(found[1]), ""))
    short = "/".join(image.split("/")[-2:])
    stock = stock_runtime(short)
    return stock_contents(stock[0], short) if stock is not None else None


def stock_contents(runtime_version: str, image: str | None = None) -> ImageContents:
    """Return the contents of a runtime version's stock image.

    Args:
        runtime_version: one that has a stock image.
        image: its name; the image for CPUs where none is given.
    """
    table, runtimes = data_file("image_packages"), data_file("runtimes")
    entry = runtimes["versions"][runtime_version]
    name = image or f"{runtimes['image']}:{entry['tag']}{entry['python3Suffix']}"
    packages = table["versions"][runtime_version]["packages"]
    return ImageContents(name, runtime_version, entry["python3"], packages, tuple(table["system"]))


def _python_packages(version: str) -> list[str]:
    """Return distributions of Docker's own image of a Python."""
    table = data_file("image_packages")["pythonImage"]
    older = version_key(version) <= version_key(table["upTo"]["python"])
    return [*table["packages"], *(table["upTo"]["packages"] if older else ())]
