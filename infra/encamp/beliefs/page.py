"""The page ``docs/beliefs.md``: the table of beliefs in Markdown."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from encamp.beliefs.model import Confidence
from encamp.text import table_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from encamp.beliefs.model import Belief

_INTRODUCTION: Final = """\
# Beliefs about Google Cloud

encamp decides by rules about Google Cloud, and its sandbox enforces them. Each rule stands here with its source and how
it is known: `recorded` (an answer of Google was seen), `documented` (Google's documentation says it), `provider-source`
(the source of a maintained client relies on it), `believed` (nothing confirms it yet). The table is
`infra/encamp/beliefs/table/`; code names a belief by its id.
"""


def page(beliefs: Collection[Belief]) -> str:
    """The whole page; beliefs come sorted by area."""
    return "\n".join((_INTRODUCTION, _summary(beliefs), *_areas(beliefs)))


def _summary(beliefs: Collection[Belief]) -> str:
    counts = Counter(belief.sure for belief in beliefs)
    shown = ", ".join(f"{counts[sure]} {sure.value}" for sure in Confidence)
    return f"{len(beliefs)} beliefs: {shown}.\n"


def _areas(beliefs: Collection[Belief]) -> Iterator[str]:
    for area, members in groupby(beliefs, key=lambda belief: belief.area):
        yield f"## {area}\n"
        yield "| id | belief | known by | source | read on | how to ask Google |"
        yield "|---|---|---|---|---|---|"
        yield from (_row(belief) for belief in members)
        yield ""


def _row(belief: Belief) -> str:
    cells = (
        f"`{belief.id}`",
        belief.says,
        belief.sure.value,
        belief.source,
        belief.date.isoformat(),
        belief.probe or "",
    )
    return table_line(*cells)
