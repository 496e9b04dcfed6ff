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
    from collections.abc import Callable

    from pydantic.fields import FieldInfo

_INT64 = 2**63
_LONGEST_INT64 = 20


class FlagGroup(StrEnum):
    """A section of flags on the help page of a command about one job."""

    CODE = "Code"
    PLACES = "Places"
    MACHINES = "Machines"
    OPTIONS = "Options"


@dataclass(frozen=True)
class CommandFlag:
    """The flag that sets a field, as the old submit client had it.

    Attributes:
        metavar: what help calls its value.
        group: its section of the help page.
        name: without dashes; of a role's options what follows the role's name. The field's own name when absent.
        help: the field's documentation when absent; ``{whose}`` stands for the role, such as ``the workers``.
        switch: what the flag sets without being given a value; None for a flag that takes one.
        adds: it may be given several times, and adds to the field's list.
    """

    metavar: str
    group: FlagGroup
    name: str | None = None
    help: str | None = None
    switch: Any = None
    adds: bool = False


@dataclass(frozen=True)
class Declaration:
    """The declaration of a field beside its type and its documentation. pydantic calls it to complete a JSON Schema.

    Attributes:
        default: what a missing field means, as the model would hold it; None if nothing stands for it.
        rule: the rule that a value of another type breaks; a field without one has that of what holds it.
        flag: the flag that sets it.
        local: it names files of the machine that the job file lies on, which a request cannot.
        output_only: the service writes it; in a file it is ignored.
        refused: it is known, and refused in words of its own.
    """

    default: Any = None
    rule: str | None = None
    flag: CommandFlag | None = None
    local: bool = False
    output_only: bool = False
    refused: bool = False

    def __call__(self, schema: dict[str, Any]) -> None:
        """Add the default to a JSON Schema."""
        if self.default is not None:
            schema["default"] = self.written_default

    @property
    def written_default(self) -> Any:
        """The default as a file would say it."""
        return str(self.default) if isinstance(self.default, (Duration, StrEnum)) else self.default


def field(
    default: Any = None,
    *,
    rule: str | None = None,
    flag: CommandFlag | None = None,
    local: bool = False,
    output_only: bool = False,
    refused: bool = False,
) -> Any:
    """Return a field that may be missing, with its :class:`Declaration`."""
    said = Declaration(default, rule, flag, local=local, output_only=output_only, refused=refused)
    return Field(default=None, json_schema_extra=said)


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
        """Return the value of a field; where it is missing, the default that it is declared with.

        0 and an empty text are missing too, as in the JSON form of protocol buffers.
        """
        return getattr(self, name) or declaration(type(self).model_fields[name]).default


def declaration(info: FieldInfo) -> Declaration:
    """Return what a field says of itself."""
    extra = info.json_schema_extra
    return extra if isinstance(extra, Declaration) else Declaration()


def declared_fields(model: type[BaseModel], is_wanted: Callable[[Declaration], bool]) -> tuple[str, ...]:
    """Return names of the fields of a model whose declaration is wanted, in their order."""
    return tuple(name for name, info in model.model_fields.items() if is_wanted(declaration(info)))


def _int64(value: Any) -> Any:
    if isinstance(value, str) and len(value) <= _LONGEST_INT64 and value.removeprefix("-").isascii():
        digits = value.removeprefix("-")
        value = int(value) if digits.isdigit() else value
    if isinstance(value, bool) or not isinstance(value, int) or not -_INT64 <= value < _INT64:
        raise PydanticCustomError("int64", "must be a whole number of 64 bits, as a number or as a string")
    return value


def _whole_number(form: str) -> WithJsonSchema:
    """Return the JSON Schema of a whole number: a number, or digits in quotes."""
    digits = {"type": "string", "pattern": "^-?[0-9]{1,19}$"}
    return WithJsonSchema({"anyOf": [{"type": "integer", "format": form}, digits]})


#: A whole number of 64 bits, which the API's answers and many JSON writers put in quotes.
Int64 = Annotated[int, BeforeValidator(_int64), _whole_number("int64")]
#: A whole number that the API has 32 bits for, and answers without quotes. Rules bound it further.
Int32 = Annotated[int, BeforeValidator(_int64), _whole_number("int32")]


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
