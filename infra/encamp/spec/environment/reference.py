"""The reference of environments' fields in ``docs/environments.md``, made of the models; a test keeps both equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from encamp.spec.environment.model import EnvironmentSpec
from encamp.spec.field_docs import docstrings
from encamp.spec.fields import Double, Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic.fields import FieldInfo

_BEGIN, _END = "<!-- made: fields -->\n", "<!-- end -->"
_WORDS: Mapping[Any, str] = {Text: "string", Int64: "whole number", Double: "number", Flag: "true or false"}
_BARE: Mapping[Any, str] = {str: "string", int: "whole number", float: "number", bool: "true or false"}


@dataclass(frozen=True)
class Kind:
    """A field's type.

    Attributes:
        words: for readers.
        model: what lies below, None for values.
        mark: how the path goes on below: ``[]`` for lists, ``.NAME`` for mappings.
    """

    words: str
    model: type[BaseModel] | None = None
    mark: str = ""


def with_fields(page: str) -> str:
    """Return a page with what stands between its marks made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    made = "\n".join(_tables(EnvironmentSpec, "", set()))
    return f"{before}{_BEGIN}{made}\n{_END}{after}"


def field_names() -> set[str]:
    """Return the name of every field, at whatever depth, in camelCase."""
    return set(_names(EnvironmentSpec))


def _names(model: type[BaseModel]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        yield info.alias or name
        below = _kind(info.annotation).model
        if below is not None:
            yield from _names(below)


def _tables(model: type[BaseModel], path: str, seen: set[type[BaseModel]]) -> Iterator[str]:
    """Yield a table of the fields of a model, and one of each model below it that has none yet."""
    yield f"### {f'`{path}`' if path else 'The environment'}"
    yield ""
    yield "| field | type | default | meaning |"
    yield "|---|---|---|---|"
    parents = [base for base in reversed(model.__mro__) if issubclass(base, Written) and base is not Written]
    docs = {name: text for base in parents for name, text in docstrings(base).items()}
    below = []
    for name, info in model.model_fields.items():
        shown = info.alias or name
        kind = _kind(info.annotation)
        yield f"| `{shown}` | {kind.words} | {_default(info)} | {docs[name]} |"
        if kind.model is not None and kind.model not in seen:
            seen.add(kind.model)
            below.append((kind.model, f"{path}.{shown}{kind.mark}".lstrip(".")))
    yield ""
    for inner, where in below:
        yield from _tables(inner, where, seen)


def _kind(annotation: Any) -> Kind:
    """Return the type of a field, without what is optional about it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        found = Kind(_WORDS[annotation])
    elif origin in (Union, UnionType):
        found = _kind(next(part for part in arguments if part is not type(None)))
    elif origin is Literal:
        found = Kind(", ".join(f"`{choice}`" for choice in arguments))
    elif origin in (list, tuple):
        item = _kind(arguments[0])
        found = Kind(f"list of {item.words}s" if item.model else f"list: {item.words}", item.model, f"[]{item.mark}")
    elif origin is dict:
        item = _kind(arguments[1])
        found = Kind(f"{item.words} by name", item.model, f".NAME{item.mark}")
    else:
        found = _kind(arguments[0]) if arguments else _plain(annotation)
    return found


def _plain(annotation: type) -> Kind:
    if issubclass(annotation, BaseModel):
        return Kind("section", annotation)
    if issubclass(annotation, StrEnum):
        return Kind(", ".join(f"`{choice.value}`" for choice in annotation))
    return Kind(_BARE[annotation])


def _default(info: FieldInfo) -> str:
    value = info.default
    # Made anew for each model, or chosen by the plan, or nothing: the meaning says it.
    if info.default_factory is not None or value is None or value in ("", ()):
        return ""
    if isinstance(value, BaseModel) or info.is_required():
        return ""
    if isinstance(value, tuple):
        value = f"[{', '.join(str(item) for item in value)}]"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
