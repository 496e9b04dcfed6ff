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
    for name in ("Pulumi.yaml", "infra/__main__.py", "templates/bootstrap.py", "tools/etcd/go.mod"):
        assert (installed / "encamp" / "data" / name).is_file(), name
    (tmp_path / "stacks").symlink_to(REPOSITORY / "stacks")

    def encamp(*arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-P", "-c", START, str(installed), *arguments],
            cwd=tmp_path,
            env={"PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    example = str(REPOSITORY / "examples" / "digits" / "job.yaml")
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
