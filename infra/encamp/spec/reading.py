"""Turns a document into a model and says everything that is wrong with it.

First the keys are read against the model (either spelling, the nearest one named where there is none), then pydantic
checks the values. A value that is wrong is reported, dropped and remembered as broken, so that rules between fields can
still look at the rest. Paths in messages are spelled as the file spells them.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from encamp.duration import duration_hint
from encamp.errors import Problem, SpecError
from encamp.spec.data_files import data_file
from encamp.spec.fields import declaration
from encamp.spec.paths import dotted, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.spec.loading import DataPath, Document

_Model = TypeVar("_Model", bound=BaseModel)

#: A scheme has a longest length: without, every letter of a long word would be the beginning of one.
_URL = re.compile(r"\b(?!gs:)([a-z][a-z0-9+.-]{0,30}://)[^\s'\"]+", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)'")
_LONGEST_SHOWN = 60
_LISTS = {list, tuple}
#: Which argument of a list's or mapping's type is the type of what it holds.
_ITEM: Mapping[Any, int] = {list: 0, tuple: 0, dict: 1}
_KINDS = {
    "model_type": "must be a mapping of fields",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
}


@dataclass
class Reading:
    """The state of reading a document.

    Attributes:
        problems: what was found wrong.
        written_paths: path in field names to the path as the file spells it.
        broken: paths in field names whose values were dropped.
    """

    document: Document
    problems: list[Problem] = field(default_factory=list)
    written_paths: dict[DataPath, DataPath] = field(default_factory=dict)
    broken: set[DataPath] = field(default_factory=set)

    def spelled(self, path: DataPath, root: type[BaseModel]) -> DataPath:
        """Return the path as the file spells it; parts that the file lacks in camelCase."""
        for end in range(len(path), -1, -1):
            known = self.written_paths.get(path[:end])
            if known is not None:
                return known + _aliases(root, path, end)
        return _aliases(root, path, 0)

    def report(self, path: DataPath, message: str, *, rule: str | None = None, hint: str | None = None) -> None:
        """Note a problem at a path as the file spells it."""
        self.problems.append(Problem(dotted(path), self.document.line(path), rule, message, hint))

    def is_broken(self, path: DataPath) -> bool:
        """Whether the value at a path, or what holds it, was wrong and dropped."""
        return any(path[:end] in self.broken for end in range(1, len(path) + 1))

    def check(self, root: type[BaseModel], found: Iterable[tuple[DataPath, str, str | None]]) -> None:
        """Report what rules find, but of values that were wrong already, and end with all that is wrong.

        Args:
            root: model of the whole document.
            found: of each problem the path in field names, what is wrong, and what to try.

        Raises:
            SpecError: everything that is wrong, if anything is.
        """
        for path, message, hint in found:
            if not self.is_broken(path):
                self.report(self.spelled(path, root), message, hint=hint)
        if self.problems:
            raise SpecError(self.document.source, self.problems)


def read_model(model: type[_Model], data: Any, reading: Reading, *, at: DataPath = (), prefix: DataPath = ()) -> _Model:
    """Return the model of a mapping; what was wrong is in ``reading`` and left out of the model.

    Args:
        model: what to build; every field must have a default.
        data: the mapping.
        reading: collects problems and paths.
        at: path of the mapping in field names.
        prefix: path of the mapping as the file spells it.
    """
    known = _keys(model, data, reading, at, prefix)
    while True:
        try:
            return model.model_validate(known)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = tuple(part for part in detail["loc"] if part != "[key]")
                _report(detail, model, at, path, reading)
                if not path:
                    return model()
                reading.broken.add((*at, *_drop(known, path)))


def _keys(model: type[BaseModel], data: Any, reading: Reading, at: DataPath, spelled: DataPath) -> Any:
    """Return the mapping with field names for keys, unknown keys reported and left out."""
    reading.written_paths[at] = spelled
    if not isinstance(data, dict):
        return data
    names = {alias: name for name, info in model.model_fields.items() for alias in (name, info.alias or name)}
    found: dict[str, Any] = {}
    meant: set[str | None] = set()
    for key, value in data.items():
        name = names.get(key)
        if name is None:
            meant.add(_unknown(key, model, reading, (*spelled, key)))
        elif name in found:
            reading.report(
                (*spelled, key), "is given twice, in camelCase and in snake_case", hint="keep one of the two"
            )
        else:
            found[name] = _value(model.model_fields[name].annotation, value, reading, (*at, name), (*spelled, key))
    reading.broken.update((*at, name) for name in meant - found.keys() if name is not None)
    return found


def _value(annotation: Any, value: Any, reading: Reading, at: DataPath, spelled: DataPath) -> Any:
    reading.written_paths[at] = spelled
    for choice in _choices(annotation):
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return _keys(choice, value, reading, at, spelled)
        if get_origin(choice) in _LISTS and isinstance(value, list):
            item = get_args(choice)[0]
            return [
                _value(item, element, reading, (*at, index), (*spelled, index)) for index, element in enumerate(value)
            ]
        if get_origin(choice) is dict and isinstance(value, dict):
            item = get_args(choice)[1]
            return {key: _value(item, element, reading, (*at, key), (*spelled, key)) for key, element in value.items()}
    return value


def _choices(annotation: Any) -> Iterable[Any]:
    union = get_origin(annotation) in {Union, types.UnionType}
    return get_args(annotation) if union else (annotation,)


def _unknown(key: str, model: type[BaseModel], reading: Reading, spelled: DataPath) -> str | None:
    """Report an unknown key. The field that was most likely meant is not missing, but broken."""
    snake = "_" in key
    allowed = {name if snake else info.alias or name: name for name, info in model.model_fields.items()}
    close = nearest(key, allowed)
    reading.report(spelled, f"unknown field `{key}`", hint=f"write `{close}`" if close else _listed(allowed))
    return allowed[close] if close else None


def _listed(allowed: Iterable[str]) -> str:
    return "known here: " + ", ".join(sorted(allowed))


def _report(detail: Mapping[str, Any], model: type[BaseModel], at: DataPath, path: DataPath, reading: Reading) -> None:
    full = (*at, *path)
    spelled = reading.written_paths.get(full)
    if spelled is None:
        parent = reading.written_paths.get(full[:-1], ())
        spelled = (*parent, *full[-1:])
    reading.broken.add(full)
    rule = _rule(model, path)
    if detail["type"] == "enum":
        allowed = _QUOTED.findall(detail["ctx"]["expected"])
        close = nearest(str(detail["input"]), allowed)
        shown = _without_urls(reading.document.written.get(spelled) or _shown(detail["input"]))
        message = f"{shown} is not one of {', '.join(allowed)}"
        hint = f"write {close}" if close else None
        if full[-2:] == ("accelerator_config", "type") and str(detail["input"]) in data_file("gpus"):
            role = str(full[1]).removesuffix("_config")
            hint = f"write it as encamp.machines.{to_camel(role)}.gpu.type"
        reading.report(spelled, message, rule=rule, hint=hint)
        return
    message = _KINDS.get(detail["type"], detail["msg"])
    written = reading.document.written.get(spelled)
    message = f"{message}, not {_kind(detail['input'], written)}"
    reading.report(spelled, message, rule=rule, hint=_advice(detail, written))


def _rule(model: type[BaseModel], path: DataPath) -> str | None:
    """Return the rule that a value of another type breaks: that of the innermost field on its path that has one."""
    rule: str | None = None
    holder: Any = model
    for part in path:
        info = holder.model_fields.get(part) if holder is not None else None
        if info is not None:
            rule = declaration(info).rule or rule
            holder = _inner(info.annotation)
    return rule


def _kind(value: Any, written: str | None) -> str:
    """Return a wrong value in words."""
    shown = _without_urls(written if written is not None else _shown(value))
    match value:
        case None:
            return "empty"
        case bool():
            return f"the truth value {shown}"
        case int() | float():
            return f"the number {shown}"
        case str():
            return f"the string {shown}"
        case list():
            return "a list"
    return "a mapping"


def _advice(detail: Mapping[str, Any], written: str | None) -> str | None:
    value = detail["input"]
    if detail["type"] == "list_type" and isinstance(value, str):
        is_short = len(value) <= _LONGEST_SHOWN and _without_urls(value) == value
        return f"write a list: [{value}]" if is_short else "write a list"
    if detail["type"] == "bool_type" and value in ("true", "false"):
        return f"write {value} without quotes"
    if detail["type"] == "duration":
        return duration_hint(value)
    if written is not None and detail["type"] == "text" and isinstance(detail["input"], (bool, int, float)):
        return f'put it in quotes: "{written}" (YAML reads {written} without quotes as {_read_as(detail["input"])})'
    return None


def _read_as(value: bool | float) -> str:
    return "true" if value is True else "false" if value is False else repr(value)


def _without_urls(text: str) -> str:
    """A text without what follows the scheme of a URL, but for ``gs://``: the address of a webhook holds its token."""
    return _URL.sub(r"\1...", text)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def _drop(data: dict[str, Any], path: DataPath) -> DataPath:
    """Remove the value at a path; a wrong element takes its whole list with it, since indices must not move.

    Returns:
        The path of what was removed.
    """
    holder: dict[Any, Any] = data
    for position, part in enumerate(path[:-1]):
        inner = holder.get(part)
        if not isinstance(inner, dict):
            holder.pop(part, None)
            return path[: position + 1]
        holder = inner
    holder.pop(path[-1], None)
    return path


def _aliases(root: type[BaseModel], path: DataPath, start: int) -> DataPath:
    """Return the part of a path from ``start`` on in camelCase."""
    spelled: list[str | int] = []
    model: Any = root
    is_key = False
    for position, part in enumerate(path):
        name: str | int = part
        if is_key:
            # A key of a mapping of models is spelled as it is.
            is_key = False
        elif isinstance(part, str) and isinstance(model, type) and issubclass(model, BaseModel):
            info = model.model_fields.get(part)
            name = (info.alias if info else None) or part
            model = _inner(info.annotation) if info else None
            is_key = info is not None and any(get_origin(choice) is dict for choice in _choices(info.annotation))
        if position >= start:
            spelled.append(name)
    return tuple(spelled)


def _inner(annotation: Any) -> Any:
    for choice in _choices(annotation):
        inner = get_args(choice)[_ITEM[origin]] if (origin := get_origin(choice)) in _ITEM else choice
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    return None
