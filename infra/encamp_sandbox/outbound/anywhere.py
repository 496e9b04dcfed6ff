"""Connections of the sandbox's own user, whose programs reach every host: directly, or by a proxy of the owner's."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from encamp_sandbox.outbound.destinations import Stream

_PORT = 80
_OK = b"200"


class Anywhere:
    """Connects to every host.

    Args:
        proxy: URL of the owner's own HTTP proxy, empty for none.
        without: hosts that are reached without it, as in ``no_proxy``.
    """

    def __init__(self, proxy: str = "", without: str = "") -> None:
        self._proxy = urlsplit(proxy if "://" in proxy or not proxy else f"http://{proxy}")
        self._without = [name.strip().lower().lstrip(".") for name in without.split(",") if name.strip()]

    async def connect(self, host: str, port: int, client: str = "") -> Stream:
        """Connect, whoever asks. Raises OSError."""
        del client
        proxy = self._proxy
        if not proxy.hostname or self._is_without(host):
            return await asyncio.open_connection(host, port)
        stream = await asyncio.open_connection(proxy.hostname, proxy.port or _PORT)
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        user = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
        signed = f"Proxy-Authorization: Basic {base64.b64encode(user).decode()}\r\n" if proxy.username else ""
        stream[1].write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{signed}\r\n".encode())
        try:
            head = await stream[0].readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            stream[1].close()
            raise ConnectionError(f"the proxy {proxy.hostname} does not answer") from error
        if head.split(b" ", 2)[1:2] != [_OK]:
            stream[1].close()
            raise ConnectionError(f"the proxy {proxy.hostname} refuses {target}")
        return stream

    def _is_without(self, host: str) -> bool:
        return any(name in ("*", host) or host.endswith(f".{name}") for name in self._without)
