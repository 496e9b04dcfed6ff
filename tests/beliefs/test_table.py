"""The table of beliefs is complete, used, and shown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from encamp.beliefs import table
from encamp.beliefs.page import page
from encamp.beliefs.table import belief, beliefs

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "beliefs.md"
ENTRY = {"id": "a-b", "says": "s", "source": "s", "date": "2026-01-01", "sure": "believed"}


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Writes a table of its own."""

    def write(*given: dict[str, Any]) -> None:
        (tmp_path / "area.json").write_text(json.dumps(given))
        table.beliefs.cache_clear()

    monkeypatch.setattr(table, "FOLDER", tmp_path)
    yield write
    table.beliefs.cache_clear()


def test_every_belief_has_a_source_that_can_be_looked_up() -> None:
    for one in beliefs().values():
        assert one.says.endswith("."), one.id
        assert re.match(r"https://\S+|[\w.-]+/[\w.-]+ \S+|docs/", one.source), one.id


def test_every_belief_is_used() -> None:
    sources = [
        path.read_text()
        for folder in ("infra", "templates")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in {".py", ".json", ".j2"} and path.parent != table.FOLDER
    ]
    text = "\n".join(sources)
    assert [one for one in beliefs() if not re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", text)] == []


def test_the_page_shows_the_table(*, rewrite_goldens: bool) -> None:
    shown = page(beliefs().values())
    if rewrite_goldens:
        PAGE.write_text(shown)
    assert PAGE.read_text() == shown


def test_a_belief_is_found_by_its_id(entries: Any) -> None:
    entries(ENTRY, {**ENTRY, "id": "c", "probe": "Ask."})
    assert belief("a-b").probe is None
    assert belief("c").probe == "Ask."
    assert [one.area for one in beliefs().values()] == ["area", "area"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{**ENTRY, "why": "x"}], "unknown"),
        ([{key: value for key, value in ENTRY.items() if key != "source"}], "missing"),
        ([{**ENTRY, "id": "A B"}], "kebab"),
        ([ENTRY, ENTRY], "used twice"),
        ([{**ENTRY, "sure": "certain"}], "certain"),
        ([{**ENTRY, "date": "soon"}], "soon"),
    ],
    ids=("unknown-key", "missing-key", "bad-id", "twice", "bad-confidence", "bad-date"),
)
def test_a_bad_entry_is_refused(entries: Any, given: list[dict[str, Any]], message: str) -> None:
    entries(*given)
    with pytest.raises(ValueError, match=message):
        beliefs()


def test_a_bar_in_a_cell_stays_in_its_cell(entries: Any) -> None:
    entries({**ENTRY, "says": "a | b."})
    (row,) = (line for line in page(beliefs().values()).splitlines() if line.startswith("| `"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 7
