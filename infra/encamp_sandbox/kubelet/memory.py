"""Memory limits of containers, kept by looking: cgroups are not ours to make as an ordinary user.

A container that holds more than its limit when we look is killed and reported as OOMKilled. Between two looks it may
hold more. Pages that processes share are not counted, but what they have in volumes in memory is.

Belief: node-out-of-memory-kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import psutil

from encamp.cloud import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from encamp_sandbox.kubelet.pod import PodLife

_LOOK_SECONDS = 2.0


async def keep_limits(lives: Callable[[], list[PodLife]]) -> None:
    """Look at memory and kill, for ever."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        limited = [
            (container, process, limit)
            for life in lives()
            for container in life.everyone
            if (process := container.process) is not None and (limit := limit_of(container.spec)) is not None
        ]
        if not limited:
            continue
        held = held_by_tree()
        for container, process, limit in limited:
            if held.get(process.pid, 0) + held_in_volumes(process.pid, container.memory_mounts) > limit:
                container.out_of_memory = True
                await process.stop(0)


def limit_of(container: Mapping[str, Any]) -> int | None:
    """Return a container's memory limit in bytes."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return quantity.in_units(limits["memory"], None) if "memory" in limits else None


def held_in_volumes(pid: int, mounts: Sequence[str]) -> int:
    """Return bytes in a container's volumes in memory; what cannot be looked at counts as empty."""
    total = 0
    for target in mounts:
        with contextlib.suppress(OSError):
            found = os.statvfs(f"/proc/{pid}/root{target}")
            total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


def held_by_tree() -> dict[int, int]:
    """Return bytes held by each process of this machine together with everything below it."""
    parents: dict[int, int] = {}
    held: dict[int, int] = {}
    for process in psutil.process_iter():
        try:
            parents[process.pid] = process.ppid()
            memory = process.memory_info()
        except psutil.Error:
            continue
        held[process.pid] = memory.rss - getattr(memory, "shared", 0)
    totals = dict(held)
    for pid, amount in held.items():
        above = parents.get(pid, 0)
        while above in parents:
            totals[above] = totals.get(above, 0) + amount
            above = parents[above]
    return totals
