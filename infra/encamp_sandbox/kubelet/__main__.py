"""``python -m encamp_sandbox.kubelet``: runs until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys

from encamp.errors import EncampError
from encamp_sandbox.kubelet.kubelet import Kubelet, Settings
from encamp_sandbox.layout import Layout


async def _run() -> None:
    kubelet = asyncio.ensure_future(Kubelet(Layout.open(), Settings.from_environment(os.environ)).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, kubelet.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await kubelet


def main() -> None:
    """Run the kubelet of the sandbox in ENCAMP_SANDBOX_DIR."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(_run())
    except EncampError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
