"""The LanguageRuntime service."""

# ruff: noqa: N802  the names of the methods are the protocol's
from __future__ import annotations

import importlib.metadata
import platform
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from encamp_sandbox.language_host.program import ProgramRun, run_program
from encamp_sandbox.language_host.virtualenv import VirtualenvError, about, run_in, site_packages, virtualenv
from encamp_sandbox.provider.messages import language_pb2, language_pb2_grpc, plugin_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Message = Any


class Servicer(language_pb2_grpc.LanguageRuntimeServicer):
    """Answers the engine; ``engine_address`` is the engine's own gRPC service, told on the command line."""

    def __init__(self, engine_address: str) -> None:
        self.engine_address = engine_address
        self._one_program = threading.Lock()

    def Handshake(self, request: Message, context: Any) -> Message:
        """Learn the engine's address."""
        del context
        self.engine_address = request.engine_address or self.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Message, context: Any) -> Message:
        """Return the SDK's version, which stands for the host's."""
        del request, context
        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))

    def GetRequiredPlugins(self, request: Message, context: Any) -> Message:
        """Return no plugins: providers are attached, or lie on PATH."""
        del request, context
        return language_pb2.GetRequiredPluginsResponse()

    def GetRequiredPackages(self, request: Message, context: Any) -> Message:
        """Return no packages: providers are attached, or lie on PATH."""
        del request, context
        return language_pb2.GetRequiredPackagesResponse()

    def RuntimeOptionsPrompts(self, request: Message, context: Any) -> Message:
        """Return no prompts: the interpreter is the one of the project's virtual environment, or of this host."""
        del request, context
        return language_pb2.RuntimeOptionsResponse()

    def InstallDependencies(self, request: Message, context: Any) -> Iterator[Message]:
        """Install nothing: the environment is made by ``make``."""
        del request, context
        yield language_pb2.InstallDependenciesResponse(stdout=b"The dependencies are those of encamp's environment.\n")

    def GetProgramDependencies(self, request: Message, context: Any) -> Message:
        """Return every distribution of the program's interpreter, in order of name."""
        del context
        folder = _virtualenv(request.info)
        places = sys.path if folder is None else site_packages(folder)
        listed = importlib.metadata.distributions(path=list(places))
        found = {item.name: item.version for item in listed if item.name}
        dependencies = [language_pb2.DependencyInfo(name=name, version=found[name]) for name in sorted(found)]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    def About(self, request: Message, context: Any) -> Message:
        """Return the interpreter."""
        del context
        folder = _virtualenv(request.info)
        if folder is not None:
            executable, version = about(folder)
            return language_pb2.AboutResponse(executable=executable, version=version)
        return language_pb2.AboutResponse(executable=sys.executable, version=platform.python_version())

    def Run(self, request: Message, context: Any) -> Message:
        """Run the program; one at a time, since it owns this process's working directory and modules.

        One whose project has a virtual environment of its own runs there.
        """
        del context
        info = request.info
        run = ProgramRun(
            project=request.project,
            stack=request.stack,
            organization=request.organization,
            root=info.root_directory,
            folder=info.program_directory or request.pwd,
            entry=info.entry_point or request.program,
            engine=self.engine_address,
            monitor=request.monitor_address,
            parallel=request.parallel,
            preview=request.dryRun,
            args=list(request.args),
            config=dict(request.config),
            secret_keys=list(request.configSecretKeys),
        )
        try:
            folder = virtualenv(info.root_directory, json_format.MessageToDict(info.options))
            if folder is not None:
                succeeded = run_in(folder, run)
            else:
                with self._one_program:
                    succeeded = run_program(run)
        except VirtualenvError as error:
            return language_pb2.RunResponse(error=str(error))
        # Bail means: it failed, and the program's user has been told why.
        return language_pb2.RunResponse(bail=not succeeded)

    def Cancel(self, request: Message, context: Any) -> Message:
        """Do nothing: the engine closes the program's connection by itself, and nothing here outlives it."""
        from google.protobuf.empty_pb2 import Empty  # noqa: PLC0415  only for this answer

        del request, context
        return Empty()


def _virtualenv(info: Message) -> Path | None:
    """Return the program's virtual environment; None if this process serves, or the named folder is none."""
    with suppress(VirtualenvError):
        return virtualenv(info.root_directory, json_format.MessageToDict(info.options))
    return None
