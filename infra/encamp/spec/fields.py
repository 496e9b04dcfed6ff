"""Field types that several models share, and the base of every model of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from encamp.duration import Duration

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_INT64 = 2**63
_LONGEST_INT64 = 20


@dataclass(frozen=True)
class Declared:
    """What a field's declaration says beside its type. pydantic calls it to complete the field's JSON Schema.

    Attributes:
        default: what a missing field means, as the model would hold it; None if nothing stands for it.
    """

    default: Any = None

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add the default to a JSON Schema."""
        if self.default is not None:
            schema["default"] = self.written_default

    @property
    def written_default(self) -> Any:
        """The default as a file would say it."""
        return str(self.default) if isinstance(self.default, (Duration, StrEnum)) else self.default


def absent(means: Any) -> Any:
    """Return a field that may be missing, and what a missing one means; the schema and the documentation say so."""
    return Field(default=None, json_schema_extra=Declared(means))


class Written(BaseModel):
    """A part of a file. Keys are camelCase or snake_case; unknown ones are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
    )

    def or_default(self, name: str) -> Any:
        """Return the value of a field; where it is missing, the default that it is declared with."""
        value = getattr(self, name)
        return declared(type(self).model_fields[name]).default if value is None else value


def declared(info: FieldInfo) -> Declared:
    """Return what a field's declaration says."""
    extra = info.json_schema_extra
    return extra if isinstance(extra, Declared) else Declared()


def _int64(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= _LONGEST_INT64 and value.removeprefix("-").isascii():
        digits = value.removeprefix("-")
        value = int(value) if digits.isdigit() else value
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise PydanticCustomError("int64", "must be a whole number of 64 bits, as a number or as a string")
    return value


#: The JSON Schema of it: a number, or digits in quotes.
_INT64_SCHEMA = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{1,19}$"}]}

#: A whole number of 64 bits; JSON writers put it in quotes.
Int64 = Annotated[int, BeforeValidator(_int64), WithJsonSchema(_INT64_SCHEMA)]


def _double(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("double", "must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise PydanticCustomError("double", "must be a finite number")
    return number


#: True or false, nothing that looks like it.
Flag = StrictBool

#: A finite double.
Double = Annotated[float, BeforeValidator(_double)]


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be a string")
    if "\0" in value:
        raise PydanticCustomError("text_nul", "holds a NUL character, which no process can receive")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("text_surrogate", "holds half of a surrogate pair, which is no character") from None
    return value


#: A string that can reach a process: no NUL, no lone surrogate.
Text = Annotated[str, BeforeValidator(_text)]


def _duration(value: Any) -> Duration:
    if isinstance(value, Duration):
        return value
    try:
        return Duration.parse(_text(value))
    except ValueError as error:
        raise PydanticCustomError("duration", "{what}", {"what": str(error)}) from None


#: A span of time, in files the text of :class:`~encamp.duration.Duration`.
DurationText = Annotated[
    Duration,
    PlainValidator(_duration),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "format": "google-duration", "pattern": Duration.PATTERN}),
]
