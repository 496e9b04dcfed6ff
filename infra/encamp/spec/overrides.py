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
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from encamp.errors import Problem
    from encamp.spec.job import TrainingJobSpec
    from encamp.spec.loading import DataPath

_INPUT = "trainingInput"
#: What messages call a job that no file describes.
COMMAND_LINE = "the command line"


@dataclass(frozen=True)
class Overrides:
    """What was given beside a file.

    Attributes:
        values: path of a Job in camelCase, such as ``("trainingInput", "region")``, to the field's value.
        flags: path to the name of the flag that sets it, also of those that were not given.
    """

    values: Mapping[DataPath, Any] = field(default_factory=dict)
    flags: Mapping[DataPath, str] = field(default_factory=dict)


def override(document: Document | None, overrides: Overrides) -> tuple[Document, Mapping[str, str]]:
    """The document with the values in their places, and the flag of each place, as the document spells it.

    Args:
        document: the file; None where there is none, and then every problem names the flag that would mend it.
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
        places[dotted(_set(data, at, overrides.values[path]) if given else at)] = flag
    if document is None:
        return Document(COMMAND_LINE, data), places
    return dataclasses.replace(document, data=data), places


def examine_overridden(
    document: Document | None, overrides: Overrides
) -> tuple[TrainingJobSpec, list[Problem], list[Problem]]:
    """What :func:`~encamp.spec.job_file.examine_job` says of the whole; problems name their flags."""
    whole, places = override(document, overrides)
    job, problems, warnings = examine_job(whole)
    return job, _named(problems, places), _named(warnings, places)


def read_overridden(document: Document | None, overrides: Overrides, *, folder: Path | None) -> JobFile:
    """A job that keeps every rule.

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
    spelled: list[str | int] = []
    for part in path[:-1]:
        key = _spelling(data, str(part))
        spelled.append(key)
        if not isinstance(data.get(key), dict):
            data[key] = {}
        data = data[key]
    key = _spelling(data, str(path[-1]))
    data[key] = value
    if value is None:
        del data[key]
    return (*spelled, key)


def _spelling(data: Mapping[str, Any], name: str) -> str:
    return to_snake(name) if to_snake(name) in data else name


def _copied(data: Any) -> Any:
    return {key: _copied(value) for key, value in data.items()} if isinstance(data, dict) else data
