"""Rules of single numbers and durations: V13, V14, disks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.machines_today import disk_sizes_gb
from encamp.spec.rules.case import INPUT, ROLES

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

#: Seconds with at most nine decimals and the suffix ``s``.
DURATION = re.compile(r"[0-9]+(\.[0-9]{1,9})?s")
#: The protocol's largest duration, 10 000 years.
_LONGEST_SECONDS = 315_576_000_000
_SHORTEST_WAIT = 1800
_LARGEST_PRIORITY = 1000


def check_durations(case: Case) -> None:
    """Check V13: form of both durations, and the shortest wait."""
    scheduling = case.input.scheduling
    if scheduling is None:
        return
    for name in ("max_running_time", "max_wait_time"):
        text: str | None = getattr(scheduling, name)
        path = (INPUT, "scheduling", name)
        if text is None:
            continue
        if not DURATION.fullmatch(text):
            unit = f"{text}s" if text.isdigit() else None
            hint = f'write "{unit}"' if unit else 'write seconds with an s, such as "3600s"'
            case.problem(
                "V13", path, f"{text[:60]!r} must be seconds with at most 9 decimals and an s at the end", hint
            )
        elif float(text[:-1]) > _LONGEST_SECONDS:
            case.problem("V13", path, f"{text[:60]} is longer than any duration, {_LONGEST_SECONDS}s")
        elif name == "max_wait_time" and float(text[:-1]) < _SHORTEST_WAIT:
            case.problem("V13", path, f"{text} is too short; at least {_SHORTEST_WAIT}s", f'write "{_SHORTEST_WAIT}s"')
        elif name == "max_running_time" and float(text[:-1]) == 0:
            case.problem("V13", path, "a job that may run for no time at all is cancelled at once", 'write "3600s"')


def check_priority(case: Case) -> None:
    """Check V14: 0 to 1000."""
    scheduling = case.input.scheduling
    priority = scheduling.priority if scheduling is not None else None
    if priority is not None and not 0 <= priority <= _LARGEST_PRIORITY:
        path = (INPUT, "scheduling", "priority")
        case.problem("V14", path, f"{priority} must be 0 to {_LARGEST_PRIORITY}")


def check_disks(case: Case) -> None:
    """Check that boot disks have a size that Compute Engine makes."""
    smallest, largest = disk_sizes_gb()
    for role in ROLES:
        disk = case.config(role).disk_config
        if (
            disk is not None
            and disk.boot_disk_size_gb is not None
            and not smallest <= disk.boot_disk_size_gb <= largest
        ):
            path = (INPUT, role.config_field, "disk_config", "boot_disk_size_gb")
            case.problem(None, path, f"{disk.boot_disk_size_gb} must be {smallest} to {largest} (GB)")
