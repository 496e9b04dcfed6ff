"""Rules of encamp's options: E01, E07-E11 and E14."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.duration import Duration
from encamp.spec.ai_platform import CLOUD_TPU, ai_platform
from encamp.spec.data_files import data_file
from encamp.spec.encamp import WHEN_THERE_IS_ROOM, IdentityMode, Provisioning, StorageKind
from encamp.spec.machines_today import built_in_gpu
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT
from encamp.spec.rules.places import BUCKET
from encamp.spec.training import Strategy

if TYPE_CHECKING:
    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

_RESERVATION = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
#: Google ends a machine of flex-start or queued provisioning after 7 days.
LONGEST_FLEX = Duration.of(604_800)
_LONGEST_PREFIX = 512


def check_provisioning(case: Case) -> None:
    """Check E07: requirements and exclusions of each provisioning."""
    block = case.job.encamp
    path: DataPath = ("encamp", "provisioning")
    if block.reservation is not None:
        _reservation(case, block.reservation)
    if block.provisioning is None:
        return
    if block.provisioning is Provisioning.RESERVATION and block.reservation is None:
        case.problem("E07", ("encamp", "reservation"), "is missing: which reservation is not said", "write its name")
    unaided = {Provisioning.SPOT, Provisioning.ON_DEMAND}
    if block.provisioning not in unaided and not any(_accelerated(case, role) for role in Role):
        message = f"{block.provisioning.value} is for machines with GPUs or TPUs, and the job has none"
        case.problem("E07", path, message, "choose SPOT or ON_DEMAND, or accelerators in encamp.machines")
    scheduling = case.input.scheduling
    low_cost = scheduling is not None and scheduling.strategy is Strategy.LOW_COST
    if low_cost and block.provisioning is not Provisioning.SPOT:
        message = f"{block.provisioning.value} and scheduling.strategy LOW_COST exclude each other: LOW_COST means SPOT"
        case.problem("E07", path, message, "remove one of the two")


def _reservation(case: Case, name: str) -> None:
    path: DataPath = ("encamp", "reservation")
    if case.job.encamp.provisioning is not Provisioning.RESERVATION:
        message = "is for provisioning RESERVATION only"
        if not case.broken("encamp", "provisioning"):
            case.problem("E07", path, message, "set provisioning: RESERVATION, or remove it")
    if not _RESERVATION.fullmatch(name):
        message = f"{name[:80]!r} must be a lowercase letter, then at most 62 lowercase letters, digits and -"
        case.problem("E07", path, message, "write its name alone, without project and zone")


def _accelerated(case: Case, role: Role) -> bool:
    """Whether a role has GPUs or TPUs, or something wrong that may mean them."""
    machine = case.machine(role)
    if case.broken("encamp", "machines", role.field) or case.broken(INPUT, "scale_tier"):
        return True
    if machine is not None and (machine.gpu is not None or machine.tpu is not None):
        return True
    tier = data_file("tiers")["scaleTiers"].get(case.tier.value)
    if tier is not None:
        return any(group is not None and group["accelerator"] for name, group in tier.items() if name != "source")
    kind = (machine.machine_type if machine is not None else None) or case.machine_type(role)
    if case.count(role) == 0 or kind is None:
        return False
    legacy = data_file("tiers")["legacyMachineTypes"].get(kind, {}).get("accelerator")
    attached = case.config(role).accelerator_config is not None and ai_platform().category(kind) == "Compute Engine"
    return bool(legacy or attached or kind == CLOUD_TPU or built_in_gpu(kind))


def check_flexible_time(case: Case) -> None:
    """Check E08: flex-start and queued machines run 7 days at most."""
    scheduling = case.input.scheduling
    longest = scheduling.max_running_time if scheduling is not None else None
    if case.job.encamp.provisioning in WHEN_THERE_IS_ROOM and longest is not None and longest > LONGEST_FLEX:
        kind = case.job.encamp.provisioning.value
        message = f"{longest} is too long: {kind} gives machines for {LONGEST_FLEX} (7 days) at most"
        path = (INPUT, "scheduling", "max_running_time")
        case.problem("E08", path, message, f'write "{LONGEST_FLEX}"')


def check_budget(case: Case) -> None:
    """Check E09: a budget is more than nothing."""
    budget = case.job.encamp.budget
    if budget is None:
        return
    path = ("encamp", "budget", "usd")
    if budget.usd is None:
        case.problem("E09", path, "is missing: how much the job may cost is not said", "such as 25")
    elif budget.usd <= 0:
        case.problem("E09", path, f"{budget.usd:g} must be above 0", "such as 25")


def check_expected_time(case: Case) -> None:
    """Check E17: a duration that the longest running time allows."""
    expected = case.job.encamp.expected_time
    if expected is None:
        return
    path = ("encamp", "expected_time")
    scheduling = case.input.scheduling
    longest = scheduling.max_running_time if scheduling is not None else None
    if expected == Duration.of(0):
        case.problem("E17", path, f"{expected} must be above 0", 'such as "3600s"')
    elif longest is not None and expected > longest:
        case.problem("E17", path, f"{expected} is longer than scheduling.maxRunningTime, {longest}")


def check_retention(case: Case) -> None:
    """Check E10: at least a day."""
    retention = case.job.encamp.retention
    if retention is None:
        return
    path = ("encamp", "retention", "results_days")
    if retention.results_days is None:
        case.problem("E10", path, "is missing: for how many days is not said", "such as 30")
    elif retention.results_days < 1:
        case.problem("E10", path, f"{retention.results_days} must be 1 or more", "remove it to keep results")


def check_storage(case: Case) -> None:
    """Check E01 and E11: one job dir, in a bucket that is named where it is given."""
    storage = case.job.encamp.storage
    if storage is None:
        return
    if case.input.job_dir is not None:
        message = "there is a jobDir already; a job has one job dir"
        case.problem("E01", ("encamp", "storage"), message, "remove jobDir, or encamp.storage")
    at: DataPath = ("encamp", "storage")
    if storage.kind is None:
        case.problem("E11", (*at, "kind"), f"is missing: one of {', '.join(StorageKind)}", "such as ENVIRONMENT")
        return
    if storage.kind is not StorageKind.GIVEN_BUCKET:
        for name in ("bucket", "prefix"):
            if getattr(storage, name) is not None:
                message = f"is for kind GIVEN_BUCKET only, and kind is {storage.kind.value}"
                case.problem("E11", (*at, name), message, "set kind: GIVEN_BUCKET, or remove it")
        return
    _given_bucket(case, storage.bucket, storage.prefix, at)


def _given_bucket(case: Case, bucket: str | None, prefix: str | None, at: DataPath) -> None:
    if bucket is None:
        case.problem("E11", (*at, "bucket"), "is missing: kind GIVEN_BUCKET names its bucket", "such as my-bucket")
    elif not BUCKET.fullmatch(bucket):
        plain = bucket.removeprefix("gs://").partition("/")[0]
        message = f"{bucket[:80]!r} must be 3 to 63 lowercase letters, digits, ., _ and -, with neither gs:// nor /"
        case.problem("E11", (*at, "bucket"), message, f"write {plain}" if BUCKET.fullmatch(plain) else None)
    if prefix is None:
        return
    parts = prefix.split("/")
    if not prefix or any(part in {"", ".", ".."} for part in parts) or not prefix.isprintable():
        message = f"{prefix[:80]!r} must be folder names with / between them, none of them empty, . or .."
        case.problem("E11", (*at, "prefix"), message, _prefix_hint(parts))
    elif len(prefix.encode()) > _LONGEST_PREFIX:
        case.problem("E11", (*at, "prefix"), f"has {len(prefix.encode())} bytes; at most {_LONGEST_PREFIX}")


def _prefix_hint(parts: list[str]) -> str:
    plain = "/".join(part for part in parts if part not in {"", ".", ".."} and part.isprintable())
    return f"write {plain}" if plain else "leave it out for the bucket itself"


def check_identity(case: Case) -> None:
    """Check E14: DIRECT has no Google account."""
    identity = case.job.encamp.identity
    if identity is not None and identity.mode is IdentityMode.DIRECT and case.input.service_account is not None:
        message = "DIRECT excludes trainingInput.serviceAccount: the replicas are no Google account then"
        case.problem("E14", ("encamp", "identity", "mode"), message, "remove one of the two")
