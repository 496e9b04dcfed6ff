"""``tools/setup.py`` as ``make setup`` runs it, with a lock that asks for nothing, or for packages made here.

It makes real environments, which takes too long for the quick checks.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import pty
import re
import shutil
import subprocess
import sys
import zipfile
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
    assert "error: installing from requirements.lock failed:\n" in done.stderr
    assert "ERROR: Hashes are required in --require-hashes mode" in done.stderr
    assert "  try: look at the network" in done.stderr


def test_without_a_terminal_there_are_a_few_plain_lines(checkout: Path) -> None:
    _write_lock(checkout, "first", "second", "third")
    done = _setup(checkout)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    # One line a step; a loaded machine may add one each fifteen seconds.
    texts = [re.sub(r"^ *[0-9.]+s  ", "", line) for line in done.stderr.splitlines()]
    assert texts[0] == "installing from requirements.lock"
    assert texts[-1] == "the environment is ready in .venv"
    assert len(texts) <= 2 + float(done.stderr.splitlines()[-1].split("s")[0]) / 15


def test_on_a_terminal_one_line_moves(checkout: Path) -> None:
    _write_lock(checkout, "fourth", "fifth")
    code, shown = _setup_on_a_terminal(checkout, columns=72)
    assert code == 0, shown
    # One line that is drawn again and again, and its end.
    assert shown.count("\n") == 1
    drawn = shown.rstrip("\r\n").split("\r\x1b[K")[1:]
    assert all(len(line) < 72 for line in drawn)
    assert any("2 of 2 fetched, fifth 1.0" in line for line in drawn)
    assert any(re.search(r"[0-2] of 2 installed", line) for line in drawn)
    assert re.fullmatch(r" *[0-9.]+s  the environment is ready in \.venv", drawn[-1])
    seconds = [float(line.split("s")[0]) for line in drawn]
    assert seconds == sorted(seconds)


def test_on_a_terminal_a_failure_stands_below_the_line(checkout: Path) -> None:
    before = (checkout / "requirements.lock").read_text()
    (checkout / "requirements.lock").write_text("--no-index\nnowhere==1.0 --hash=sha256:" + 64 * "0" + "\n")
    try:
        code, shown = _setup_on_a_terminal(checkout, columns=80)
    finally:
        (checkout / "requirements.lock").write_text(before)
    assert code == 3
    moving, _, failure = shown.partition("error: ")
    assert moving.endswith("\r\n")
    assert "No matching distribution found for nowhere==1.0" in failure


def _write_lock(folder: Path, *names: str) -> None:
    """Write a lock of packages that are made here, and those packages."""
    lines = ["--no-index", "--find-links wheels"]
    (folder / "wheels").mkdir(exist_ok=True)
    for name in names:
        wheel = folder / "wheels" / f"{name}-1.0-py3-none-any.whl"
        files = {
            f"{name}.py": b"",
            f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
            f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in files.items())
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
            archive.writestr(f"{name}-1.0.dist-info/RECORD", f"{record}{name}-1.0.dist-info/RECORD,,\n")
        lines.append(f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    (folder / "requirements.lock").write_text("\n".join(lines) + "\n")


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _setup_on_a_terminal(folder: Path, columns: int) -> tuple[int, str]:
    """Run it with a terminal for its standard error; its exit code and what the terminal was sent."""
    master, terminal = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    command = [sys.executable, "tools/setup.py"]
    process = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = b""
    # Reading from a terminal whose other side is closed is an error on Linux.
    with contextlib.suppress(OSError):
        while part := os.read(master, 4096):
            shown += part
    os.close(master)
    return process.wait(), shown.decode()


def test_an_environment_that_was_moved_is_made_anew(checkout: Path) -> None:
    moved = checkout.rename(checkout.with_name("moved"))
    try:
        done = _setup(moved)
        assert done.returncode == 0, done.stderr
        assert "making .venv" in done.stderr
        assert str(checkout) not in (moved / ".venv" / "bin" / "pip").read_text()
    finally:
        moved.rename(checkout)
