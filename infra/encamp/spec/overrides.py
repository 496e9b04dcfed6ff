"""Fields of a job that come from elsewhere than its file, such as the flags of a command.

They win field by field and are read by the same rules. A problem about one of them names the flag instead of a line.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_snake

from encamp.errors import SpecError
from encamp.spec.job_file import JobFile, examine_job, is_bare, read_job
from encamp.spec.loading import Document
from encamp.spec.paths import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from encamp.errors import Problem
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.loading import DataPath

_INPUT = "trainingInput"
#: Source name in messages for a job without a file.
COMMAND_LINE = "the command line"


@dataclass(frozen=True)
class Added:
    """Items that are added to a list of the file.

    Attributes:
        replaces: whether an item of the file, the first argument, is the same thing as an added one, and goes for it.
    """

    items: Sequence[str]
    replaces: Callable[[Any, str], bool]

    def to(self, present: Any) -> tuple[list[Any], int]:
        """Return the whole list, and how many items of it are the file's."""
        listed = present if isinstance(present, list) else []
        kept = [one for one in listed if not any(self.replaces(one, item) for item in self.items)]
        return [*kept, *self.items], len(kept)


@dataclass(frozen=True)
class Overrides:
    """Values that were given beside a file.

    Attributes:
        values: path of a Job in camelCase, such as ``("trainingInput", "region")``, to the field's value, or to what is
            added to it.
        flags: path to the name of the flag that sets it, also of those that were not given.
    """

    values: Mapping[DataPath, Any] = field(default_factory=dict)
    flags: Mapping[DataPath, str] = field(default_factory=dict)


def override(document: Document | None, overrides: Overrides) -> tuple[Document, Mapping[str, str]]:
    """Return the document with the values in their places, and the flag of each place, as the document spells it.

    Args:
        document: the file; None if there is none, and then every problem names the flag that would mend it.
        overrides: what wins over it. A value of None removes the field.
    """
    bare = document is not None and is_bare(document.data)
    data: dict[str, Any] = _copied(document.data) if document is not None else {}
    places: dict[str, str] = {}
    for path, flag in overrides.flags.items():
        given = path in overrides.values
        if not given and document is not None:
            continue
        at = path[1:] if bare and path[0] == _INPUT else path
        value = overrides.values[path] if given else None
        if isinstance(value, Added):
            places.update((dotted(place), flag) for place in _add(data, at, value))
        else:
            places[dotted(_set(data, at, value) if given else at)] = flag
    if document is None:
        return Document(COMMAND_LINE, data), places
    return dataclasses.replace(document, data=data), places


def examine_overridden(
    document: Document | None, overrides: Overrides
) -> tuple[TrainingJobSpec, list[Problem], list[Problem]]:
    """Return :func:`~encamp.spec.job_file.examine_job` of the file with its overrides; problems name their flags."""
    whole, places = override(document, overrides)
    job, problems, warnings = examine_job(whole)
    return job, _named(problems, places), _named(warnings, places)


def read_overridden(document: Document | None, overrides: Overrides, *, folder: Path | None) -> JobFile:
    """Return a job that keeps every rule.

    Args:
        document: its file.
        overrides: what wins over it.
        folder: folder that its local packages are relative to.

    Raises:
        SpecError: everything that is wrong with it.
    """
    whole, places = override(document, overrides)
    try:
        found = read_job(whole, folder=folder)
    except SpecError as error:
        raise SpecError(error.source, _named(error.problems, places)) from None
    return dataclasses.replace(found, warnings=tuple(_named(found.warnings, places)))


def _named(problems: Iterable[Problem], places: Mapping[str, str]) -> list[Problem]:
    named: list[Problem] = []
    for problem in problems:
        place = max((place for place in places if _is_below(problem.path, place)), key=len, default=None)
        named.append(problem if place is None else dataclasses.replace(problem, path=places[place], line=None))
    return named


def _is_below(path: str, place: str) -> bool:
    return path == place or path.startswith((f"{place}.", f"{place}["))


def _set(data: dict[str, Any], path: DataPath, value: Any) -> DataPath:
    """Set a field in whichever spelling stands there, else in camelCase; its path as spelled."""
    holder, spelled = _holder(data, path)
    key = spelled[-1]
    holder[key] = value
    if value is None:
        del holder[key]
    return spelled


def _add(data: dict[str, Any], path: DataPath, added: Added) -> list[DataPath]:
    """Add to a field's list; the path of each item that was added."""
    holder, spelled = _holder(data, path)
    holder[spelled[-1]], kept = added.to(holder.get(spelled[-1]))
    return [(*spelled, kept + number) for number in range(len(added.items))]


def _holder(data: dict[str, Any], path: DataPath) -> tuple[dict[str | int, Any], DataPath]:
    """Return the mapping that holds a field, made where there is none, and the field's path as it is spelled there."""
    spelled: list[str | int] = []
    holder: Any = data
    for part in path[:-1]:
        key = _spelling(holder, str(part))
        spelled.append(key)
        if not isinstance(holder.get(key), dict):
            holder[key] = {}
        holder = holder[key]
    return holder, (*spelled, _spelling(holder, str(path[-1])))


def _spelling(data: Mapping[str, Any], name: str) -> str:
    return to_snake(name) if to_snake(name) in data else name


def _copied(data: Any) -> Any:
    return {key: _copied(value) for key, value in data.items()} if isinstance(data, dict) else data
