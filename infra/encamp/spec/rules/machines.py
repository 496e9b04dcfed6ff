"""Rules of machines and accelerators: V02-V07 and V18."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.alias_generators import to_camel

from encamp.spec.ai_platform import CLOUD_TPU, ai_platform
from encamp.spec.machines_today import machine_types
from encamp.spec.paths import nearest
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT
from encamp.spec.training import AcceleratorType

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case


def check_master(case: Case) -> None:
    """Check V02: CUSTOM needs masterType, or a machine in encamp.machines.master."""
    if not case.custom or case.broken(INPUT, "scale_tier") or case.replaces_type(Role.MASTER):
        return
    if case.input.master_type is None:
        case.problem("V02", (INPUT, "master_type"), "is missing: scaleTier CUSTOM needs it", "such as n1-standard-4")


def check_roles(case: Case) -> None:
    """Check V03 and V04: counts and types with CUSTOM only, a count with its type."""
    for role in Role:
        count = case.count(role)
        if role.count_field is not None and count < 0:
            case.problem("V04", (INPUT, role.count_field), f"{count} must be 0 or more")
        if not case.custom:
            _not_custom(case, role, count)
        elif count > 0 and role.count_field is not None and case.machine_type(role) is None:
            if not case.replaces_type(role):
                message = f"is missing: {case.name(INPUT, role.count_field)} is {count}"
                case.problem("V04", (INPUT, role.type_field), message, "such as n1-standard-4")
        elif count == 0 and case.machine_type(role) is not None and not _count_broken(case, role):
            case.warn("V04", (INPUT, role.type_field), f"has no effect: there are no {role.words}s")


def _count_broken(case: Case, role: Role) -> bool:
    return role.count_field is not None and case.broken(INPUT, role.count_field)


def _not_custom(case: Case, role: Role, count: int) -> None:
    given = "it is BASIC because none is given" if case.input.scale_tier is None else f"it is {case.tier.value}"
    message = f"is allowed with scaleTier CUSTOM only; {given}"
    hint = "set scaleTier: CUSTOM, or remove it"
    if role.count_field is not None and count > 0:
        case.problem("V03", (INPUT, role.count_field), message, hint)
    if case.machine_type(role) is not None:
        case.problem("V03", (INPUT, role.type_field), message, hint)
    if case.config(role).accelerator_config is not None:
        case.problem("V03", (INPUT, role.config_field, "accelerator_config"), message, hint)


def check_categories(case: Case) -> None:
    """Check V05: known types, all legacy or all Compute Engine, by the master's."""
    tables = ai_platform()
    expected = tables.category(case.input.master_type) if case.input.master_type else None
    for role in Role:
        machine_type = case.machine_type(role)
        if machine_type is None:
            continue
        path = (INPUT, role.type_field)
        category = tables.category(machine_type)
        if category is None:
            _unknown_type(case, role, machine_type)
        elif expected in {"legacy", "Compute Engine"} and category not in {expected, "TPU"}:
            case.problem(
                "V05",
                path,
                f"{machine_type} is a {category} machine type and {case.name(INPUT, 'master_type')} "
                f"{case.input.master_type} a {expected} one; all types are of one category",
            )
        elif tables.compute_engine_types.get(machine_type) == "unverified":
            case.warn("V05", path, f"that AI Platform Training took {machine_type} is not confirmed; it is accepted")


def _unknown_type(case: Case, role: Role, machine_type: str) -> None:
    tables = ai_platform()
    close = nearest(machine_type, sorted(tables.accepted_types()))
    hint = f"write {close}" if close else None
    what = "is no machine type"
    if machine_type in machine_types():
        what = "was never a machine type of AI Platform Training"
        hint = f"write it as encamp.machines.{to_camel(role.field)}.machineType" + (f", or {hint}" if hint else "")
    case.problem("V05", (INPUT, role.type_field), f"{machine_type[:60]!r} {what}", hint)


def check_accelerators(case: Case) -> None:
    """Check V06 and V07: accelerators on Compute Engine types only, of a kind and count that the machine takes."""
    for role in Role:
        accelerator = case.config(role).accelerator_config
        if accelerator is None or not case.custom:
            continue
        path = (INPUT, role.config_field, "accelerator_config")
        machine_type = case.machine_type(role)
        category = ai_platform().category(machine_type) if machine_type else None
        if category == "legacy":
            message = f"is allowed with Compute Engine machine types only; {machine_type} is a legacy one"
            case.problem("V06", path, message, "choose a type such as n1-standard-8, or a legacy type with GPUs")
        elif machine_type is None:
            if case.replaces_type(role):
                message = f"has no effect: encamp.machines.{to_camel(role.field)} says what the machine is"
                case.warn("V06", path, message)
            elif not case.broken(INPUT, role.type_field) and (case.count(role) > 0 or role is not Role.MASTER):
                message = f"needs a Compute Engine machine type, and {case.name(INPUT, role.type_field)} is missing"
                case.problem("V06", path, message)
        elif category is not None:
            _allowed(case, role, machine_type)


def _allowed(case: Case, role: Role, machine_type: str) -> None:
    accelerator = case.config(role).accelerator_config
    if accelerator is None:
        return
    path = (INPUT, role.config_field, "accelerator_config")
    kinds = _kinds(machine_type)
    kind = accelerator.type
    unspecified = kind is None or kind is AcceleratorType.ACCELERATOR_TYPE_UNSPECIFIED
    if not kinds:
        case.problem("V07", (*path, "type"), f"{machine_type} takes no accelerator", "use an n1 machine type")
    elif unspecified or kind is None:
        case.problem("V07", (*path, "type"), f"is missing: {machine_type} takes {', '.join(kinds)}")
    elif kind.value not in kinds:
        message = f"{kind.value} cannot be attached to {machine_type}; it takes {', '.join(kinds)}"
        case.problem("V07", (*path, "type"), message)
    elif accelerator.count not in kinds[kind.value]:
        counts = " or ".join(str(count) for count in kinds[kind.value])
        given = "is missing" if accelerator.count is None else f"{accelerator.count} is not possible"
        case.problem("V07", (*path, "count"), f"{given}: {machine_type} takes {counts} of {kind.value}")


def _kinds(machine_type: str) -> dict[str, list[int]]:
    """Return the accelerator types that a machine takes, each with its counts."""
    tables = ai_platform()
    built_in = tables.built_in_gpus.get(machine_type)
    if built_in is not None:
        return {built_in[0]: [built_in[1]]}
    return {kind: list(counts) for kind, counts in tables.gpu_counts.get(machine_type, {}).items()}


def check_tpu(case: Case) -> None:
    """Check V18: one TPU worker, and no TPU elsewhere."""
    for role in Role:
        if case.machine_type(role) == CLOUD_TPU and role is not Role.WORKER:
            message = f"{CLOUD_TPU} is a type for the worker only; the code runs on a master with CPUs"
            case.problem("V18", (INPUT, role.type_field), message, "set workerType: cloud_tpu, workerCount: 1")
    if case.input.worker_type == CLOUD_TPU and case.count(Role.WORKER) > 1:
        case.problem("V18", (INPUT, "worker_count"), f"{case.count(Role.WORKER)} TPU workers; a job has exactly one")
    if case.custom and case.input.worker_type == CLOUD_TPU and case.count(Role.WORKER) == 0:
        case.problem("V18", (INPUT, "worker_count"), "must be 1 with workerType cloud_tpu", "set workerCount: 1")
