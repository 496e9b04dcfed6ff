"""``tools/setup.py`` as ``make setup`` runs it, with a lock that asks for nothing.

It makes real environments, which takes too long for the quick checks.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sandbox
_SCRIPT = Path(__file__).parents[2] / "tools" / "setup.py"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in a folder with a blank in its name, set up once."""
    folder = tmp_path_factory.mktemp("a checkout")
    (folder / "tools").mkdir()
    shutil.copy(_SCRIPT, folder / "tools" / "setup.py")
    (folder / "requirements.lock").write_text("")
    package = folder / "infra" / "encamp" / "cli"
    package.mkdir(parents=True)
    (package / "main.py").write_text("import sys\ndef main():\n    print(sys.argv)\n    return 5\n")
    done = _setup(folder)
    assert done.returncode == 0, done.stderr
    assert "making .venv" in done.stderr
    return folder


def _setup(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "tools/setup.py"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_command_is_there_and_runs_the_checkout(checkout: Path) -> None:
    command = str(checkout / ".venv" / "bin" / "encamp")
    ran = subprocess.run([command, "plan"], capture_output=True, text=True, check=False)
    assert ran.returncode == 5, ran.stderr
    assert ran.stdout.strip() == str([command, "plan"])


def test_a_second_time_does_nothing(checkout: Path) -> None:
    made = {
        path: path.stat().st_mtime_ns for path in (checkout / ".venv").rglob("*") if "__pycache__" not in path.parts
    }
    done = _setup(checkout)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_a_changed_lock_is_installed_into_the_same_environment(checkout: Path) -> None:
    (checkout / ".venv" / "kept").write_text("")
    (checkout / "requirements.lock").write_text("# changed\n")
    done = _setup(checkout)
    assert done.returncode == 0, done.stderr
    assert "installing from requirements.lock" in done.stderr
    assert (checkout / ".venv" / "kept").exists()


def test_a_lock_without_hashes_is_refused(checkout: Path) -> None:
    before = (checkout / "requirements.lock").read_text()
    (checkout / "requirements.lock").write_text("click==8.1.8\n")
    try:
        done = _setup(checkout)
    finally:
        (checkout / "requirements.lock").write_text(before)
    assert done.returncode == 3
    assert "hash" in done.stderr.lower()


def test_an_environment_that_was_moved_is_made_anew(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("moved"))
    try:
        done = _setup(moved)
        assert done.returncode == 0, done.stderr
        assert "making .venv" in done.stderr
        assert str(checkout) not in (moved / ".venv" / "bin" / "pip").read_text()
    finally:
        moved.rename(checkout)
