"""The supervisor's main program; started by ``encamp sandbox up``, ended by SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from encamp.errors import EncampError, SandboxError
from encamp.sandbox.layout import ROOT_VARIABLE, Layout
from encamp.sandbox.services import services
from encamp.sandbox.state import lock
from encamp.sandbox.supervisor.supervisor import Supervisor
from encamp.sandbox.tools import installed, manifest_files

_log = logging.getLogger("encamp.sandbox.supervisor")


async def _main(layout: Layout) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    tools = installed()
    await Supervisor(layout, services(layout, tools), *manifest_files()).run(stop)


def main() -> int:
    """Supervise the sandbox of ``ENCAMP_SANDBOX_DIR``; two of them never run side by side."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        layout = Layout.open(Path(os.environ[ROOT_VARIABLE]))
        with lock(layout.run / "supervisor.lock"):
            asyncio.run(_main(layout))
    except BlockingIOError:
        _log.error("another supervisor runs already")
        return SandboxError.exit_code
    except EncampError as error:
        _log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
