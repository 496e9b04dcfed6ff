"""The page of tests: every file that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS / "README.md").read_text(encoding="utf-8")


def test_every_file_of_the_page_of_tests_is_there() -> None:
    behaviours = PAGE.partition("## Where a behaviour is tested")[2]
    named = re.findall(r"`([a-z_]+/[\w/.]*|test_\w+\.py)`", behaviours)
    assert len(named) > 50
    assert [name for name in named if not (TESTS / name).exists()] == []
