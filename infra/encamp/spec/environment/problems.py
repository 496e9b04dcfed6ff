"""How the rules of an environment's blocks say what they found."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from encamp.spec.loading import DataPath


class Found(NamedTuple):
    """Something wrong with a block.

    Attributes:
        path: in field names, below the block; empty for the block itself. Indices of lists and keys of mappings count.
        message: what is wrong.
        hint: what to try.
    """

    path: DataPath
    message: str
    hint: str | None = None
