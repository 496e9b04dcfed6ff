"""A replica's requirements, as the settings of encamp's set-up name them in a volume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SETTINGS = "bootstrap.json"


def requirements(mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the requirements that a container has to install; empty if no volume has such settings.

    Args:
        mounts: of the container; volumes may hold anything.
    """
    for mount in mounts:
        file = Path(mount["source"]) / _SETTINGS
        if not mount["read_only"] or "below" in mount or not file.is_file():
            continue
        try:
            settings = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        found = settings.get("requirements") if isinstance(settings, dict) else None
        return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    return []
