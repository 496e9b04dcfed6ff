"""The form in which rules of an environment's blocks report problems."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def file_problem(file: str) -> Iterator[Found]:
    """Yield the problem of a file name outside the project, in the block's field ``file``."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts:
        yield Found(
            ("file",), f"{file!r} must lie in the project", "name it relative to it, such as stacks/prices.yaml"
        )
