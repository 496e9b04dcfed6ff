"""The word by which a listing, a message or a receipt calls a resource, from the engine's type token."""

from __future__ import annotations

from typing import Final

from encamp.kinds.google import RESOURCES

_WORDS: Final = {kind.token: kind.word for kind in RESOURCES}


def word_of(token: str) -> str:
    """Return ``node pool`` of a node pool's type token, ``configmap`` of a ConfigMap's; a word is its own."""
    return _WORDS.get(token, token.rpartition(":")[2].lower())
