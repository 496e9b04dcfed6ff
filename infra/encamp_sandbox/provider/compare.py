"""The differences of two property values, path by path, in the engine's own path syntax."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from encamp.property_paths import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from encamp.property_paths import Path
    from encamp_sandbox.provider.values import Value


class Change(Enum):
    """The kind of a property's difference."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


def differences(old: Value, new: Value, path: Path = ()) -> Iterator[tuple[Path, Change]]:
    """Yield every innermost difference; an unknown new value differs from everything, None is the same as absent."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else None
            after = new[index] if index < len(new) else None
            yield from differences(before, after, (*path, index))
    elif old is None and new is not None:
        yield path, Change.ADD
    elif old is not None and new is None:
        yield path, Change.DELETE
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield path, Change.UPDATE


@dataclass(frozen=True)
class DiffResult:
    """The effect of changed inputs on a resource.

    Attributes:
        changes: every changed property by path; empty means that nothing is to be done.
        replaces: those of them that no update can make.
        delete_before_replace: whether a replacement cannot stand beside the old resource (its name is fixed).
        stables: top-level output properties that an update leaves as they are.
        write: writes a path into the answer.
        of_outputs: whether old values are those of the outputs; what is deleted is an input all the same.
    """

    changes: Mapping[Path, Change] = field(default_factory=dict)
    replaces: frozenset[Path] = frozenset()
    delete_before_replace: bool = False
    stables: tuple[str, ...] = ()
    write: Callable[[Path], str] = path_text
    of_outputs: bool = False


def diff(
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    *,
    replace: Callable[[Path], bool] = lambda _: False,
    ignore: Iterable[str] = (),
    delete_before_replace: bool = False,
) -> DiffResult:
    """Return the difference of two sets of inputs.

    Args:
        old: inputs of the last update.
        new: inputs to be.
        replace: says of a changed path whether it forces a replacement.
        ignore: top-level properties that never count.
        delete_before_replace: handed on to the result.
    """
    skipped = set(ignore)
    changes = {path: change for path, change in differences(dict(old), dict(new)) if path[0] not in skipped}
    replaces = frozenset(path for path in changes if replace(path))
    return DiffResult(changes, replaces, delete_before_replace=delete_before_replace and bool(replaces))
