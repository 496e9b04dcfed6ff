"""Runs every server of the cloud in one event loop: the provider, the front in plain and in TLS, the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import TYPE_CHECKING

import uvicorn

from encamp.guard.listening import listen
from encamp_sandbox.cloud.cloud import Cloud
from encamp_sandbox.cloud.services.all import make_front
from encamp_sandbox.cloud.tolerant_http import TolerantProtocol
from encamp_sandbox.gcp_provider.client import Rest
from encamp_sandbox.gcp_provider.provider import GcpProvider
from encamp_sandbox.lies.front import LyingFront
from encamp_sandbox.lies.switches import Switches
from encamp_sandbox.outbound.anywhere import Anywhere
from encamp_sandbox.outbound.owner import owner_proxy
from encamp_sandbox.outbound.proxy import ConnectProxy, Front
from encamp_sandbox.provider import ProviderServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

    from encamp_sandbox.layout import Layout

_GRACE_SECONDS = 3


class _Server(uvicorn.Server):
    """A uvicorn that leaves signals to us: one process has several of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@contextlib.asynccontextmanager
async def running(layout: Layout) -> AsyncIterator[Cloud]:
    """Run all servers of a sandbox's cloud for as long as the context lasts."""
    cloud = Cloud.open(layout.cloud_database, layout.project, layout)
    front, storage = make_front(cloud, layout)
    lying = LyingFront(front, Switches(layout.lies, layout.token), layout)
    # The provider is lied to like any other client.
    client = Rest.inside(lying, layout.token)
    folder = layout.socket_folder("gcp-provider")
    provider = ProviderServer(GcpProvider(client, layout.project), layout.ports.gcp_provider, folder)
    anywhere = Anywhere(owner_proxy(os.environ), os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "")
    proxy = ConnectProxy(listen(layout.ports.proxy), Front(layout.ports.front_tls), anywhere)
    ports = (layout.ports.front, layout.ports.front_tls)
    fronts = [_uvicorn(lying), _tls(lying, layout)]
    serving = zip(fronts, map(listen, ports), strict=True)
    tasks = [asyncio.create_task(server.serve([sock])) for server, sock in serving]
    try:
        await provider.start()
        await proxy.start()
        while not all(server.started for server in fronts):
            if any(task.done() for task in tasks):
                raise SystemExit(1)
            await asyncio.sleep(0.02)
        yield cloud
    finally:
        for server in fronts:
            server.should_exit = True
        await asyncio.gather(*tasks, return_exceptions=True)
        await proxy.stop()
        await provider.stop()
        await lying.close()
        await storage.close()
        await client.close()
        cloud.close()


async def serve(layout: Layout) -> None:
    """Serve until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with running(layout):
        await ended.wait()


def _uvicorn(app: ASGIApp, certificate: Path | None = None, key: Path | None = None) -> _Server:
    config = uvicorn.Config(
        app,
        http=TolerantProtocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    return _Server(config)


def _tls(app: ASGIApp, layout: Layout) -> _Server:
    return _uvicorn(app, layout.pki / "front.crt", layout.pki / "front.key")
