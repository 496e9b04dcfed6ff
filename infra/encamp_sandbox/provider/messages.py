"""The protocol messages of the pulumi wheel, without importing the SDK around them.

``import pulumi.runtime.proto`` runs ``pulumi/__init__.py``, which takes 0.4 s for an SDK that a provider never uses.
The generated modules only refer to each other relatively, so their folder loads as a package of ours. Protobuf
keeps one description per message type, so a process may import both this and the SDK.

``provider_pb2`` is made anew from its own description, with bytes wherever that has a ``Struct``, which is the same on
the wire: protobuf in Python reads messages of 100 levels, three for one of JSON, and the definitions of JobSet and of
Kueue's workloads are deeper. ``values`` reads and writes these bytes level by level.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from encamp.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
    from google.protobuf.message import Message
    from pulumi.runtime.proto import (
        engine_pb2,
        engine_pb2_grpc,
        language_pb2,
        language_pb2_grpc,
        plugin_pb2,
        provider_pb2_grpc,
        status_pb2,
    )

    provider_pb2: Any
else:

    def _load(name: str) -> ModuleType:
        if name.startswith("provider_pb2"):
            _shallow_provider()
        return import_module(f"{_package().__name__}.{name}")

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(name)
        return _load(name)


_STRUCT: Final = ".google.protobuf.Struct"


def _package() -> ModuleType:
    name = f"{__name__}_pulumi"
    if name not in sys.modules:
        spec = find_spec("pulumi")
        if spec is None or not spec.submodule_search_locations:
            raise SandboxError("the pulumi package is not installed", hint="install encamp's dependencies")
        package = ModuleType(name)
        package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "runtime" / "proto")]
        sys.modules[name] = package
    return sys.modules[name]


def _shallow_provider() -> None:
    """Put our form of ``provider_pb2`` where the wheel's gRPC module looks for it."""
    name = f"{_package().__name__}.provider_pb2"
    if getattr(sys.modules.get(name), "SHALLOW", False):
        return
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 - only here

    described = import_module(name).DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto()
    described.CopyToProto(file)
    for field in _fields(file.message_type):
        if field.type_name == _STRUCT:
            field.ClearField("type_name")
            field.type = field.TYPE_BYTES
    pool = descriptor_pool.DescriptorPool()
    for dependency in described.dependencies:
        pool.AddSerializedFile(dependency.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    module = ModuleType(name)
    module.__dict__["SHALLOW"] = True
    for message in file.message_type:
        found = pool.FindMessageTypeByName(f"{file.package}.{message.name}")
        kind: type[Message] = message_factory.GetMessageClass(found)
        module.__dict__[message.name] = kind
    sys.modules[name] = module
    _package().__dict__["provider_pb2"] = module


def _fields(messages: Any) -> Iterator[FieldDescriptorProto]:
    message: DescriptorProto
    for message in messages:
        yield from message.field
        yield from _fields(message.nested_type)


__all__: Final = [
    "engine_pb2",
    "engine_pb2_grpc",
    "language_pb2",
    "language_pb2_grpc",
    "plugin_pb2",
    "provider_pb2",
    "provider_pb2_grpc",
    "status_pb2",
]
