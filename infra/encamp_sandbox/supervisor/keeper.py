"""Keeps one process running: start, wait until it answers, wait until it ends, wait a little, start again."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING

from encamp.errors import EncampError
from encamp.process import LiveProcess, ProcessSpec, start
from encamp_sandbox import state
from encamp_sandbox.state import ProcessState, creation_time
from encamp_sandbox.supervisor.logs import open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from encamp_sandbox.service import Service

_log = logging.getLogger(__name__)

_PROBE_EVERY_SECONDS = 0.1
_BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: A process that ran this long after it was ready has recovered: the next end counts as the first.
_RECOVERED_SECONDS = 30.0
#: Ends in a row after which the process is called failing.
_FAILING_AFTER = 3
#: One that runs but does not answer within this time is ended and started again.
_START_SECONDS = 90.0


class Keeper:
    """One service and its process; ``run`` lasts until ``stop``."""

    def __init__(
        self, service: Service, log: Path, environment: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self.service = service
        self.state = ProcessState(since=time.time())
        self.ready = asyncio.Event()
        self._log = log
        self._environment = environment
        self._changed = changed
        self.stopping = asyncio.Event()
        self._process: LiveProcess | None = None

    async def run(self) -> None:
        """Keep the process running until ``stop`` is called."""
        ends = 0
        while not self.stopping.is_set():
            began = time.monotonic()
            message = await self._once()
            if self.stopping.is_set():
                break
            recovered = self.ready.is_set() and time.monotonic() - began > _RECOVERED_SECONDS
            ends = 1 if recovered else ends + 1
            _log.warning("%s: %s", self.service.name, message)
            self.ready.clear()
            self._become(state.FAILING if ends >= _FAILING_AFTER else state.RESTARTING, message)
            pause = _BACK_OFF_SECONDS[min(ends, len(_BACK_OFF_SECONDS)) - 1]
            await asyncio.wait({asyncio.create_task(self.stopping.wait())}, timeout=pause)
        self._become(state.STOPPED, "")

    async def stop(self) -> None:
        """End the process and start it no more."""
        self.stopping.set()
        if self._process is not None:
            await self._process.stop()

    async def _once(self) -> str:
        """Run the process once, and return how it ended."""
        try:
            process = await self._start()
        except (EncampError, OSError) as error:
            return str(error)
        if self.stopping.is_set():  # the stop came while it was being started
            return str(await process.stop())
        answering = asyncio.create_task(self._until_ready(process))
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and not answering.result():
            await process.stop(grace=2)
            return f"did not answer within {_START_SECONDS:.0f} seconds"
        outcome = await ended
        answering.cancel()
        return str(outcome)

    async def _start(self) -> LiveProcess:
        self.state.starts += 1
        spec = ProcessSpec(
            self.service.name,
            self.service.argv,
            {**self._environment, **self.service.environment},
            grace_seconds=self.service.grace_seconds,
        )
        output = open_log(self._log, f"start {self.state.starts}")
        try:
            self._process = await start(spec, output=output)
        finally:
            os.close(output)
        self.state.pid = self._process.pid
        self.state.created = creation_time(self._process.pid)
        if self.state.state != state.FAILING:
            self._become(state.STARTING, self.state.message)
        return self._process

    async def _until_ready(self, process: LiveProcess) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while process.running and time.monotonic() < deadline:
            if await self.service.ready():
                self._become(state.READY, self.state.message)
                self.ready.set()
                return True
            await asyncio.sleep(_PROBE_EVERY_SECONDS)
        return False

    def _become(self, value: str, message: str) -> None:
        self.state.state = value
        self.state.message = message
        self.state.since = time.time()
        self._changed()
