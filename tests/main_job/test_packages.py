"""Packages of this machine, requirements and flags instead of a job file: through pip in a replica, no network."""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from encamp.packaging.wheel import stored_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.camp import Camp

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

REPOSITORY = Path(__file__).resolve().parents[2]
TASK = """
import subprocess, sys
import deimos, numpy, phobos, pytest
print("phobos", phobos.SIZE, "deimos", deimos.__name__, "arguments", sys.argv[1:])
print("script", subprocess.run(["orbit"], capture_output=True, text=True, check=True).stdout.strip())
print("installed anew:", [one.__name__ for one in (pytest, numpy) if "encamp-run" in one.__file__])
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import os, zipfile
INFO = "phobos-1.0.dist-info"
NEEDED = ("Requires-Dist: pytest", "Requires-Dist: numpy")
METADATA = ("Metadata-Version: 2.1", "Name: phobos", "Version: 1.0", *NEEDED, "")
WHEEL = ("Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any", "")
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "phobos-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr("phobos.py", "SIZE = 22")
        archive.writestr(INFO + "/METADATA", chr(10).join(METADATA))
        archive.writestr(INFO + "/WHEEL", chr(10).join(WHEEL))
        archive.writestr(INFO + "/RECORD", "")
    return name
"""


def source_archive(path: Path, backend: str) -> str:
    """A source archive with a build backend of its own, which needs nothing from elsewhere."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"pyproject.toml": PROJECT, "backend.py": backend}.items():
            member = tarfile.TarInfo(f"phobos-1.0/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def wheel(path: Path, name: str, **scripts: str) -> str:
    """A wheel of one empty module and scripts."""
    info = f"{name}-1.0.dist-info"
    members = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
        **{f"{name}-1.0.data/scripts/{script}": text for script, text in scripts.items()},
    }
    path.write_bytes(stored_zip({member: (text.encode(), 0o100755) for member, text in members.items()}))
    return str(path)


@pytest.fixture
def visible() -> Iterator[Path]:
    """A folder that replicas see: the interpreter's own is there in every pod of the sandbox, wherever it lies."""
    folder = Path(sys.prefix) / f"test-{uuid.uuid4().hex}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def trainer(folder: Path) -> list[str]:
    """A trainer package and the flags of a job that runs it."""
    (folder / "trainer").mkdir()
    (folder / "trainer" / "__init__.py").write_text("")
    (folder / "trainer" / "task.py").write_text(TASK)
    flags = {
        "package-path": str(folder / "trainer"),
        "module-name": "trainer.task",
        "region": "us-central1",
        "runtime-version": "2.11",
        "python-version": "3.7",
    }
    return [word for flag, value in flags.items() for word in (f"--{flag}", value)]


def test_flags_alone_run_a_job_with_packages_and_requirements(camp: Camp, tmp_path: Path, visible: Path) -> None:
    packages = [
        source_archive(tmp_path / "phobos-1.0.tar.gz", BACKEND),
        wheel(tmp_path / "deimos-1.0-py3-none-any.whl", "deimos", orbit="#!python\nprint('around mars')\n"),
    ]
    needed = wheel(visible / "mars-1.0-py3-none-any.whl", "mars")
    said = camp.encamp(
        "run",
        "--job-id",
        "with_packages",
        *trainer(tmp_path),
        *("--packages", ",".join(packages)),
        *("--requirement", f"mars @ file://{needed}", "--requirement", "pytest>=1"),
        *("--", "--epochs=2"),
    )
    log = camp.read("with_packages", "logs/master-replica-0.log")
    assert "phobos 22 deimos deimos arguments ['--epochs=2']" in log
    assert "script around mars" in log
    assert "installed anew: []" in log
    order = [said.index(word) for word in ("mars-1.0-py3", "packages/", "phobos-1.0.tar", "Running task")]
    assert order == sorted(order)
    receipt = camp.receipt("with_packages")
    assert receipt["outcome"]["state"] == "SUCCEEDED"
    assert sum(resource["name"].startswith("package-") for resource in receipt["resources"]) == 3
    camp.assert_nothing_left("with_packages")


def test_a_package_that_cannot_be_installed_is_no_training_failure(camp: Camp, tmp_path: Path) -> None:
    broken = source_archive(tmp_path / "phobos-1.0.tar.gz", "raise SystemExit('the moon is not full')")
    said = camp.encamp("run", "--job-id", "not_installed", *trainer(tmp_path), "--packages", broken, code=1)
    message = "the packages could not be installed on master-replica-0: pip could not install phobos-1.0.tar.gz"
    assert f"the job is FAILED: {message}" in said
    outcome = camp.receipt("not_installed")["outcome"]
    assert outcome["message"] == message
    assert outcome["failure"]["reason"] == "PackageInstallFailed"
    assert outcome["failure"]["lastLines"][-1] == "pip could not install phobos-1.0.tar.gz"
    assert "the moon is not full" in camp.read("not_installed", "logs/master-replica-0.log")
    assert said.count("Downloading the package") == 1, "an installation that fails is not tried again"
    camp.assert_nothing_left("not_installed")
