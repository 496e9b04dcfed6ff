"""Text on its way to a terminal or a page: what is not to be seen in it is shown as an escape, tables have columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def visible(text: str, *, kept: str = "") -> str:
    """Return a text without what would steer a terminal, turn the direction of writing or break a line.

    But for ``kept``.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in text)


def is_plain(text: str) -> bool:
    """Whether nothing in a text of several lines would steer a terminal or turn the direction of writing."""
    return all(line.isprintable() for line in text.split("\n"))


def table_cell(text: str) -> str:
    """Return a text as a cell of a Markdown table: in one line, and without a bar that would end the cell."""
    return visible(" ".join(text.split())).replace("|", "\\|")


def table_line(*cells: str) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(table_cell, cells))} |"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of as many cells each as lines with columns, two blanks apart."""
    widths = column_widths(rows)
    return [row_text(row, widths) for row in rows]


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column of a table."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def row_text(row: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row as a line; cells wider than their column push the rest aside."""
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
