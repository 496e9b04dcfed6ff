"""The protocol messages of the pulumi wheel, without importing the SDK around them.

``import pulumi.runtime.proto`` runs ``pulumi/__init__.py``, which takes 0.4 s for an SDK that a provider never uses.
The generated modules only refer to each other relatively, so their folder loads as a package of ours. Protobuf
keeps one description per message type, so a process may import both this and the SDK.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from encamp.errors import SandboxError

if TYPE_CHECKING:
    from pulumi.runtime.proto import (
        engine_pb2,
        engine_pb2_grpc,
        language_pb2,
        language_pb2_grpc,
        plugin_pb2,
        provider_pb2,
        provider_pb2_grpc,
        status_pb2,
    )
else:

    def _load(name: str) -> ModuleType:
        return import_module(f"{_package().__name__}.{name}")

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

    def __getattr__(name: str) -> ModuleType:
        if name not in __all__:
            raise AttributeError(name)
        return _load(name)


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
