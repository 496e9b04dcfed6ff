"""The storage server as a process: ``python -m encamp_sandbox.storage``, for the sandbox of ENCAMP_SANDBOX_DIR."""

from __future__ import annotations

import asyncio
import logging

import uvicorn

from encamp.guard.listening import listen
from encamp_sandbox.layout import Layout
from encamp_sandbox.storage.api import StorageServer


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    layout = Layout.open()
    server = StorageServer(layout.storage_data, layout.token)
    try:
        config = uvicorn.Config(server, log_config=None, access_log=False, lifespan="off")
        asyncio.run(uvicorn.Server(config).serve([listen(layout.ports.storage)]))
    finally:
        server.close()


if __name__ == "__main__":
    main()
