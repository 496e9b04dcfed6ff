"""The switches of lies: kept in a file, so that a restarted cloud goes on lying."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.lies import cloud, inside, kubernetes, storage

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from encamp_sandbox.lies.model import Asked, Lie


def all_lies(token: str) -> dict[str, Lie]:
    """Return every lie by its belief; ``token`` is whose rights a call without a token gets where that is the lie."""
    found = (*storage.LIES, *cloud.lies(token), *kubernetes.LIES, *inside.LIES)
    return {lie.belief: lie for lie in found}


class Switches:
    """The lies of one sandbox.

    Args:
        path: file that names those that are on.
        token: the administrator's.
    """

    def __init__(self, path: Path, token: str) -> None:
        self._path = path
        self._known = all_lies(token)
        names = json.loads(path.read_text()) if path.exists() else []
        self._on = tuple(self._known[name] for name in names if name in self._known)
        self._counts: Counter[tuple[str, str]] = Counter()

    @property
    def on(self) -> tuple[Lie, ...]:
        """Lies that are told."""
        return self._on

    @property
    def known(self) -> dict[str, str]:
        """Every belief that a lie is about, with the lie's sentence."""
        return {belief: lie.does for belief, lie in self._known.items()}

    def set(self, beliefs: Collection[str]) -> None:
        """Tell these lies, and no others.

        Raises:
            GoogleError: 400, there is no such lie.
        """
        unknown = sorted(set(beliefs) - self._known.keys())
        if unknown:
            raise GoogleError(400, f"There is no lie about {', '.join(unknown)}.")
        self._path.write_text(json.dumps(sorted(beliefs)))
        self._on = tuple(self._known[belief] for belief in sorted(beliefs))
        self._counts.clear()

    def counted(self, asked: Asked) -> Asked:
        """Return a request that says how often it has had a good answer before."""
        return replace(asked, before=self._counts[asked.method, asked.path])

    def count(self, asked: Asked) -> None:
        """Count a good answer to a request."""
        self._counts[asked.method, asked.path] += 1
