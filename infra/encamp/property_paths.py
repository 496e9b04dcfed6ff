"""Paths of properties, as Pulumi's engine writes and reads them: ``spec.ports[0]["a.b/c"]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of the properties to one value."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_STEP: Final = re.compile(r"""\["(?P<quoted>(?:[^"\\]|\\.)*)"\]|\[(?P<index>\d+|\*)\]|\.?(?P<name>[^.\[]+)""")


def path_text(path: Sequence[str | int], plain: re.Pattern[str] = _PLAIN_KEY) -> str:
    """Write a path; keys that match ``plain`` go without quotes."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif plain.fullmatch(key):
            text += f".{key}" if text else key
        else:
            quoted = key.replace('"', '\\"')
            text += f'["{quoted}"]'
    return text


def parse_path(text: str) -> Path:
    """Read a path that ``path_text`` wrote, or an entry of ``ignoreChanges``; ``[*]`` gives ``"*"``."""
    keys: list[str | int] = []
    for step in _STEP.finditer(text):
        if step["quoted"] is not None:
            keys.append(step["quoted"].replace('\\"', '"'))
        elif step["index"] is not None:
            keys.append("*" if step["index"] == "*" else int(step["index"]))
        else:
            keys.append(step["name"])
    return tuple(keys)


def within(path: Path, outer: Path) -> bool:
    """Whether ``path`` is ``outer`` or lies below it; ``"*"`` in ``outer`` stands for any key."""
    return len(path) >= len(outer) and all(wanted in ("*", key) for key, wanted in zip(path, outer, strict=False))
