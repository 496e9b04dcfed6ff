"""References of code to beliefs, so that tests can check that every rule has one and that every one is used.

A docstring or a comment writes ``Belief: ID.``, ``Beliefs: ID, ID.`` or ``(belief ID)``, an id in backquotes if that
reads better; data and calls have a key or an argument ``belief``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ID: Final = r"`{0,2}[a-z0-9]+(?:-[a-z0-9]+)+`{0,2}"
#: The word, and ids behind it over several lines, of a comment too.
_NAMED: Final = re.compile(rf"""\b[Bb]eliefs?\b["']?\s*[:=]?\s*["']?(?P<ids>{_ID}(?:(?:,|,? and)[\s#]+{_ID})*)""")


def referred(text: str) -> Iterator[str]:
    """Yield ids of beliefs that a text names as such, whether or not the table holds them."""
    for found in _NAMED.finditer(text):
        yield from re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", found["ids"])


def mentioned(text: str, known: Collection[str]) -> set[str]:
    """Return those of the known beliefs whose ids stand in a text, however it names them."""
    words = set(re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", text))
    return words & set(known)
