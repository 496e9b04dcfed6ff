from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from typing import TYPE_CHECKING

import pytest

from encamp.errors import PlanError, UsageError
from encamp.plan.package import pack
from encamp.plan.package_files import local_package, read_files
from encamp.spec.job_file import JobFile, load_job

if TYPE_CHECKING:
    from pathlib import Path

JOB = "region: us-central1\nmasterConfig: {imageUri: gcr.io/p/i}\nencamp: {packagePath: trainer}\n"


def folder(tmp_path: Path) -> Path:
    trainer = tmp_path / "trainer"
    (trainer / "__pycache__").mkdir(parents=True)
    (trainer / "__pycache__" / "task.cpython-311.pyc").write_bytes(b"x")
    (trainer / ".git").mkdir()
    (trainer / ".git" / "config").write_bytes(b"secret")
    (trainer / "data").mkdir()
    (trainer / "data" / "words.txt").write_bytes(b"a\n")
    (trainer / "__init__.py").write_bytes(b"")
    (trainer / "task.py").write_bytes(b"print(1)\n")
    return trainer


def job_file(tmp_path: Path) -> JobFile:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    return load_job(tmp_path / "job.yaml")


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    trainer = folder(tmp_path)
    first = local_package(job_file(tmp_path))
    os.utime(trainer / "task.py", (1, 1))
    (trainer / "task.py").chmod(0o600)
    assert local_package(job_file(tmp_path)) == first
    (trainer / "task.py").write_bytes(b"print(2)\n")
    second = local_package(job_file(tmp_path))
    assert first is not None
    assert second is not None
    assert second.sha256 != first.sha256


def test_caches_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    assert list(read_files(folder(tmp_path))) == ["__init__.py", "data/words.txt", "task.py"]


def test_the_wheel_is_a_wheel() -> None:
    made = pack("trainer", {"__init__.py": b"", "task.py": b"print(1)\n"})
    assert made.file_name == "trainer-0.0.0-py3-none-any.whl"
    assert hashlib.sha256(made.content).hexdigest() == made.sha256
    with zipfile.ZipFile(io.BytesIO(made.content)) as archive:
        record = archive.read("trainer-0.0.0.dist-info/RECORD").decode().splitlines()
        for line in record[:-1]:
            name, digest, size = line.split(",")
            content = archive.read(name)
            right = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={right}", str(len(content)))
        assert {line.split(",")[0] for line in record} == set(archive.namelist())


def test_a_folder_without_init_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    with pytest.raises(PlanError, match="no __init__"):
        local_package(job_file(tmp_path))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'trainer'"):
        local_package(job_file(tmp_path))


@pytest.mark.parametrize("kind", ["file", "folder", "package"])
def test_links_out_of_the_package_are_refused(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (outside / "__init__.py").write_bytes(b"")
    if kind == "package":
        inner = tmp_path / "inner"
        inner.mkdir()
        (inner / "trainer").symlink_to(outside)
        tmp_path = inner
    else:
        trainer = folder(tmp_path)
        (trainer / "link").symlink_to(outside if kind == "folder" else outside / "secret")
    with pytest.raises(PlanError, match="link"):
        local_package(job_file(tmp_path))


def test_a_link_inside_the_package_is_a_file(tmp_path: Path) -> None:
    trainer = folder(tmp_path)
    (trainer / "again.py").symlink_to(trainer / "task.py")
    assert read_files(trainer)["again.py"] == b"print(1)\n"
