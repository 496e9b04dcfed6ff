from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.spec.job_file import JobFile, load_job

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("ENCAMP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "packages"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a trainer package, its data and what must not be packed."""
    root = tmp_path / "project"
    trainer = root / "trainer"
    for folder in ("__pycache__", ".git", "data", "models"):
        (trainer / folder).mkdir(parents=True)
    (trainer / "__pycache__" / "task.cpython-311.pyc").write_bytes(b"x")
    (trainer / ".git" / "config").write_bytes(b"secret")
    (trainer / "data" / "words.txt").write_bytes(b"a\n")
    (trainer / "models" / "__init__.py").write_bytes(b"")
    (trainer / "__init__.py").write_bytes(b"")
    (trainer / "task.py").write_bytes(b"print(1)\n")
    return root


@pytest.fixture
def job_file(project: Path) -> Callable[..., JobFile]:
    """A job file beside the trainer with these lines in its block of encamp."""

    def write(*lines: str) -> JobFile:
        block = "".join(f"  {line}\n" for line in lines or ("packagePath: trainer",))
        text = f"region: us-central1\nmasterConfig: {{imageUri: gcr.io/p/i}}\npythonModule: a.b\nencamp:\n{block}"
        (project / "job.yaml").write_text(text, encoding="utf-8")
        return load_job(project / "job.yaml")

    return write
