"""What a job needs besides its trainer's folder."""

from __future__ import annotations

import os
import sys
import zipfile
from functools import partialmethod
from pathlib import Path

import pytest

from encamp.cloud.rest import GoogleClient
from encamp.errors import UsageError
from encamp.retries import SHORT
from encamp.run.local.interpreter import Interpreter
from encamp.run.local.packages import check_requirements, fetch, install, lacking

OURS = Interpreter(Path(sys.executable), None)


@pytest.fixture
def python(tmp_path: Path) -> Interpreter:
    """A Python with numpy 1.26.4 and scikit-learn 1.5.0."""
    for name in ("numpy-1.26.4.dist-info", "scikit_learn-1.5.0-py3.11.egg-info", "broken"):
        (tmp_path / name).mkdir()
    return Interpreter(Path("/opt/python"), (tmp_path,))


@pytest.mark.parametrize(
    ("requirement", "there"),
    [
        ("numpy", True),
        ("NumPy>=1.26,<2", True),
        ("numpy>=2", False),
        ("scikit-learn==1.5.0", True),
        ("scikit.learn", True),
        ("pandas", False),
        ("pandas; python_version < '3'", True),
    ],
)
def test_what_a_python_lacks_is_told_by_its_files(python: Interpreter, requirement: str, there: bool) -> None:
    assert lacking([requirement], python) == ([] if there else [requirement])


def test_all_that_is_missing_is_named_with_the_command_that_installs_it(python: Interpreter) -> None:
    check_requirements(["numpy"], python)
    with pytest.raises(UsageError, match=r"/opt/python lacks pandas>=2, torch") as caught:
        check_requirements(["pandas>=2", "numpy", "torch"], python)
    assert caught.value.hint is not None
    assert "/opt/python -m pip install 'pandas>=2' 'torch'" in caught.value.hint


def test_a_python_that_cannot_be_looked_into_is_believed() -> None:
    assert lacking(["pandas"], OURS) == []


def wheel(path: Path, members: dict[str, str]) -> Path:
    """A wheel with these files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_pure_wheels_are_unpacked_in_order(tmp_path: Path) -> None:
    first = wheel(tmp_path / "a-1-py3-none-any.whl", {"a/__init__.py": "1", "shared.py": "first"})
    second = wheel(tmp_path / "b-1-py3-none-any.whl", {"b/__init__.py": "2", "shared.py": "second"})
    target = tmp_path / "target"
    install([first, second], target, OURS)
    assert (target / "a/__init__.py").read_text() == "1"
    assert (target / "b/__init__.py").read_text() == "2"
    assert (target / "shared.py").read_text() == "second"


def test_a_broken_wheel_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "a-1-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="cannot be unpacked"):
        install([broken], tmp_path / "target", OURS)


def test_other_archives_are_pips_and_its_last_words_are_told(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "$@" >> "$0.log"\necho "no such thing"\nexit $(cat "$0.code")\n')
    program.chmod(0o755)
    archive = tmp_path / "trainer-1.tar.gz"
    code = tmp_path / "python.code"
    code.write_text("0")
    install([archive], tmp_path / "target", Interpreter(program, None))
    asked = (tmp_path / "python.log").read_text().split()
    assert asked[:3] == ["-m", "pip", "install"]
    assert asked[-3:] == ["--target", str(tmp_path / "target"), str(archive)]
    assert "--no-deps" in asked
    code.write_text("1")
    with pytest.raises(UsageError, match=r"(?s)could not install trainer-1\.tar\.gz.*no such thing"):
        install([archive], tmp_path / "target", Interpreter(program, None))


def test_packages_of_a_cloud_that_cannot_be_reached_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch([], tmp_path) == []
    for name in list(os.environ):
        if name.startswith(("CLOUDSDK_", "GOOGLE_", "API_ENDPOINT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", "http://127.0.0.1:9/")
    once = partialmethod(GoogleClient.__init__, policy=SHORT.at_most(1))
    monkeypatch.setattr("encamp.cloud.rest.GoogleClient.__init__", once)
    with pytest.raises(UsageError, match="cannot be read from here") as caught:
        fetch(["gs://bucket/packages/trainer-1.tar.gz"], tmp_path / "fetched")
    assert caught.value.where == "trainingInput.packageUris"
