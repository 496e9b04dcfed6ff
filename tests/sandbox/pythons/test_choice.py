"""What stands for an image here, and what is said of it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from encamp.plan.image_contents import ImageContents, stock_contents
from encamp_sandbox.pythons import choice
from encamp_sandbox.pythons.choice import difference, image_python, shown
from encamp_sandbox.pythons.report import versions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("cache")

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
STOCK = "tensorflow/tensorflow:2.11.0"


def finds(programs: Path, *modules: str) -> list[str]:
    """Those of some modules that a Python finds, without importing them."""
    code = f"import importlib.util as u; print(*(name for name in {modules} if u.find_spec(name)))"
    said = subprocess.run([programs / "python3", "-c", code], capture_output=True, text=True, check=True)
    return said.stdout.split()


def test_a_stock_image_has_tensorflow_and_nothing_of_the_sandbox() -> None:
    found = image_python(STOCK)
    assert found is not None
    asked = ("tensorflow", "tensorboard", "numpy", "h5py", "pip", "sklearn", "scipy", "pulumi", "encamp", "pytest")
    assert finds(found.programs, *asked) == ["tensorflow", "tensorboard", "numpy", "h5py", "pip"]
    assert {"pip", "tensorboard"} <= {path.name for path in found.programs.iterdir()}


def test_requirements_are_shown_where_the_sandbox_has_them() -> None:
    found = image_python(STOCK, ["scikit-learn>=1", "pulumi<1"])
    assert found is not None
    assert finds(found.programs, "sklearn", "scipy", "pulumi") == ["sklearn", "scipy"]


def test_an_image_of_python_has_nothing_but_pip() -> None:
    found = image_python(f"python:{HERE}-slim")
    assert found is not None
    assert finds(found.programs, "pip", "numpy", "tensorflow") == ["pip"]
    assert difference(f"python:{HERE}-slim") == ""


def test_what_is_missing_and_what_is_more_is_known() -> None:
    found = shown(stock_contents("2.11"))
    assert "tensorflow-estimator" in found.lacking
    assert "ml-dtypes" in found.beyond
    assert "pip" not in found.beyond
    assert {"tensorflow-cpu", "tensorboard"} & found.names


def test_a_distribution_that_does_not_work_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    have = dict(choice.installed())
    del have["h5py"]
    monkeypatch.setattr(choice, "installed", lambda: have)
    found = shown(ImageContents("x", None, HERE, {"tensorflow": "", "numpy": ""}))
    assert (found.lacking, "numpy" in found.names) == (("tensorflow",), True)


def test_the_difference_names_both_pythons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    said = difference(STOCK)
    assert said.startswith(f"the image of 2.11 has Python 3.8, TensorFlow 2.11.0; the sandbox {HERE}, ")
    assert said.endswith(" (encamp sandbox images pull 2.11)")
    assert "pull" not in difference("tensorflow/tensorflow:1.4.1-py3"), "no tool brings Python 3.5"
    assert difference("python:3.6") == f"python:3.6 has Python 3.6; the sandbox runs it with {HERE}"
    assert difference("tensorflow/tensorflow:2.11.0-gpu") == said, "one line is enough for a job"


def test_of_an_unknown_image_the_whole_python_of_the_sandbox_is_used_and_said() -> None:
    own = "us-docker.pkg.dev/acme/team/trainer:7"
    assert image_python(own) is None
    assert difference(own).startswith(f"nothing is known of {own}; the sandbox runs it with its own Python {HERE}")


def test_every_runtime_version_is_reported() -> None:
    found = {one.version: one for one in versions()}
    assert not any(one.exact for one in found.values())
    assert "pull 2.11" in found["2.11"].text
    assert not found["1.4"].possible
    assert "scikit-learn" not in found["2.11"].beyond
    assert found["2.11"].to_json()["tensorflow"] == "2.11.0"
