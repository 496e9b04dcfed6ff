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

encamp decides by rules about Google Cloud, and its sandbox enforces them. Each rule stands here with its source, the
day on which that was read, and how the rule is known: `recorded` (an answer of Google was seen), `documented` (Google's
documentation says it), `provider-source` (the source of a maintained client relies on it), `believed` (nothing confirms
it yet). The table is `infra/encamp/beliefs/table/`; code names a belief by its id.

[`encamp acceptance`](acceptance.md) asks Google on a real project. Where it does, the last column begins with
**asked**; otherwise the column says how to ask by hand, if a way is known.
"""


def page(beliefs: Collection[Belief], asked: Collection[str] = ()) -> str:
    """Return the whole page.

    Args:
        beliefs: sorted by area.
        asked: ids of those that ``encamp acceptance`` asks about.
    """
    return "\n".join((_INTRODUCTION, _summary(beliefs, asked), *_areas(beliefs, asked)))


def _summary(beliefs: Collection[Belief], asked: Collection[str]) -> str:
    counts = Counter(belief.sure for belief in beliefs)
    shown = ", ".join(f"{counts[sure]} {sure.value}" for sure in Confidence)
    return f"{len(beliefs)} beliefs: {shown}. {len(asked)} of them are asked about.\n"


def _areas(beliefs: Collection[Belief], asked: Collection[str]) -> Iterator[str]:
    for area, members in groupby(beliefs, key=lambda belief: belief.area):
        yield f"## {area.replace('-', ' ').capitalize()}\n"
        yield "| belief | says | known by | how to ask Google |"
        yield "|---|---|---|---|"
        yield from (_row(belief, asked) for belief in members)
        yield ""


def _row(belief: Belief, asked: Collection[str]) -> str:
    known_by = f"{belief.sure.value}, {belief.date.isoformat()}: {belief.source}"
    how = " ".join(word for word in ("**asked**:" if belief.id in asked else "", belief.probe or "") if word)
    return table_line(f"`{belief.id}`", belief.says, known_by, how)
