"""Makes ``.venv`` from the hashed lock: standard library only, so that it runs before anything is installed.

A stamp in the environment says what it was made from (lock, interpreter, folder); when it still holds, nothing is
done and no process is started. The project itself is not installed but put on the path, so that a changed file
counts at once, and nothing is downloaded that the lock does not name with its hash.

On a terminal one line shows what is done and how far it is; elsewhere, as in CI, a few plain lines do.
"""

# ruff: noqa: INP001 - a script beside the go.mod folders, no package
from __future__ import annotations

import hashlib
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

MINIMUM = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "encamp.stamp"
PYTHON = VENV / "bin" / "python"
#: How often the line of a terminal is drawn, and how long a log may be without a line.
TICK_SECONDS, QUIET_SECONDS = 0.2, 15.0
LAST_LINES = 30
CLEAR = "\r\x1b[K"
#: What pip says of each package of the lock before it installs them all; the second form is of a wheel in a folder.
FETCHED = re.compile(
    r"\s*(?:Collecting|Requirement already satisfied:|Ignoring) ([A-Za-z0-9._-]+)(?:==([^\s;]+))?"
    r"|\s*Processing \S*?([A-Za-z0-9._]+)-([^-\s]+)-\S+\.whl"
)
INSTALLS = re.compile(r"\s*Installing collected packages: (.*)")
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
    line = ProgressLine(sys.stderr)
    try:
        if was_moved() or not works():
            shutil.rmtree(VENV, ignore_errors=True)
            run([sys.executable, "-m", "venv", str(VENV)], Step("making .venv"), line, VENV_HINT)
        run(
            [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off",
             "--require-hashes", "--no-deps", "-r", str(LOCK)],
            Installation(LOCK.read_text(encoding="utf-8"), fresh_packages),
            line,
            "look at the network and at pip's configuration (pip config list), then the command again",
        )  # fmt: skip
        put_on_path()
        STAMP.write_text(stamp(), encoding="utf-8")
        line.end("the environment is ready in .venv")
    finally:
        line.close()


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


class ProgressLine:
    """Shows progress: on a terminal one line that is redrawn, elsewhere a new line now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._began = self._shown = time.monotonic()
        self._title = ""
        self._drawn = False

    def show(self, title: str, detail: str = "") -> None:
        """Show how far the step ``title`` is."""
        now = time.monotonic()
        text = f"{now - self._began:6.1f}s  {title}{detail}"
        if self._terminal:
            self._write(f"{CLEAR}{text[: shutil.get_terminal_size().columns - 1]}")
            self._drawn = True
        elif title != self._title or now - self._shown >= QUIET_SECONDS:
            self._title, self._shown = title, now
            self._write(f"{text}\n")

    def end(self, text: str) -> None:
        """Show the last line; on a terminal it takes the place of what was drawn."""
        self._title = ""
        self.show(text)
        self.close()

    def close(self) -> None:
        """End the line that would be redrawn, before anything else is written."""
        if self._drawn:
            self._write("\n")
        self._drawn = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Step:
    """One command, as its title alone tells it."""

    def __init__(self, title: str) -> None:
        self.title = title

    def read(self, line: str) -> None:
        """Learn from a line of the command's output."""

    def detail(self) -> str:
        """Say how far it is; empty if that is not known."""
        return ""


class Installation(Step):
    """pip at work: how many packages of the lock it has fetched, then how many it has installed.

    Args:
        lock: the lock's text.
        installed: how many packages were installed since a time; pip says nothing while it installs.
    """

    def __init__(self, lock: str, installed: Callable[[float], int]) -> None:
        super().__init__("installing from requirements.lock")
        self._locked = len(re.findall(r"^[A-Za-z0-9][^\s]*==", lock, re.MULTILINE))
        self._installed = installed
        self._fetched = 0
        self._to_install: list[str] = []
        self._package = ""
        self._since = 0.0

    def read(self, line: str) -> None:
        """Learn from a line of pip's."""
        if found := FETCHED.match(line):
            self._fetched += 1
            self._package = " ".join(filter(None, found.groups()))
        elif found := INSTALLS.match(line):
            self._to_install = found[1].split(", ")
            self._since = time.time()

    def detail(self) -> str:
        """Say how many packages of how many are there, and which one pip is at."""
        if self._to_install:
            done = min(self._installed(self._since), len(self._to_install))
            # pip installs in the order in which it has named them.
            package = f", {self._to_install[done]}" if done < len(self._to_install) else ""
            return f": {done} of {len(self._to_install)} installed{package}"
        if self._fetched:
            return f": {self._fetched} of {self._locked} fetched, {self._package}"
        return ""


def fresh_packages(since: float) -> int:
    """Count the packages of the environment that were installed since a time."""
    # A file's time may lie a tick of the kernel's clock before.
    made = (path.stat().st_mtime for path in VENV.glob("lib/python*/site-packages/[!~]*.dist-info/RECORD"))
    return sum(at >= since - 1 for at in made)


def run(argv: list[str], step: Step, line: ProgressLine, hint: str) -> None:
    """Run a command and show how far it is.

    Raises:
        SetupError: it failed; holds the last lines that it wrote.
    """
    lines: queue.Queue[str | None] = queue.Queue()
    last: list[str] = []
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    threading.Thread(target=read, args=(process, lines), daemon=True).start()
    try:
        while True:
            line.show(step.title, step.detail())
            try:
                text = lines.get(timeout=TICK_SECONDS)
            except queue.Empty:
                continue
            if text is None:
                break
            last = [*last, text][-LAST_LINES:]
            step.read(text)
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.terminate()
        code = process.wait()
    if code:
        raise SetupError(f"{step.title} failed:\n{''.join(last)}  try: {hint}")


def read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    """Hand on every line of a process, then None."""
    if process.stdout is not None:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


if __name__ == "__main__":
    sys.exit(main())
