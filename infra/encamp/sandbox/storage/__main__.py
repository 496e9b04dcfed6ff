"""The storage server as a process: ``python -m encamp.sandbox.storage``, for the sandbox of ENCAMP_SANDBOX_DIR."""

from __future__ import annotations

import logging

import uvicorn

from encamp.sandbox.layout import Layout
from encamp.sandbox.storage.api import StorageServer

_HOST = "127.0.0.1"


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    layout = Layout.open()
    server = StorageServer(layout.storage_data, layout.token)
    try:
        uvicorn.run(server, host=_HOST, port=layout.ports.storage, log_config=None, access_log=False, lifespan="off")
    finally:
        server.close()


if __name__ == "__main__":
    main()
