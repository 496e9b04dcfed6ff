"""The commands of the guides in one sandbox, in the order of each page, compared with the output that a page shows.

``...`` in shown output stands for any lines. What differs from run to run is made equal first: times, generated names
and fractions of a dollar.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.conftest import Block

pytestmark = [pytest.mark.sandbox, pytest.mark.jobs]

REPOSITORY = Path(__file__).resolve().parents[2]
#: The first page brings the sandbox up and runs the job that the others look at.
PAGES = (
    "docs/getting-started.md",
    "docs/commands.md",
    "docs/images.md",
    "docs/acceptance.md",
    "docs/costs.md",
    "docs/queues.md",
    # Each writes an environment of its own in place of the committed one.
    "docs/access.md",
    "docs/policy.md",
)
BESIDES = ("Makefile", "docs", "examples/scikit-learn")
COMMAND_SECONDS = 240
_END = "end of the command"
_DIFFERS = (
    (re.compile(r"^\[ *[\d.]+s\]"), "[time]"),
    (re.compile(r"^ +[\d.]+s  "), "time  "),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "date"),
    (re.compile(r"\b[\d.]+ (?:s|min|h)(?: \d+ (?:s|min))?\b"), "duration"),
    (re.compile(r"\b0\.\d{3,4} USD"), "cents USD"),
    (re.compile(r"\b([a-z0-9-]+)-[a-z0-9]{16}\b"), r"\1-hash"),
    (re.compile(r"[ \t]+"), " "),
)


class Shell:
    """One bash in a checkout; its variables and folder last from command to command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {
            **os.environ,
            "ENCAMP_SANDBOX_IDLE_SECONDS": "2",
            "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(folder / "infra"),
        }
        for name in ("PULUMI_BACKEND_URL", "ENCAMP_RECORD_URL", "ENCAMP_STATE_DIR", "ENCAMP_SANDBOX_DIR"):
            environment.pop(name, None)
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit code of a command, and the lines that it printed."""
        asked, said = self._process.stdin, self._process.stdout
        assert asked is not None
        assert said is not None
        late = threading.Timer(COMMAND_SECONDS, self._process.kill)
        late.start()
        asked.write(f"{command}\necho '{_END}' $?\n")
        asked.flush()
        lines: list[str] = []
        try:
            for line in said:
                before, end, code = line.rstrip("\n").partition(_END)
                if end:
                    return int(code), [*lines, *([before] if before else [])]
                lines.append(before)
        finally:
            late.cancel()
        raise AssertionError(f"not ended within {COMMAND_SECONDS} s: {command}\n" + "\n".join(lines))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, camps: Any) -> Iterator[Shell]:
    """A shell in a copy of the checkout, whose sandbox the first page starts."""
    folder = camps.copied_checkout(tmp_path_factory.mktemp("g") / "c")
    for name in BESIDES:
        source, target = REPOSITORY / name, folder / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, target)
    with contextlib.closing(Shell(folder)) as opened:
        try:
            yield opened
        finally:
            opened.run("encamp sandbox down")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(page: str, blocks: list[Block], shell: Shell) -> None:
    for block in (block for block in blocks if block.page == page):
        if block.file:
            (shell.folder / block.file).parent.mkdir(exist_ok=True)
            (shell.folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "console" and not block.shown:
            run_block(block, shell)


def test_every_page_with_commands_to_run_is_run(blocks: list[Block]) -> None:
    assert {block.page for block in blocks if block.language == "console" and not block.shown} == set(PAGES)


def run_block(block: Block, shell: Shell) -> None:
    """Run the commands of a block and compare their output."""
    commands = block.commands()
    for at, (command, shown) in enumerate(commands):
        code, said = shell.run(command)
        told = "\n".join(said)
        assert code == (block.exit_code if at == len(commands) - 1 else 0), f"{block}: {command}\n{told}"
        if shown:
            missing = first_difference(plain(shown, shell), plain(said, shell))
            assert missing is None, f"{block}: {command}\nnot printed where it is shown: {missing}\n{told}"


def plain(lines: list[str], shell: Shell) -> list[str]:
    """The lines with what may differ made equal."""
    found = []
    for line in lines:
        text = line.replace(f"{shell.folder}/", "")
        for pattern, instead in _DIFFERS:
            text = pattern.sub(instead, text)
        found.append(text.rstrip())
    return found


def first_difference(shown: list[str], said: list[str]) -> str | None:
    """The first shown lines that were not printed in their place, or None; without ``...`` lines follow each other."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    at = 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        places = [len(said) - len(part)] if last else [0] if number == 0 else range(at, len(said) - len(part) + 1)
        place = next((place for place in places if place >= at and said[place : place + len(part)] == part), None)
        if place is None or (number == 0 and last and len(said) != len(part)):
            return "\n".join(part) or "(nothing)"
        at = place + len(part)
    return None
