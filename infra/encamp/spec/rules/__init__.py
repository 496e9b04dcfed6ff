"""The rules between and inside fields: V01-V23 and H01-H11 of AI Platform's job model, E01-E30 of encamp.

What each says, in words for people, is in :mod:`encamp.spec.rules.registry`.

A rule looks at a job that pydantic has read and reports to a :class:`~encamp.spec.rules.case.Case`. Rules never raise
and never see a value of the wrong type; what was broken before is left alone, so that one mistake is one message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.rules import (
    containers,
    egress,
    envelope,
    local_packages,
    machines,
    machines_today,
    mounts,
    notices,
    numbers,
    options,
    places,
    queues,
    tuning,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.spec.rules.case import Case

#: Every rule of a training, in the order of the ids.
RULES: tuple[Callable[[Case], None], ...] = (
    machines.check_master,
    machines.check_roles,
    machines.check_categories,
    machines.check_accelerators,
    machines.check_tpu,
    containers.check_runtime,
    containers.check_images,
    containers.check_python,
    containers.check_packages,
    containers.check_commands,
    containers.check_arguments,
    containers.check_tpu_version,
    numbers.check_durations,
    numbers.check_priority,
    numbers.check_disks,
    places.check_network,
    places.check_key,
    places.check_job_dir,
    places.check_service_account,
    places.check_region,
    tuning.check_tuning,
    machines_today.check_machines,
    options.check_provisioning,
    options.check_flexible_time,
    options.check_budget,
    options.check_expected_time,
    options.check_retention,
    options.check_storage,
    options.check_identity,
    queues.check_queue,
    mounts.check_mounts,
    mounts.check_zone,
    mounts.check_placement,
    egress.check_egress,
    notices.check_notices,
    local_packages.check_local_packages,
    local_packages.check_requirements,
)


def check(case: Case) -> None:
    """Apply every rule."""
    envelope.check_envelope(case)
    if case.has_input:
        for rule in RULES:
            rule(case)
