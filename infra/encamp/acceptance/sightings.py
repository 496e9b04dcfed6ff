"""Sightings of a job's objects while it lived: each version of each, with the time at which it was seen.

Probes look at this after the job's end, so that asking disturbs nothing and can be asked again of a file.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

#: More versions of one object tell nothing new.
_MOST_VERSIONS = 60


@dataclass(frozen=True)
class Sighting:
    """One version of an object; ``at`` is in seconds since the epoch."""

    at: float
    item: Mapping[str, Any]


class Sightings:
    """Versions of objects by kind and name."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, list[Sighting]]] = defaultdict(dict)
        self._there: dict[str, set[str]] = {}
        self._gone: dict[str, dict[str, float]] = defaultdict(dict)

    def note(self, kind: str, items: Iterable[Mapping[str, Any]], at: float) -> None:
        """Keep what a listing has that is new; what it has no more is noted as gone."""
        names = set()
        for item in items:
            name = identity(item)
            names.add(name)
            versions = self._seen[kind].setdefault(name, [])
            if (not versions or versions[-1].item != item) and len(versions) < _MOST_VERSIONS:
                versions.append(Sighting(at, item))
        for name in self._there.get(kind, set()) - names:
            self._gone[kind].setdefault(name, at)
        for name in names:
            self._gone[kind].pop(name, None)
        self._there[kind] = names

    def latest(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the last version of each object of a kind, also of those that are gone."""
        return [versions[-1].item for versions in self._seen.get(kind, {}).values()]

    def versions(self, kind: str) -> Iterator[tuple[str, list[Sighting]]]:
        """Yield every object of a kind with all of its versions."""
        yield from self._seen.get(kind, {}).items()

    def gone(self, kind: str) -> Mapping[str, float]:
        """Return objects that a later listing lacked, with the time of that."""
        return self._gone.get(kind, {})

    def write(self, path: Path) -> None:
        """Keep everything in a file."""
        data = {
            kind: {name: [[one.at, one.item] for one in versions] for name, versions in items.items()}
            for kind, items in self._seen.items()
        }
        path.write_text(json.dumps({"seen": data, "gone": self._gone}, indent=1, sort_keys=True), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Sightings:
        """Return the sightings that ``write`` kept."""
        found, data = cls(), json.loads(path.read_text(encoding="utf-8"))
        for kind, items in data["seen"].items():
            for name, versions in items.items():
                found._seen[kind][name] = [Sighting(at, item) for at, item in versions]
        for kind, gone in data["gone"].items():
            found._gone[kind] = dict(gone)
        return found


def identity(item: Mapping[str, Any]) -> str:
    """Return the identity of an object among its kind: its UID, else its name."""
    metadata = item.get("metadata") or {}
    return str(metadata.get("uid") or metadata.get("name") or item.get("selfLink") or item.get("name"))
