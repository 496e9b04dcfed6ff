"""Makes ``.venv`` from the hashed lock: standard library only, so that it runs before anything is installed.

A stamp in the environment says what it was made from (lock, interpreter, folder); when it still holds, nothing is
done and no process is started. The project itself is not installed but put on the path, so that a changed file
counts at once, and nothing is downloaded that the lock does not name with its hash.
"""

# ruff: noqa: INP001 - a script beside the go.mod folders, no package
from __future__ import annotations

import hashlib
import queue
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

MINIMUM = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "encamp.stamp"
PYTHON = VENV / "bin" / "python"
TICK_SECONDS = 5
SHOWN = ("Collecting ", "Downloading ", "Using cached ", "Installing collected", "Successfully", "ERROR", "WARNING")
# What pip writes for a console script: a shebang line must not be longer than 127 bytes, and a path may be.
SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from encamp.cli.main import main

sys.exit(main())
"""


class SetupError(Exception):
    """What went wrong and what to try."""


def main() -> int:
    """Bring the environment to what the lock says."""
    try:
        check_interpreter()
        if not is_current():
            build()
    except SetupError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    return 0


def check_interpreter() -> None:
    """Refuse a Python that is too old, before anything fails in a way that says less."""
    if sys.version_info < MINIMUM:
        raise SetupError(
            f"this is Python {sys.version.split()[0]} and encamp needs 3.11 or newer\n"
            "  try: make PYTHON=python3.12 ..., with the name of a newer one"
        )


def is_current() -> bool:
    """Whether the environment was made from this lock, with this interpreter, in this folder."""
    try:
        return STAMP.read_text(encoding="utf-8") == stamp() and PYTHON.exists()
    except OSError:
        return False


def stamp() -> str:
    """Describe what the environment is made from."""
    digest = hashlib.sha256()
    for path in (LOCK, Path(__file__)):
        digest.update(path.read_bytes())
    return f"{digest.hexdigest()}\n{sys.version}\n{VENV}\n"


def build() -> None:
    """Make the environment anew where it is broken or of another interpreter, and install into it."""
    began = time.monotonic()
    if was_moved() or not works():
        shutil.rmtree(VENV, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(VENV)], began, "making .venv", VENV_HINT)
    run(
        [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
         "--require-hashes", "--no-deps", "-r", str(LOCK)],
        began,
        "installing from requirements.lock",
        "look at the network and at pip's configuration (pip config list), then the command again",
    )  # fmt: skip
    put_on_path()
    STAMP.write_text(stamp(), encoding="utf-8")
    say(began, "the environment is ready in .venv")


VENV_HINT = "where Python came without venv and pip, install them: apt install python3-venv, dnf install python3-pip"


def was_moved() -> bool:
    """Whether the environment was made in another folder: its scripts name that folder's Python."""
    try:
        return STAMP.read_text(encoding="utf-8").splitlines()[-1] != str(VENV)
    except (OSError, IndexError):
        return False


def works() -> bool:
    """Whether the environment is of this interpreter and has pip."""
    version = "import sys, pip; print(sys.version)"
    try:
        found = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return found.strip() == sys.version


def put_on_path() -> None:
    """Let the environment import ``infra/`` and give it the command."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([PYTHON, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    (Path(site) / "encamp.pth").write_text(f"{ROOT / 'infra'}\n", encoding="utf-8")
    script = VENV / "bin" / "encamp"
    script.write_text(SCRIPT.format(python=PYTHON), encoding="utf-8")
    script.chmod(0o755)


def run(argv: list[str], began: float, title: str, hint: str) -> None:
    """Run a command, show what it does, and say something at least every few seconds."""
    say(began, title)
    lines: queue.Queue[str | None] = queue.Queue()
    last: list[str] = []
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    threading.Thread(target=read, args=(process, lines), daemon=True).start()
    try:
        while True:
            try:
                line = lines.get(timeout=TICK_SECONDS)
            except queue.Empty:
                say(began, f"{title}, still at: {last[-1].strip()}" if last else title)
                continue
            if line is None:
                break
            last = [*last, line][-15:]
            if line.lstrip().startswith(SHOWN):
                say(began, line.strip()[:150])
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.terminate()
        code = process.wait()
    if code:
        raise SetupError(f"{title} failed:\n{''.join(last)}  try: {hint}")


def read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    """Hand on every line of a process, then None."""
    if process.stdout is not None:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def say(began: float, text: str) -> None:
    """Show one line of progress."""
    sys.stderr.write(f"{time.monotonic() - began:6.1f}s  {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
