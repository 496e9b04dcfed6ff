"""Property values as plain Python data, and how they travel as the bytes of a protobuf Struct.

None, bool, int, float, str, list and dict stand for themselves; four types stand for what JSON cannot say:
``UNKNOWN`` (known only after an apply), ``Secret``, ``Asset`` and ``Archive``. Signatures are those of
``sdk/python/lib/pulumi/runtime/rpc.py``. Resource references and output values never arrive, because the server
tells the engine that it accepts neither: the engine then sends ids, plain values, secrets and unknowns.

Bytes are read and written one level at a time: protobuf in Python reads messages of 100 levels, see ``messages``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.message import Message

    from encamp.property_paths import Path

Value: TypeAlias = Any
"""None, bool, int, float, str, list, dict, UNKNOWN, Secret, Asset or Archive."""

Properties: TypeAlias = dict[str, Value]
"""A resource's inputs or outputs."""

UNKNOWN_TEXT: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a type's signature, no password
ASSET_SIGNATURE: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE_SIGNATURE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
INPUTS_KEY: Final = "__inputs"
"""The output in which a provider keeps the inputs; what is secret in these is secret there."""
EXACT_INTEGERS: Final = 2**53


def _shallow() -> tuple[Any, Any, Any]:
    """Return ``google.protobuf``'s Struct, Value and ListValue, each with bytes in place of the messages below it."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="encamp/shallow.proto", package="encamp", syntax="proto3")
    struct = file.message_type.add(name="Struct")
    entry = struct.nested_type.add(name="FieldsEntry", options={"map_entry": True})
    once, often = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=once)
    entry.field.add(name="value", number=2, type=field.TYPE_BYTES, label=once)
    struct.field.add(
        name="fields", number=1, type=field.TYPE_MESSAGE, type_name=".encamp.Struct.FieldsEntry", label=often
    )
    value = file.message_type.add(name="Value")
    value.oneof_decl.add(name="kind")
    kinds = (
        ("null_value", field.TYPE_INT32),
        ("number_value", field.TYPE_DOUBLE),
        ("string_value", field.TYPE_STRING),
        ("bool_value", field.TYPE_BOOL),
        ("struct_value", field.TYPE_BYTES),
        ("list_value", field.TYPE_BYTES),
    )
    for number, (name, kind) in enumerate(kinds, 1):
        value.field.add(name=name, number=number, type=kind, label=once, oneof_index=0)
    items = file.message_type.add(name="ListValue")
    items.field.add(name="values", number=1, type=field.TYPE_BYTES, label=often)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    names = ("Struct", "Value", "ListValue")
    struct_type, value_type, list_type = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"encamp.{name}")) for name in names
    )
    return struct_type, value_type, list_type


_Struct, _Value, _List = _shallow()


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


def decode(struct: bytes) -> Properties:
    """Return the properties of a message's bytes; numbers without a fraction are ints, as in JSON.

    Raises:
        google.protobuf.message.DecodeError: the bytes are no ``Struct``.
    """
    return {key: _decode(value) for key, value in _Struct.FromString(struct).fields.items()}


def _decode(encoded: bytes) -> Value:
    value = _Value.FromString(encoded)
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value == UNKNOWN_TEXT else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if abs(number) <= EXACT_INTEGERS and number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode(item) for item in _List.FromString(value.list_value).values]
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


def encode(properties: Mapping[str, Value]) -> bytes:
    """Return the bytes of a message with properties.

    Raises:
        TypeError: a value of a type that has no place on the wire; the text names the type.
        ValueError: a number that JSON does not have.
    """
    return _Struct(fields={key: _encode(value) for key, value in properties.items()}).SerializeToString()


def _encode(value: Value) -> bytes:
    return _message(value).SerializeToString()


def _message(value: Value) -> Message:  # noqa: PLR0911  one return per type
    match value:
        case None:
            return _Value(null_value=0)
        case bool():
            return _Value(bool_value=value)
        case str():
            return _Value(string_value=value)
        case int() | float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no JSON number")
            return _Value(number_value=value)
        case list() | tuple():
            items = _List(values=[_encode(item) for item in value])
            return _Value(list_value=items.SerializeToString())
        case dict():
            return _Value(struct_value=encode(value))
    return _special(value)


def _special(value: Value) -> Message:
    match value:
        case Unknown():
            return _Value(string_value=UNKNOWN_TEXT)
        case Secret():
            return _signed(SECRET_SIGNATURE, {"value": value.value})
        case Asset():
            return _signed(ASSET_SIGNATURE, _given(vars(value)))
        case Archive():
            return _signed(ARCHIVE_SIGNATURE, _given(vars(value)))
    raise TypeError(f"a {type(value).__name__} is no property value")


def _signed(signature: str, fields: Properties) -> Message:
    return _Value(struct_value=encode({SIGNATURE: signature, **fields}))


def _given(fields: Mapping[str, Value]) -> Properties:
    return {key: item for key, item in fields.items() if item is not None}


def plain(value: Value) -> Value:
    """Return the value with every secret opened; what a provider gets to see."""
    match value:
        case Secret():
            return plain(value.value)
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
    return value


def secret_paths(value: Value, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every outermost secret."""
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
    """Return the value with a secret at every one of the paths that it has; what is secret already stays as it is."""
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
