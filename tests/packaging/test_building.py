"""Trainers that bring a build file: built by it, in a copy, once."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from encamp.errors import PlanError, UsageError
from encamp.packaging.archives import normal_sdist, normal_wheel
from encamp.packaging.local import local_packages
from encamp.packaging.wheel import stored_zip

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.plan.model import LocalPackage
    from encamp.spec.job_file import JobFile

pytestmark = pytest.mark.slow

SETUP = "from setuptools import setup, find_packages\nsetup(name='my-trainer', version='3', packages=find_packages())\n"
#: A build backend without any requirement; what it makes is in its own words.
BACKEND = """
import os, zipfile
def _made(folder, name, members):
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for path, text in members.items():
            archive.writestr(path, text)
    return name
def build_wheel(folder, config_settings=None, metadata_directory=None):
    members = {"trainer/__init__.py": "", "trainer/made.py": "print(1)"}
    members |= {"t-1.dist-info/METADATA": "", "t-1.dist-info/WHEEL": "", "t-1.dist-info/RECORD": ""}
    return _made(folder, "t-1-py3-none-any.whl", members)
"""
BACKEND_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture(scope="session")
def setuptools_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed setuptools as a wheel in a folder, so that isolated builds need no network."""
    folder = tmp_path_factory.mktemp("index")
    found = importlib.metadata.distribution("setuptools")
    members = {
        str(path): (Path(str(found.locate_file(path))).read_bytes(), 0o644)
        for path in found.files or ()
        if "__pycache__" not in path.parts and not str(path).startswith("..")
    }
    (folder / f"setuptools-{found.version}-py3-none-any.whl").write_bytes(stored_zip(members))
    return folder


@pytest.fixture(autouse=True)
def _offline(setuptools_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(setuptools_index))


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def packed(job_file: JobFile) -> LocalPackage:
    (found,) = local_packages(job_file)
    return found


def names(package: LocalPackage) -> set[str]:
    with zipfile.ZipFile(package.path) as archive:
        return set(archive.namelist())


def test_a_setup_py_is_used_and_leaves_no_trace(project: Path, job_file: Callable[..., JobFile]) -> None:
    (project / "setup.py").write_text(SETUP)
    (project / "build" / "lib" / "stale").mkdir(parents=True)
    (project / "build" / "lib" / "stale" / "__init__.py").write_bytes(b"")
    found = job_file()
    before = tree(project)
    made = packed(found)
    assert tree(project) == before
    assert made.file_name == "my_trainer-3-py3-none-any.whl"
    assert {"trainer/task.py", "trainer/models/__init__.py"} <= names(made)
    assert not any(name.startswith(("stale", "build")) for name in names(made))
    assert normal_wheel(made.path.read_bytes()) == made.path.read_bytes()
    target = project.parent / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, made.path]
    subprocess.run(command, check=True, capture_output=True)
    assert (target / "trainer" / "models" / "__init__.py").exists()


def test_the_same_sources_are_built_once_and_into_the_same_bytes(
    project: Path, job_file: Callable[..., JobFile], cache: Path
) -> None:
    (project / "pyproject.toml").write_text(BACKEND_PROJECT)
    (project / "backend.py").write_text(BACKEND)
    first = packed(job_file())
    assert "trainer/made.py" in names(first)
    os.utime(project / "trainer" / "task.py", (1, 1))
    (project / ".git").mkdir()
    (project / ".git" / "index").write_bytes(b"x")
    (project / "backend.py").chmod(0o600)
    assert packed(job_file()) == first
    assert len(list(cache.iterdir())) == 1
    first.path.unlink()
    assert packed(job_file()) == first
    (project / "trainer" / "task.py").write_text("print(3)")
    packed(job_file())
    assert len(list(cache.iterdir())) == 2


def test_a_wheel_of_this_machine_gives_way_to_the_sources(project: Path, job_file: Callable[..., JobFile]) -> None:
    (project / "setup.py").write_text(
        "from setuptools import setup, Distribution\n"
        "class Compiled(Distribution):\n    def has_ext_modules(self):\n        return True\n"
        "setup(name='trainer', version='1', packages=['trainer'], distclass=Compiled)\n"
    )
    made = packed(job_file())
    assert made.file_name == "trainer-1.tar.gz"
    with tarfile.open(made.path) as archive:
        members = archive.getmembers()
    assert {"trainer-1/setup.py", "trainer-1/trainer/task.py"} <= {member.name for member in members}
    assert {member.mtime for member in members} == {0}
    assert normal_sdist(made.path.read_bytes()) == made.path.read_bytes()


def test_a_build_that_fails_says_why(project: Path, job_file: Callable[..., JobFile]) -> None:
    (project / "pyproject.toml").write_text(BACKEND_PROJECT)
    (project / "backend.py").write_text("raise SystemExit('the moon is not full')")
    with pytest.raises(UsageError, match=r"packing the trainer failed(?s:.*)the moon is not full") as caught:
        local_packages(job_file())
    assert caught.value.exit_code == 2


def test_a_build_file_of_something_else_is_told(project: Path, job_file: Callable[..., JobFile]) -> None:
    (project / "pyproject.toml").write_text(BACKEND_PROJECT)
    (project / "backend.py").write_text(BACKEND.replace("trainer/", "other/"))
    with pytest.raises(PlanError, match=r"pyproject.toml beside trainer does not pack it: .* holds other"):
        local_packages(job_file())


@pytest.mark.parametrize("text", ["[tool.ruff]\nline-length = 100\n", ""])
def test_settings_of_tools_are_no_build_file(project: Path, job_file: Callable[..., JobFile], text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert packed(job_file()).file_name == "trainer-0.0.0-py3-none-any.whl"


def test_a_build_inside_a_running_event_loop(project: Path, job_file: Callable[..., JobFile]) -> None:
    import asyncio  # noqa: PLC0415 - as the engine's program does

    (project / "pyproject.toml").write_text(BACKEND_PROJECT)
    (project / "backend.py").write_text(BACKEND)

    async def program() -> LocalPackage:
        return packed(job_file())

    assert asyncio.run(program()).file_name == "t-1-py3-none-any.whl"


def test_an_interrupt_ends_the_build(project: Path, job_file: Callable[..., JobFile]) -> None:
    (project / "pyproject.toml").write_text(BACKEND_PROJECT)
    mark = project.parent / "pid"
    waiting = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(99)"
    (project / "backend.py").write_text(waiting)

    def interrupt() -> None:
        while not mark.exists() or not mark.read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        local_packages(job_file())
    # Where nobody waits for orphans, the ended one stays listed.
    left = [one for one in psutil.process_iter() if one.pid == int(mark.read_text())]
    assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []


def test_given_archives_come_first(project: Path, job_file: Callable[..., JobFile]) -> None:
    wheel = stored_zip({"a.py": (b"", 0o644), "a-1.dist-info/WHEEL": (b"", 0o644)})
    (project / "a-1-py3-none-any.whl").write_bytes(wheel)
    found = local_packages(job_file("packages: [a-1-py3-none-any.whl]", "packagePath: trainer"))
    assert [one.file_name for one in found] == ["a-1-py3-none-any.whl", "trainer-0.0.0-py3-none-any.whl"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a-1-py3-none-any.whl", b"no zip", "cannot be read"),
        ("a-1-py3-none-any.whl", stored_zip({"a.py": (b"", 0o644)}), "is no wheel"),
        ("a.whl", stored_zip({"a-1.dist-info/WHEEL": (b"", 0o644)}), "no name of a wheel"),
        ("a-1.tar.gz", b"\x1f\x8b\x08cut", "cannot be read"),
        ("a-1.zip", stored_zip({"a.py": (b"", 0o644)}), "is no source archive"),
    ],
)
def test_archives_that_pip_would_refuse_are_refused(
    project: Path, job_file: Callable[..., JobFile], name: str, content: bytes, words: str
) -> None:
    (project / name).write_bytes(content)
    with pytest.raises(PlanError, match=words) as caught:
        local_packages(job_file(f"packages: [{name}]"))
    assert caught.value.where == "encamp.packages[0]"


def test_a_missing_archive_is_named(job_file: Callable[..., JobFile]) -> None:
    with pytest.raises(UsageError, match=r"'a-1\.zip'"):
        local_packages(job_file("packages: [a-1.zip]"))
