"""The wheel carries what lies beside infra/ in a checkout, and works without one."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[1]
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from encamp.cli.main import main; main()"


def test_the_command_works_from_a_wheel(tmp_path: Path) -> None:
    built = tmp_path / "built"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = built.glob("encamp-*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    for name in ("infra/__main__.py", "templates/bootstrap.py", "tools/etcd/go.mod", ".github/workflows/preview.yaml"):
        assert (installed / "encamp" / "data" / name).is_file(), name
    camp = tmp_path / "camp"

    def encamp(*arguments: str, cwd: Path = camp, code: int = 0) -> str:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", START, str(installed), *arguments],
            cwd=cwd,
            env={"PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stdout + ended.stderr

    example = str(REPOSITORY / "examples" / "digits" / "job.yaml")
    assert "encamp init DIR" in encamp("plan", example, cwd=tmp_path, code=2)
    assert "17 files" in encamp("init", "camp", cwd=tmp_path)
    assert (
        encamp("manifests", example)
        == subprocess.run(
            [sys.executable, "-c", "from encamp.cli.main import main; main()", "manifests", example],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert "n1-standard-4" in encamp("plan", example)
    assert "valid" in encamp("validate", "example/job.yaml", cwd=camp / "jobs")
