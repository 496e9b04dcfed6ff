"""Readiness of a running container: at once, or when its readiness probe first succeeds.

Departs from a kubelet: what was ready stays it, and probes by commands and gRPC are taken as successful.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from encamp.errors import EncampError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubelet.egress import Dial

_EVERY_SECONDS = 0.5
_TIMEOUT_SECONDS = 2.0
_GOOD = range(200, 400)


def has_probe(container: Mapping[str, Any]) -> bool:
    """Whether a container is ready only when somebody has asked it."""
    probe = container.get("readinessProbe") or {}
    return "httpGet" in probe or "tcpSocket" in probe


async def until_ready(container: Mapping[str, Any], address: str, dial: Dial) -> None:
    """Ask a container until it is ready."""
    while True:
        with suppress(OSError, EncampError, TimeoutError, ValueError, IndexError):
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                if await _is_ready(container, address, dial):
                    return
        await asyncio.sleep(_EVERY_SECONDS)


async def _is_ready(container: Mapping[str, Any], address: str, dial: Dial) -> bool:
    probe = container["readinessProbe"]
    asked = probe.get("httpGet") or probe["tcpSocket"]
    reader, writer = await dial(address, _port(container, asked["port"]))
    try:
        if "httpGet" not in probe:
            return True
        if asked.get("scheme") == "HTTPS":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            await writer.start_tls(context)
        path = asked.get("path") or "/"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.readline()).split()[1]) in _GOOD
    finally:
        writer.close()


def _port(container: Mapping[str, Any], port: int | str) -> int:
    if isinstance(port, int):
        return port
    named = {one.get("name"): one["containerPort"] for one in container.get("ports") or []}
    return int(named[port]) if port in named else int(port)
