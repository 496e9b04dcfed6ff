"""Who is killed, found by process id: children of the driver, and what the sandbox's own state says it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from encamp_sandbox.state import find, read_state
from harness.cases import DRIVER, ENGINE, LANGUAGE, SERVERS

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

#: The sandbox's own host is a module of ours, the official one an executable.
_LANGUAGES = ("pulumi-language", "encamp_sandbox.language_host")
#: Official plugins that serve in a server's place are processes of the engine.
_PLUGINS = {"kubernetes-provider": "pulumi-resource-kubernetes"}
#: On a busy machine a server that was killed takes many seconds to be back.
_APPEAR_SECONDS = 30.0


def kill(victim: str, driver: int, layout: Layout) -> bool:
    """SIGKILL a victim; False where it does not live now. The driver's own children are left to what it left them."""
    end = time.monotonic() + _APPEAR_SECONDS
    while (process := _found(victim, driver, layout)) is None:
        # A server that another job's trial has killed comes back by itself.
        if victim not in SERVERS or time.monotonic() > end:
            return False
        time.sleep(0.1)
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


def _found(victim: str, driver: int, layout: Layout) -> psutil.Process | None:
    if victim in SERVERS:
        state = read_state(layout)
        if state is None:
            return None
        if victim not in _PLUGINS or victim in state.processes:
            server = state.processes[victim]
            return find(server.pid, server.created)
    try:
        process = psutil.Process(driver)
        if victim == DRIVER:
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        children = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    return next((child for child in children if _is(victim, child)), None)


def _is(victim: str, process: psutil.Process) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    if victim in _PLUGINS:
        return bool(command) and command[0].rpartition("/")[2] == _PLUGINS[victim]
    language = any(name in part for part in command for name in _LANGUAGES)
    engine = bool(command) and command[0].rpartition("/")[2] == "pulumi"
    return language if victim == LANGUAGE else victim == ENGINE and engine and not language
