"""Words on the glossary's list of retired words do not come back."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
#: Records say what was thought at their time, and Google's schemas are Google's words.
_LEFT_OUT = ("docs/decisions/", "docs/glossary.md", "/gcp_provider/schema/", "tests/docs/test_words.py")
_READ = (
    "*.md",
    "infra/**/*.py",
    "infra/**/*.json",
    "infra/**/*.md",
    "templates/**",
    "docs/**/*.md",
    "examples/**",
    "tools/*.py",
)


def retired() -> list[str]:
    """The words in the first column of the last table."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", GLOSSARY.partition("## Retired words")[2], re.MULTILINE)
    return [word.strip() for row in rows[1:] for word in row.split(",")]


def texts() -> dict[str, str]:
    """The files in which words are looked for."""
    listed = subprocess.run(["git", "ls-files", *_READ], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.splitlines() if not any(part in name for part in _LEFT_OUT)]
    return {name: (REPOSITORY / name).read_text(errors="replace") for name in names if (REPOSITORY / name).is_file()}


def test_retired_words_stand_nowhere() -> None:
    words = retired()
    assert len(words) >= 4
    # In names the parts between underscores and capitals are words, too.
    pattern = re.compile(rf"(?<![a-z])(?:{'|'.join(words)})(?![a-z])", re.IGNORECASE)
    found = [(name, match[0]) for name, text in texts().items() for match in pattern.finditer(text)]
    assert found == []


def test_a_dry_run_is_called_that() -> None:
    """The name that it had."""
    named: list[tuple[str, int]] = []
    for name, text in texts().items():
        if name.endswith(".py"):
            tokens = tokenize.generate_tokens(io.StringIO(text).readline)
            named += [
                (name, token.start[0]) for token in tokens if token.type == tokenize.NAME and token.string == "would"
            ]
    assert named == []


def test_the_glossary_has_each_word_once_in_order() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\*", GLOSSARY, re.MULTILINE)
    assert len(words) > 30
    assert sorted(words, key=str.lower) == words
    assert len(set(words)) == len(words)
