"""The gRPC base of the sandbox's Pulumi providers: the engine's protocol on one side, plain Python data on the other.

A provider author subclasses ``Provider`` (what is the same for everybody: name, version, its configuration's rules)
and ``Session`` (what one configured engine connection can do), and starts it with ``ProviderServer`` inside a running
loop or with ``run_provider`` as a process. ``interface.py`` is the reading matter; ``values.py`` says how property
values look; ``compare.py`` makes diffs; ``server.py`` is the only module that sees a protocol message.

The room owns the wire. It refuses schemas, parameterization, components and methods: the SDKs in use bring theirs.
"""

from encamp_sandbox.provider.compare import Change, DiffResult, diff
from encamp_sandbox.provider.interface import (
    CheckResult,
    Configuration,
    CreateResult,
    Failure,
    InitError,
    InvokeResult,
    Provider,
    ProviderError,
    ReadResult,
    Resource,
    ResourceState,
    Session,
)
from encamp_sandbox.provider.server import ProviderServer, run_provider
from encamp_sandbox.provider.values import UNKNOWN, Archive, Asset, Properties, Secret, Value

__all__ = [
    "UNKNOWN",
    "Archive",
    "Asset",
    "Change",
    "CheckResult",
    "Configuration",
    "CreateResult",
    "DiffResult",
    "Failure",
    "InitError",
    "InvokeResult",
    "Properties",
    "Provider",
    "ProviderError",
    "ProviderServer",
    "ReadResult",
    "Resource",
    "ResourceState",
    "Secret",
    "Session",
    "Value",
    "diff",
    "run_provider",
]
