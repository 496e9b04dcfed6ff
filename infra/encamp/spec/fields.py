"""Field types that several models share, and the base of every model of a file."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

_INT64 = 2**63
_LONGEST_INT64 = 20


def absent(means: Any) -> Any:
    """Return a field that may be missing, and what a missing one means; the schema and the documentation say so."""
    return Field(default=None, json_schema_extra={"default": means})


class Written(BaseModel):
    """A part of a file. Keys are camelCase or snake_case; unknown ones are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
    )


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
