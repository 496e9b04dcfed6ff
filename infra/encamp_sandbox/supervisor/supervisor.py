"""All keepers of one sandbox: the order of starting and of ending, and the record of what happens."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from encamp_sandbox.bootstrap import apply_objects, bootstrap
from encamp_sandbox.controlplane import BOOTSTRAP
from encamp_sandbox.layout import ROOT_VARIABLE
from encamp_sandbox.state import MARK, SandboxState, creation_time, write_state
from encamp_sandbox.supervisor.keeper import Keeper
from encamp_sandbox.supervisor.logs import bound_log

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from encamp_sandbox.layout import Layout
    from encamp_sandbox.service import Service

_log = logging.getLogger(__name__)
_LOG_CHECK_SECONDS = 10.0
_BOOTSTRAP_RETRY_SECONDS = 1.0
#: The order of ending, each group at once: first what uses the API server, last what everything is kept in.
_LAST_TO_STOP = ("kube-apiserver", "etcd")


class Supervisor:
    """All keepers of one sandbox."""

    def __init__(self, layout: Layout, kept: Sequence[Service], *manifests: Path) -> None:
        """Take ``kept``, the services, and ``manifests``: what the cluster gets before JobSet starts."""
        self._layout = layout
        self._manifests = manifests
        self._environment = {
            **os.environ,
            ROOT_VARIABLE: str(layout.root),
            MARK: str(layout.root),
            "PYTHONUNBUFFERED": "1",
            # The exec plugin of a kubeconfig must be the sandbox's, whatever else is installed.
            "PATH": os.pathsep.join([str(layout.bin), os.environ.get("PATH", os.defpath)]),
        }
        self._keepers = {service.name: self._keeper(service) for service in kept}
        self._kept: list[asyncio.Task[None]] = []
        self._bootstrapped = asyncio.Event()
        self._state = SandboxState(
            os.getpid(),
            creation_time(os.getpid()),
            time.time(),
            {name: keeper.state for name, keeper in self._keepers.items()},
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Keep everything running until ``stop`` is set, then end everything."""
        self._changed()
        background = [self._spawn(self._bootstrap()), self._spawn(self._bound_logs())]
        self._kept += [self._spawn(self._keep(keeper)) for keeper in self._keepers.values()]
        await stop.wait()
        _log.info("ending")
        for task in background:
            task.cancel()
        last = [self._keepers[name] for name in _LAST_TO_STOP]
        await asyncio.gather(*(keeper.stop() for keeper in self._keepers.values() if keeper not in last))
        for keeper in last:
            await keeper.stop()
        await asyncio.gather(*self._kept)
        self._state.down_at = time.time()
        self._changed()

    async def add(self, service: Service, objects: list[dict[str, Any]]) -> None:
        """Keep one more service, once the cluster has the objects that it needs."""
        keeper = self._keepers[service.name] = self._keeper(service)
        self._state.processes[service.name] = keeper.state
        self._changed()
        await self._bootstrapped.wait()
        while True:
            try:
                await apply_objects(self._layout, objects)
                break
            except Exception as error:  # noqa: BLE001 - as below
                _log.warning("%s: %s", service.name, error)
                keeper.state.message = f"its types and webhooks could not be applied: {error}"
                self._changed()
                await asyncio.sleep(_BOOTSTRAP_RETRY_SECONDS)
        keeper.state.message = ""
        self._kept.append(self._spawn(self._keep(keeper)))

    def _keeper(self, service: Service) -> Keeper:
        return Keeper(service, self._layout.log(service.name), self._environment, self._changed)

    async def _keep(self, keeper: Keeper) -> None:
        for need in keeper.service.needs:
            event = self._bootstrapped if need == BOOTSTRAP else self._keepers[need].ready
            waiting = [asyncio.create_task(event.wait()), asyncio.create_task(keeper.stopping.wait())]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
        await keeper.run()

    async def _bootstrap(self) -> None:
        keeper = self._keepers["kube-apiserver"]
        told = self._keepers.get("jobset", keeper)
        while not self._bootstrapped.is_set():
            await keeper.ready.wait()
            try:
                await bootstrap(self._layout, *self._manifests)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported and tried again
                _log.warning("bootstrap: %s", error)
                told.state.message = f"its types and webhooks could not be applied: {error}"
                self._changed()
                await asyncio.sleep(_BOOTSTRAP_RETRY_SECONDS)
                continue
            told.state.message = ""
            self._bootstrapped.set()

    async def _bound_logs(self) -> None:
        while True:
            for name in ("supervisor", *self._keepers):
                bound_log(self._layout.log(name))
            await asyncio.sleep(_LOG_CHECK_SECONDS)

    def _changed(self) -> None:
        try:
            write_state(self._layout, self._state)
        except OSError as error:  # a full disk must not end the processes
            _log.error("the state file cannot be written: %s", error)

    def _spawn(self, coroutine: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Start a part of the supervisor; one that breaks breaks all, in the open."""
        task = asyncio.create_task(coroutine)
        task.add_done_callback(_check)
        return task


def _check(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("the supervisor is broken", exc_info=error)
        os.kill(os.getpid(), signal.SIGTERM)
