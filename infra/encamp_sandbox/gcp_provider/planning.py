"""Changes of a resource by a program's inputs, by the rules of the official provider.

A resource is compared as the API showed it last (its outputs), not as it was asked for: what a server has filled in
counts. A property that is left out keeps its value where it is computed, takes its default where it has one, and else
is taken away. An empty list was written, and differs from a list that the server filled in.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from encamp.property_paths import parse_path, within
from encamp_sandbox.provider import UNKNOWN, Change, DiffResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.schema import Property
    from encamp_sandbox.provider import Properties

    Suppress = Callable[[Any, Any], bool]

_ZEROES: tuple[Any, ...] = (None, "", 0, False, [], {})
_DURATION = re.compile(r"(\d+)(?:\.0+)?s")


@dataclass(frozen=True)
class Difference:
    """One property that would change."""

    path: Path
    change: Change
    replaces: bool


class Plan:
    """Compares the inputs of one type.

    Args:
        fields: the type's properties.
        suppress: by dotted path, whether an old and a new value mean the same.
    """

    def __init__(self, fields: Mapping[str, Property], suppress: Mapping[str, Suppress]) -> None:
        self._fields = fields
        self._suppress = suppress

    def diff(self, state: Properties, inputs: Properties, ignore: Sequence[str], *, fixed_name: bool) -> DiffResult:
        """Return the difference as the engine is told it.

        Args:
            state: outputs of the resource.
            inputs: what the program gives now.
            ignore: paths whose changes do not count.
            fixed_name: a replacement cannot stand beside the old resource.
        """
        ignored = [parse_path(path) for path in ignore]
        found = [one for one in self.differences(state, inputs) if not any(within(one.path, skip) for skip in ignored)]
        replaces = frozenset(one.path for one in found if one.replaces)
        changes = {one.path: one.change for one in found}
        return DiffResult(changes, replaces, delete_before_replace=fixed_name and bool(replaces))

    def differences(self, state: Properties, inputs: Properties) -> Iterator[Difference]:
        """Yield every property that would change."""
        yield from self._object(self._fields, state, inputs, ())

    def _object(
        self, fields: Mapping[str, Property], old: Mapping[str, Any], new: Mapping[str, Any], path: Path
    ) -> Iterator[Difference]:
        for name, known in fields.items():
            if known.is_input and (name in old or name in new or known.default is not None):
                yield from self._property(known, old.get(name), new.get(name), (*path, name))

    def _property(self, known: Property, old: Any, new: Any, path: Path) -> Iterator[Difference]:
        if new is None:
            if known.default is not None:
                new = known.default
            elif known.computed:
                return
        if new is UNKNOWN:
            yield Difference(path, Change.UPDATE, known.force_new)
        elif known.kind == "block":
            yield from self._block(known, old, new, path)
        elif known.kind in ("blocks", "blockset"):
            yield from self._blocks(known, old or [], new or [], path)
        elif not self._same(known, old, new, path):
            yield Difference(path, _change(old, new), known.force_new)

    def _block(self, known: Property, old: Any, new: Any, path: Path) -> Iterator[Difference]:
        """Yield one object.

        Added or taken away as a whole, or property by property, which replace by themselves alone.
        """
        if not old and new is None:
            return
        if old is None or new is None:
            if self._suppressed(known, path, old, new):
                return
            given = old if new is None else new
            yield Difference(path, _change(old, new), known.force_new or _forces(known.fields, given))
            return
        yield from self._object(known.fields, old, new, path)

    def _blocks(self, known: Property, old: list[Any], new: list[Any], path: Path) -> Iterator[Difference]:
        if self._suppressed(known, path, old, new):
            return
        if known.kind == "blockset":
            old = self._paired(known, old, new)
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            yield from self._block(known, before, after, (*path, index))

    def _paired(self, known: Property, old: list[Any], new: list[Any]) -> list[Any]:
        """Return the old elements in the order of the new ones that mean the same."""
        left = list(old)
        paired: list[Any] = []
        for wanted in new:
            same = next((one for one in left if not any(self._object(known.fields, one, wanted, ()))), None)
            if same is not None:
                left.remove(same)
            paired.append(same)
        return [one if one is not None else (left.pop(0) if left else None) for one in paired] + left

    def _same(self, known: Property, old: Any, new: Any, path: Path) -> bool:
        if old in _ZEROES and new in _ZEROES:
            return not isinstance(new, list) or not old
        if known.is_set and isinstance(old, list) and isinstance(new, list):
            return sorted(map(str, old)) == sorted(map(str, new)) or self._suppressed(known, path, old, new)
        return _equal(old, new) or self._suppressed(known, path, old, new)

    def _suppressed(self, known: Property, path: Path, old: Any, new: Any) -> bool:
        dotted = ".".join(str(key) for key in path if not isinstance(key, int))
        own = self._suppress.get(dotted)
        if own is not None:
            return own(old, new)
        return known.suppress and alike(old, new)


def alike(old: Any, new: Any) -> bool:
    """Whether two values differ in spelling alone: case, a URL for a name, a duration, JSON."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    if old.casefold() == new.casefold() or _named_alike(old, new):
        return True
    durations = _DURATION.fullmatch(old), _DURATION.fullmatch(new)
    if durations[0] and durations[1]:
        return durations[0][1] == durations[1][1]
    try:
        return json.loads(old) == json.loads(new)
    except ValueError:
        return False


def _named_alike(old: str, new: str) -> bool:
    """Whether two references name the same: full names, URLs, or a bare name for one of them."""
    relative = [text[text.index("projects/") :] if "projects/" in text else text for text in (old, new)]
    if "/" in relative[0] and "/" in relative[1]:
        return relative[0] == relative[1]
    return old.rpartition("/")[2] == new.rpartition("/")[2]


def _equal(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: str(value) for key, value in old.items()} == {key: str(value) for key, value in new.items()}
    if isinstance(old, bool) != isinstance(new, bool):
        return str(old).lower() == str(new).lower()
    return bool(old == new) or (isinstance(old, str | int | float) and str(old) == str(new))


def _change(old: Any, new: Any) -> Change:
    if old in _ZEROES:
        return Change.ADD
    return Change.DELETE if new in _ZEROES else Change.UPDATE


def _forces(fields: Mapping[str, Property], given: Any) -> bool:
    """Whether taking an object away, or adding it, replaces: one of what it holds does."""
    if not isinstance(given, dict):
        return False
    return any(
        one.force_new or _forces(one.fields, given[name])
        for name, one in fields.items()
        if given.get(name) not in _ZEROES
    )
