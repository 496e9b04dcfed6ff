"""The cloud as a process: ``python -m encamp_sandbox.cloud``, for the sandbox of ENCAMP_SANDBOX_DIR."""

from __future__ import annotations

import asyncio
import logging

from encamp_sandbox.cloud.serve import serve
from encamp_sandbox.layout import Layout


def main() -> None:
    """Serve until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(serve(Layout.open()))


if __name__ == "__main__":
    main()
