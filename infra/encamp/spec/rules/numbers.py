"""Rules of single numbers and durations: V13, V14, disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.duration import Duration
from encamp.spec.machines_today import disk_sizes_gb
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

_SHORTEST_WAIT = Duration.of(1800)
_LARGEST_PRIORITY = 1000


def check_durations(case: Case) -> None:
    """Check V13: the shortest run and the shortest wait. Their form is checked as they are read."""
    scheduling = case.input.scheduling
    if scheduling is None:
        return
    if scheduling.max_running_time == Duration.of(0):
        path = (INPUT, "scheduling", "max_running_time")
        case.problem("V13", path, "a job that may run for no time at all is cancelled at once", 'write "3600s"')
    wait = scheduling.max_wait_time
    if wait is not None and wait < _SHORTEST_WAIT:
        path = (INPUT, "scheduling", "max_wait_time")
        case.problem("V13", path, f"{wait} is too short; at least {_SHORTEST_WAIT}", f'write "{_SHORTEST_WAIT}"')


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
    for role in Role:
        disk = case.config(role).disk_config
        if (
            disk is not None
            and disk.boot_disk_size_gb is not None
            and not smallest <= disk.boot_disk_size_gb <= largest
        ):
            path = (INPUT, role.config_field, "disk_config", "boot_disk_size_gb")
            case.problem(None, path, f"{disk.boot_disk_size_gb} must be {smallest} to {largest} (GB)")
