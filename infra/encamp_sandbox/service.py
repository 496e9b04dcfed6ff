"""A server of the sandbox from the supervisor's view: its command, its needs, its readiness."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PROBE_SECONDS = 3.0
_OK = 200


@dataclass(frozen=True)
class Probe:
    """Whether a server answers.

    Attributes:
        port: on loopback.
        path: what to GET; None when accepting a connection is all that can be asked.
        authority: the CA file for TLS; None for plain HTTP.
        certificate: client certificate and key, where the server asks for one.
    """

    port: int
    path: str | None = None
    authority: Path | None = None
    certificate: tuple[Path, Path] | None = None

    async def answers(self) -> bool:
        """Ask once; False also when it takes longer than a few seconds."""
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            async with asyncio.timeout(_PROBE_SECONDS):
                return await self._ask()
        return False

    async def _ask(self) -> bool:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port, ssl=self._context())
        try:
            if self.path is None:
                return True
            request = f"GET {self.path} HTTP/1.1\r\nHost: {LOOPBACK}:{self.port}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            await writer.drain()
            status = await reader.readline()
            return int(status.split()[1]) == _OK if status.startswith(b"HTTP/") else False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _context(self) -> ssl.SSLContext | None:
        if self.authority is None:
            return None
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.certificate is not None:
            context.load_cert_chain(*(str(file) for file in self.certificate))
        return context


@dataclass(frozen=True)
class Service:
    """A server of the sandbox.

    Attributes:
        name: as in ``status`` and of its log file.
        argv: program and arguments.
        probes: it is ready when all of these answer.
        needs: names of what must be ready before its first start.
        environment: what it is given beside the supervisor's own environment.
        grace_seconds: how long it may take to end.
    """

    name: str
    argv: tuple[str, ...]
    probes: tuple[Probe, ...]
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 10.0

    async def ready(self) -> bool:
        """Whether everything of it answers now."""
        return all(await asyncio.gather(*(probe.answers() for probe in self.probes)))
