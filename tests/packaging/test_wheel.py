from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError, UsageError
from encamp.packaging.files import read_files
from encamp.packaging.local import local_packages
from encamp.packaging.wheel import pack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from encamp.spec.job_file import JobFile


def test_the_same_files_are_the_same_bytes(project: Path, job_file: Callable[..., JobFile]) -> None:
    (first,) = local_packages(job_file())
    os.utime(project / "trainer" / "task.py", (1, 1))
    (project / "trainer" / "task.py").chmod(0o600)
    assert local_packages(job_file()) == (first,)
    assert hashlib.sha256(first.path.read_bytes()).hexdigest() == first.sha256
    (project / "trainer" / "task.py").write_bytes(b"print(2)\n")
    (second,) = local_packages(job_file())
    assert second.sha256 != first.sha256


def test_caches_and_hidden_files_are_left_out_and_data_is_not(project: Path) -> None:
    assert list(read_files(project / "trainer")) == ["__init__.py", "data/words.txt", "models/__init__.py", "task.py"]


def test_the_wheel_is_a_wheel() -> None:
    name, content = pack("trainer", {"__init__.py": b"", "task.py": b"print(1)\n"})
    assert name == "trainer-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        record = archive.read("trainer-0.0.0.dist-info/RECORD").decode().splitlines()
        for line in record[:-1]:
            path, digest, size = line.split(",")
            member = archive.read(path)
            right = base64.urlsafe_b64encode(hashlib.sha256(member).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={right}", str(len(member)))
        assert {line.split(",")[0] for line in record} == set(archive.namelist())


@pytest.mark.parametrize("build_file", [None, "setup.py"])
def test_a_folder_without_init_is_no_package(
    project: Path, job_file: Callable[..., JobFile], build_file: str | None
) -> None:
    (project / "trainer" / "__init__.py").unlink()
    if build_file is not None:
        (project / build_file).write_text("raise SystemExit('must not run')")
    with pytest.raises(PlanError, match="no __init__"):
        local_packages(job_file())


def test_a_missing_folder_is_named(job_file: Callable[..., JobFile]) -> None:
    with pytest.raises(UsageError, match="'elsewhere'"):
        local_packages(job_file("packagePath: elsewhere"))


@pytest.mark.parametrize("kind", ["file", "folder", "package"])
@pytest.mark.parametrize("build_file", [None, "setup.py"])
def test_links_out_of_the_package_are_refused(
    project: Path, job_file: Callable[..., JobFile], kind: str, build_file: str | None
) -> None:
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (outside / "__init__.py").write_bytes(b"")
    if build_file is not None:
        (project / build_file).write_text("raise SystemExit('must not run')")
    if kind == "package":
        (project / "linked").symlink_to(outside)
    else:
        (project / "trainer" / "link").symlink_to(outside if kind == "folder" else outside / "secret")
    with pytest.raises(PlanError, match="link"):
        local_packages(job_file("packagePath: linked" if kind == "package" else "packagePath: trainer"))


def test_a_link_inside_the_package_is_a_file(project: Path) -> None:
    trainer = project / "trainer"
    (trainer / "again.py").symlink_to(trainer / "task.py")
    assert read_files(trainer)["again.py"] == b"print(1)\n"
