"""The table of beliefs: one JSON file an area, read when first asked for."""

from __future__ import annotations

import json
import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from encamp.beliefs.model import Belief, Confidence

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parent / "table"
_ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_REQUIRED: Final = {"id", "says", "source", "date", "sure"}
_OPTIONAL: Final = {"probe"}


@cache
def beliefs() -> Mapping[str, Belief]:
    """Return all beliefs by id, sorted by area and id.

    Raises:
        ValueError: an entry is incomplete, or two have the same id.
    """
    found: dict[str, Belief] = {}
    for path in sorted(FOLDER.glob("*.json")):
        for entry in sorted(json.loads(path.read_bytes()), key=lambda each: str(each.get("id"))):
            belief = _read(path.stem, entry)
            if belief.id in found:
                raise ValueError(f"{path.name}: the id {belief.id} is used twice")
            found[belief.id] = belief
    return found


def belief(belief_id: str) -> Belief:
    """Return the belief of an id.

    Raises:
        KeyError: the table does not hold it.
    """
    return beliefs()[belief_id]


def _read(area: str, entry: Mapping[str, Any]) -> Belief:
    name = entry.get("id")
    missing, unknown = _REQUIRED - entry.keys(), entry.keys() - _REQUIRED - _OPTIONAL
    if missing or unknown:
        raise ValueError(f"{area}.json: {name}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    if not _ID.fullmatch(str(name)):
        raise ValueError(f"{area}.json: {name!r} is not in kebab case")
    return Belief(
        id=str(name),
        area=area,
        says=str(entry["says"]),
        source=str(entry["source"]),
        date=date.fromisoformat(entry["date"]),
        sure=Confidence(entry["sure"]),
        probe=entry.get("probe"),
    )
