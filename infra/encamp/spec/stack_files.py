"""The committed configs of stacks: one file a stack in one folder, as Pulumi names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_BEFORE, _AFTER = "Pulumi.", ".yaml"


def stack_files(folder: Path) -> dict[str, Path]:
    """Return each stack's config in a folder by the stack's name, sorted."""
    files = sorted(folder.glob(f"{_BEFORE}*{_AFTER}"))
    return {file.name.removeprefix(_BEFORE).removesuffix(_AFTER): file for file in files}
