"""Lines on a terminal: steps of encamp with the time since the start, lines of replicas with their names."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import click

from encamp.run.context import Context, never_raising

if TYPE_CHECKING:
    from collections.abc import Mapping


def printable(line: str) -> str:
    """A line without what would steer the terminal: that is shown as an escape."""
    return "".join(one if one.isprintable() or one == "\t" else one.encode("unicode_escape").decode() for one in line)


class Lines:
    """Writes whole lines, from any thread; a closed terminal is no error."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._write = never_raising(self._echo)

    def show(self, line: str) -> None:
        """A step of encamp."""
        self._write(f"[{time.monotonic() - self._begun:6.1f}s] {line}")

    def log(self, replica: str, line: str) -> None:
        """A line of a replica's log; what would steer the terminal is shown as an escape."""
        self._write(f"{replica} | {printable(line)}")

    def context(self) -> Context:
        """What commands about jobs work with, writing here."""
        return Context(self.show, self.log, allocatable=_allocatable)

    def _echo(self, line: str) -> None:
        with self._lock:
            click.echo(line)


def _allocatable(machine_type: str) -> Mapping[str, float]:
    """What a machine leaves to pods as numbers; nothing where the catalog does not know it."""
    from encamp.errors import PlanError  # noqa: PLC0415
    from encamp.plan.allocatable import allocatable  # noqa: PLC0415 - wanted only while replicas wait

    try:
        room = allocatable(machine_type)
    except PlanError:
        return {}
    return {"cpu": room.cpu_millis / 1000, "memory": room.memory_mib * 2.0**20, **room.devices}
