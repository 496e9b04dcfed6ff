"""What tables know of images by their names, whoever serves them."""

from __future__ import annotations

import pytest

from encamp.plan.image_contents import image_contents
from encamp.plan.images import runtime_image
from encamp.spec.data_files import data_file

#: Images that were made for notebooks.
BY_NOTEBOOKS = {f"1.{minor}" for minor in range(4, 13)}
CACHE = "us-central1-docker.pkg.dev/acme-ml/encamp-docker-hub"


@pytest.mark.parametrize("version", list(data_file("runtimes")["versions"]))
@pytest.mark.parametrize("gpu", [False, True])
def test_every_stock_image_is_known(version: str, *, gpu: bool) -> None:
    chosen = runtime_image(version, "3", gpu=gpu)
    found = image_contents(chosen.image)
    assert found is not None
    assert (found.runtime_version, found.python, found.image) == (version, chosen.python, chosen.image)
    assert found.packages["tensorflow"] == data_file("runtimes")["versions"][version]["tag"]
    assert ("scikit-learn" in found.packages) == (version in BY_NOTEBOOKS)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        (f"{CACHE}/tensorflow/tensorflow:2.11.0-gpu", "tensorflow/tensorflow:2.11.0-gpu"),
        ("docker.io/tensorflow/tensorflow:2.11.0", "tensorflow/tensorflow:2.11.0"),
        ("python:3.8", "python:3.8"),
        ("python:3.11.7-slim-bookworm", "python:3.11.7-slim-bookworm"),
        (f"{CACHE}/library/python:3.11-slim", "python:3.11-slim"),
    ],
)
def test_a_cache_of_docker_hub_serves_the_same_images(image: str, name: str) -> None:
    found = image_contents(image)
    assert found is not None
    assert found.image == name


@pytest.mark.parametrize(
    "image",
    [
        "trainer",
        "tensorflow/tensorflow:latest",
        "tensorflow/tensorflow:2.11.0-jupyter",
        "us-docker.pkg.dev/acme/team/python:3.11",
        f"tensorflow/tensorflow@sha256:{'0' * 64}",
        "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime",
        "",
    ],
)
def test_of_other_images_nothing_is_known(image: str) -> None:
    assert image_contents(image) is None


@pytest.mark.parametrize(
    ("image", "packages"), [("python:3.11", {"pip", "setuptools", "wheel"}), ("python:3.12", {"pip"})]
)
def test_an_image_of_python_has_pip_alone(image: str, packages: set[str]) -> None:
    found = image_contents(image)
    assert found is not None
    assert set(found.packages) == packages
    assert found.runtime_version is None
