"""Property values as plain Python data, and how they travel in a protobuf Struct.

None, bool, int, float, str, list and dict stand for themselves; four types stand for what JSON cannot say:
``UNKNOWN`` (known only after an apply), ``Secret``, ``Asset`` and ``Archive``. Signatures are those of
``sdk/python/lib/pulumi/runtime/rpc.py``. Resource references and output values never arrive, because the server
tells the engine that it accepts neither: the engine then sends ids, plain values, secrets and unknowns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import struct_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Value: TypeAlias = Any
"""None, bool, int, float, str, list, dict, UNKNOWN, Secret, Asset or Archive."""

Properties: TypeAlias = dict[str, Value]
"""A resource's inputs or outputs."""

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top of the properties to one value."""

UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a type's signature, no password
ASSET_SIGNATURE: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE_SIGNATURE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
INPUTS_KEY: Final = "__inputs"
"""Under this output a provider keeps the inputs; what is secret in these is secret there."""
EXACT_INTEGERS: Final = 2**53


class Unknown:
    """The type of ``UNKNOWN``, a value that a preview cannot know yet."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True)
class Secret:
    """A value that the engine encrypts in its state and masks in its output."""

    value: Value

    def __repr__(self) -> str:
        return "Secret(...)"


@dataclass(frozen=True)
class Asset:
    """A file handed over by text, by path or by address; ``hash`` is the hex SHA-256 that the engine computed."""

    text: str | None = None
    path: str | None = None
    uri: str | None = None
    hash: str = ""


@dataclass(frozen=True)
class Archive:
    """Files handed over as named parts, by path or by address; ``hash`` is the hex SHA-256 by the engine."""

    assets: dict[str, Value] | None = None
    path: str | None = None
    uri: str | None = None
    hash: str = ""


def decode(struct: struct_pb2.Struct) -> Properties:
    """The properties of a message; numbers without a fraction are ints, as in JSON."""
    return {key: _decode(value) for key, value in struct.fields.items()}


def _decode(value: struct_pb2.Value) -> Value:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value == UNKNOWN_TEXT else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if abs(number) <= EXACT_INTEGERS and number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "struct_value":
        return _typed(decode(value.struct_value))
    return None


def _typed(fields: Properties) -> Value:
    signature = fields.get(SIGNATURE)
    if signature is None:
        return fields
    content = {key: item for key, item in fields.items() if key != SIGNATURE}
    if signature == SECRET_SIGNATURE:
        return Secret(content.get("value"))
    if signature == ASSET_SIGNATURE:
        return Asset(**_known(content, "text", "path", "uri", "hash"))
    if signature == ARCHIVE_SIGNATURE:
        return Archive(**_known(content, "assets", "path", "uri", "hash"))
    return fields


def _known(fields: Mapping[str, Value], *names: str) -> Properties:
    return {name: fields[name] for name in names if fields.get(name) not in (None, UNKNOWN)}


def encode(properties: Mapping[str, Value]) -> struct_pb2.Struct:
    """The message of properties.

    Raises:
        TypeError: a value of a type that has no place on the wire; the text names the type.
        ValueError: a number that JSON does not have.
    """
    return struct_pb2.Struct(fields={key: _encode(value) for key, value in properties.items()})


def _encode(value: Value) -> struct_pb2.Value:  # noqa: PLR0911  one return per type
    match value:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case bool():
            return struct_pb2.Value(bool_value=value)
        case str():
            return struct_pb2.Value(string_value=value)
        case int() | float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no JSON number")
            return struct_pb2.Value(number_value=value)
        case list() | tuple():
            return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[_encode(item) for item in value]))
        case dict():
            return struct_pb2.Value(struct_value=encode(value))
    return _encode_special(value)


def _encode_special(value: Value) -> struct_pb2.Value:
    match value:
        case Unknown():
            return struct_pb2.Value(string_value=UNKNOWN_TEXT)
        case Secret():
            return _signed(SECRET_SIGNATURE, {"value": value.value})
        case Asset():
            return _signed(ASSET_SIGNATURE, _given(vars(value)))
        case Archive():
            return _signed(ARCHIVE_SIGNATURE, _given(vars(value)))
    raise TypeError(f"a {type(value).__name__} is no property value")


def _signed(signature: str, fields: Properties) -> struct_pb2.Value:
    return struct_pb2.Value(struct_value=encode({SIGNATURE: signature, **fields}))


def _given(fields: Mapping[str, Value]) -> Properties:
    return {key: item for key, item in fields.items() if item is not None}


def plain(value: Value) -> Value:
    """The value with every secret opened; what a provider gets to see."""
    match value:
        case Secret():
            return plain(value.value)
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
    return value


def secret_paths(value: Value, path: Path = ()) -> Iterator[Path]:
    """The path of every outermost secret."""
    match value:
        case Secret():
            yield path
        case dict():
            for key, item in value.items():
                yield from secret_paths(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from secret_paths(item, (*path, index))


def conceal(value: Value, paths: set[Path]) -> Value:
    """The value with a secret at every one of the paths that it has; what is secret already stays as it is."""
    if not paths or isinstance(value, Secret):
        return value
    if () in paths:
        return Secret(plain(value))
    match value:
        case dict():
            return {key: conceal(item, _below(paths, key)) for key, item in value.items()}
        case list():
            return [conceal(item, _below(paths, index)) for index, item in enumerate(value)]
    return value


def _below(paths: set[Path], key: str | int) -> set[Path]:
    return {path[1:] for path in paths if path[0] == key}


def has_unknowns(value: Value) -> bool:
    """Whether anything in the value is not known yet."""
    match value:
        case Unknown():
            return True
        case Secret():
            return has_unknowns(value.value)
        case dict():
            return any(has_unknowns(item) for item in value.values())
        case list():
            return any(has_unknowns(item) for item in value)
    return False
