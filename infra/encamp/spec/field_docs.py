"""The fields of a job file as documentation: path, type, choices, default and the docstring under each.

Read from the models on demand (``encamp explain``, the schema, the reference), so that plain commands do not pay for
it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel

from encamp.spec.fields import Double, DurationText, Flag, Int32, Int64, Text, declaration, declared_fields
from encamp.spec.job import TrainingJobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic.fields import FieldInfo

_WORDS: Mapping[Any, str] = {
    Text: "string",
    DurationText: "duration",
    Int64: "whole number",
    Int32: "whole number",
    Double: "number",
    Flag: "true or false",
    # pydantic's representation of a field that is never missing.
    bool: "true or false",
}
#: Fields that a file may have, but that nobody writes.
HIDDEN = frozenset(declared_fields(TrainingJobSpec, lambda said: said.output_only or said.refused))


@dataclass(frozen=True)
class FieldDoc:
    """A field of a job file.

    Attributes:
        path: dotted, in camelCase, without indices.
        snake_path: the same in snake_case, which files may use too.
        kind: its type in words.
        choices: the values of an enum.
        default: what a missing field means, None if nothing stands for it.
        meaning: one or a few sentences.
        section: name of the model below it, None for a value.
        same_as: path of an earlier section with the same fields, where there is one.
    """

    path: str
    snake_path: str
    kind: str
    choices: tuple[str, ...]
    default: Any
    meaning: str
    section: str | None = None
    same_as: str | None = None

    @property
    def parent(self) -> str:
        """Path of what holds it; empty at the top."""
        return self.path.rpartition(".")[0]


@cache
def job_fields() -> Mapping[str, FieldDoc]:
    """Return every field that people write, by its path, in the order of the models."""
    return {field.path: field for field in _fields(TrainingJobSpec, (), (), {})}


def distinct_fields() -> Sequence[FieldDoc]:
    """Return every field once: of sections with the same fields the first is spelled out, the others name it."""
    fields = job_fields()
    repeated = tuple(f"{field.path}." for field in fields.values() if field.same_as is not None)
    return [field for field in fields.values() if not field.path.startswith(repeated)]


def _fields(
    model: type[BaseModel], path: tuple[str, ...], snake: tuple[str, ...], seen: dict[str, str]
) -> Iterator[FieldDoc]:
    docs = docstrings(model)
    for name, info in model.model_fields.items():
        if name in HIDDEN:
            continue
        here = (*path, info.alias or name)
        below = (*snake, name)
        inner = inner_model(info)
        section = inner.__name__ if inner is not None else None
        yield FieldDoc(
            path=".".join(here),
            snake_path=".".join(below),
            kind=_words(info.annotation),
            choices=tuple(each.value for each in _enum(info) or ()),
            default=default(info),
            meaning=docs[name],
            section=section,
            same_as=seen.get(section) if section is not None else None,
        )
        if inner is not None:
            seen.setdefault(inner.__name__, ".".join(here))
            yield from _fields(inner, here, below, seen)


def docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstring under each field of a model, on one line."""
    return _docstrings_of(model.__module__)[model.__name__]


@cache
def _docstrings_of(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the class to field to docstring; a module's source is parsed once."""
    found: dict[str, dict[str, str]] = {}
    for statement in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(statement, ast.ClassDef):
            found[statement.name] = dict(_under(statement.body))
    return found


def _under(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, " ".join(words.split()).replace("``", "`")


def default(info: FieldInfo) -> Any:
    """Return the value that a missing field stands for: the model's documented one, or the field's own default."""
    found = declaration(info).written_default
    return found if found is not None or isinstance(info.default, BaseModel) else info.default


def inner_model(info: FieldInfo) -> type[BaseModel] | None:
    """Return the model of what lies below a field."""
    return next((each for each in parts(info.annotation) if _is(each, BaseModel)), None)


def _enum(info: FieldInfo) -> type[StrEnum] | None:
    return next((each for each in parts(info.annotation) if _is(each, StrEnum)), None)


def _is(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, base)


def parts(annotation: Any) -> Iterator[Any]:
    """Yield a type without what is optional about it; of a list its elements' type."""
    if get_origin(annotation) in {Union, UnionType, list}:
        for part in get_args(annotation):
            yield from parts(part)
    else:
        yield annotation


def _words(annotation: Any) -> str:
    if annotation in _WORDS:
        return _WORDS[annotation]
    if get_origin(annotation) in {Union, UnionType}:
        return _words(next(part for part in get_args(annotation) if part is not type(None)))
    if get_origin(annotation) is list:
        (item,) = get_args(annotation)
        return "list of sections" if _is(item, BaseModel) else f"list of {_words(item)}s"
    if get_origin(annotation) is dict:
        return "mapping of strings" if get_args(annotation)[1] == Text else "mapping"
    if _is(annotation, BaseModel):
        return "section"
    if _is(annotation, StrEnum):
        return "one of"
    raise TypeError(f"no words for the type {annotation}: add it to the table of this module")
