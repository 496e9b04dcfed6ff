"""The supervisor's main program; started by ``encamp sandbox up``, ended by SIGTERM.

It ends by itself when the sandbox's folder is gone, and when the process has ended whose id ``ENCAMP_SANDBOX_WITH``
names: what is started for the time of a test, or of a runner's step, does not outlive it, however that was ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from encamp.errors import EncampError, SandboxError, UsageError
from encamp_sandbox.layout import ROOT_VARIABLE, Layout
from encamp_sandbox.services import later_services, services
from encamp_sandbox.state import creation_time, is_alive, lock
from encamp_sandbox.supervisor.supervisor import Supervisor
from encamp_sandbox.tools import installed, manifest_files

_log = logging.getLogger("encamp_sandbox.supervisor")
#: Process id of whoever the sandbox lives with.
WITH_VARIABLE = "ENCAMP_SANDBOX_WITH"
_LOOK_SECONDS = 1.0


async def _main(layout: Layout) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    tools = installed()
    manifests = manifest_files(jobset=not layout.config.installs_controllers)
    supervisor = Supervisor(layout, services(layout, tools), *manifests)
    watching = [
        asyncio.create_task(stop_unneeded(layout, stop, lives_with())),
        asyncio.create_task(keep_queues(layout, supervisor)),
    ]
    await supervisor.run(stop)
    for task in watching:
        task.cancel()


async def keep_queues(layout: Layout, supervisor: Supervisor, *, look_seconds: float = _LOOK_SECONDS) -> None:
    """Keep Kueue running too as soon as somebody asks for queues."""
    while True:
        if asked := later_services(layout):
            break
        await asyncio.sleep(look_seconds)
    from encamp_sandbox.kueue import kueue_objects  # noqa: PLC0415 - most sandboxes do without

    for service in asked:
        await supervisor.add(service, kueue_objects(layout))


def lives_with() -> tuple[int, float] | None:
    """Return process id and creation time of the process that the sandbox lives with, None if it lives by itself.

    Raises:
        UsageError: no such process lives.
    """
    asked = os.environ.get(WITH_VARIABLE)
    if not asked:
        return None
    created = creation_time(int(asked)) if asked.isascii() and asked.isdecimal() else 0.0
    if not created:
        raise UsageError(f"no process has the id {asked!r}", where=WITH_VARIABLE, hint="name a living one, or unset it")
    return int(asked), created


async def stop_unneeded(
    layout: Layout, stop: asyncio.Event, companion: tuple[int, float] | None, *, look_seconds: float = _LOOK_SECONDS
) -> None:
    """Set ``stop`` when the sandbox's folder or its companion, if it has one, is gone."""
    while True:
        if not layout.run.is_dir():
            reason = f"{layout.root} is gone"
        elif companion is not None and not is_alive(*companion):
            reason = f"process {companion[0]} has ended"
        else:
            await asyncio.sleep(look_seconds)
            continue
        _log.info("%s, so the sandbox ends", reason)
        stop.set()
        return


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
