"""The fenced blocks of README and the guides, and what the line of a fence says about each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/README.md",
    *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs").glob("*.md")),
    *sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "docs" / "options").glob("*.md")),
)
_FENCE = re.compile(r"^```(?P<language>\S*)(?: +(?P<note>[^\n]+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, what the fence says after it, and its text."""

    page: str
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def shown(self) -> str:
        """Why the block is only shown, or ''."""
        return self.note.removeprefix("shown: ") if self.note.startswith("shown: ") else ""

    @property
    def tested(self) -> str:
        """The test that runs the block, or ''."""
        return self.note.removeprefix("tested: ") if self.note.startswith("tested: ") else ""

    @property
    def file(self) -> str:
        """The file that the block is, for the commands after it, or ''."""
        return self.note.removeprefix("file=") if self.note.startswith("file=") else ""

    @property
    def exit_code(self) -> int:
        """What its last command ends with."""
        return int(self.note.removeprefix("exit=")) if self.note.startswith("exit=") else 0

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command of a console block with the lines of output below it; a loop or ``\\`` goes over lines."""
        found: list[tuple[list[str], list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append(([line[2:]], []))
            elif found and not found[-1][1] and _goes_on(found[-1][0]):
                found[-1][0].append(line)
            else:
                found[-1][1].append(line)
        return [("\n".join(command), output) for command, output in found]


def _goes_on(command: list[str]) -> bool:
    loop = command[0].startswith("for ") and command[-1] != "  done" and command[-1] != "done"
    return loop or command[-1].endswith("\\")


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in its order."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    return [
        Block(page, text[: found.start()].count("\n") + 1, found["language"], found["note"] or "", found["text"])
        for found in _FENCE.finditer(text)
    ]


@pytest.fixture(scope="session")
def blocks() -> list[Block]:
    """The blocks of every page."""
    return [block for page in PAGES for block in blocks_of(page)]
