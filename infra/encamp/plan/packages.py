"""The packages of a job as one list: those in buckets and those of this machine must not take each other's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence


def distinct_names(uris: Sequence[str]) -> None:
    """Refuse two packages of one file name, as the old client did: the second would hide the first.

    Raises:
        PlanError: it names both.
    """
    seen: dict[str, str] = {}
    for uri in uris:
        name = uri.rpartition("/")[2]
        if name in seen:
            raise PlanError(
                f"two packages are called {name}: {seen[name]} and {uri}",
                where="trainingInput.packageUris",
                hint="rename one of them, or leave one out",
            )
        seen[name] = uri
