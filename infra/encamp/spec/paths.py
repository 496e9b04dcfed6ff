"""Paths as people read them, and the nearest right spelling of a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

#: Similarity in percent from which a word is offered as what was meant.
_ALIKE = 70
_LONGEST_WORD = 100
#: From here on what a word begins is taken for what was meant.
_LONG_ENOUGH = 4


def dotted(path: tuple[str | int, ...]) -> str:
    """Return ``trainingInput.hyperparameters.params[0].type`` for a path of keys and indices."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, allowed: Collection[str]) -> str | None:
    """Return the allowed word most like ``word``, whatever its case and separators, or None when none is alike."""
    from rapidfuzz import fuzz  # noqa: PLC0415 - only a file with mistakes pays for it

    if not word or len(word) > _LONGEST_WORD:
        return None
    plain = _plain(word)
    longer = [choice for choice in allowed if len(plain) >= _LONG_ENOUGH and _plain(choice).startswith(plain)]
    if longer:
        return min(longer, key=len)
    scores = {choice: fuzz.WRatio(plain, _plain(choice)) for choice in allowed}
    best = max(scores, key=scores.__getitem__, default=None)
    return best if best is not None and scores[best] >= _ALIKE else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "").replace(" ", "")
