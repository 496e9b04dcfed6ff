"""Rules of names of things in the cloud: V15, V16, V19, V20, V22."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.ai_platform import ai_platform
from encamp.spec.machines_today import regions
from encamp.spec.paths import nearest
from encamp.spec.roles import Role
from encamp.spec.rules.case import INPUT

if TYPE_CHECKING:
    from encamp.spec.rules.case import Case

_NETWORK = re.compile(r"projects/[0-9]+/global/networks/[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_KEY = re.compile(r"projects/[^/\s]+/locations/(?P<location>[^/\s]+)/keyRings/[^/\s]+/cryptoKeys/[^/\s]+")
#: A bucket's name.
BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_LONGEST_OBJECT = 1024


def check_network(case: Case) -> None:
    """Check V15: ``projects/NUMBER/global/networks/NAME``."""
    network = case.input.network
    path = (INPUT, "network")
    if network is None:
        return
    if not _NETWORK.fullmatch(network):
        by_id = re.fullmatch(r"projects/[a-z][a-z0-9-]*/global/networks/.*", network)
        hint = "name the project by its number, not its id" if by_id else "projects/123456789012/global/networks/NAME"
        case.problem("V15", path, f"{network[:120]!r} must be projects/PROJECT_NUMBER/global/networks/NAME", hint)
    elif network != network.lower():
        case.warn("V15", path, "Compute Engine's network names have lowercase letters only")


def check_key(case: Case) -> None:
    """Check V16: four parts, and the region of the job."""
    encryption = case.input.encryption_config
    name = encryption.kms_key_name if encryption else None
    path = (INPUT, "encryption_config", "kms_key_name")
    if name is None:
        if encryption is not None:
            case.problem("V16", path, "is missing", "remove encryptionConfig to use Google's keys")
        return
    match = _KEY.fullmatch(name)
    if match is None:
        form = "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY"
        case.problem("V16", path, f"{name[:160]!r} must be {form}")
    elif case.input.region is not None and match["location"] != case.input.region:
        case.problem(
            "V16",
            path,
            f"the key lies in {match['location']}, the job runs in {case.input.region}; they must be one region",
        )


def gcs_path_problem(path: str) -> str | None:
    """Return the problem of a ``gs://bucket[/object]`` path (V19), or None."""
    if not path.startswith("gs://"):
        return "must begin with gs://"
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not BUCKET.fullmatch(bucket):
        return (
            f"the bucket {bucket[:80]!r} must be 3 to 63 lowercase letters, digits, ., _ and -, "
            "with a letter or digit at each end"
        )
    if len(name.encode()) > _LONGEST_OBJECT:
        return f"the object name has {len(name.encode())} bytes; at most {_LONGEST_OBJECT}"
    if any(character in name for character in "\r\n"):
        return "an object name holds no line break"
    return None


def check_job_dir(case: Case) -> None:
    """Check V19: ``gs://bucket[/object]``."""
    job_dir = case.input.job_dir
    wrong = gcs_path_problem(job_dir) if job_dir is not None else None
    if job_dir is not None and wrong is not None:
        case.problem("V19", (INPUT, "job_dir"), f"{job_dir[:120]!r}: {wrong}", "such as gs://my-bucket/jobs/digits")


def check_service_account(case: Case) -> None:
    """Check V20: an e-mail, or a numeric id."""
    account = case.input.service_account
    if account is not None and not (_EMAIL.fullmatch(account) or (account.isascii() and account.isdigit())):
        case.problem(
            "V20",
            (INPUT, "service_account"),
            f"{account[:120]!r} must be an e-mail such as NAME@PROJECT.iam.gserviceaccount.com, or a numeric id",
        )


def check_region(case: Case) -> None:
    """Check V22: a region that AI Platform Training had, or one of today's machines; and the accelerators in it."""
    region = case.input.region
    path = (INPUT, "region")
    known = set(ai_platform().regions)
    if case.job.encamp.machines is not None or case.broken("encamp"):
        known |= regions()
    if region is None:
        case.problem("V22", path, "is missing: a job runs in a region", "such as us-central1")
        return
    if region not in known:
        close = nearest(region, known)
        zone = region.rpartition("-")[0]
        hint = f"{region} is a zone; its region is {zone}" if zone in known else f"write {close}" if close else None
        case.problem("V22", path, f"{region[:60]!r} is not one of {', '.join(sorted(known))}", hint)
        return
    for role in Role:
        accelerator = case.config(role).accelerator_config
        if accelerator is None or accelerator.type is None:
            continue
        places = ai_platform().accelerator_regions.get(accelerator.type.value)
        if places is not None and region not in places:
            where = (INPUT, role.config_field, "accelerator_config", "type")
            case.warn(
                "V22",
                where,
                f"{accelerator.type.value} was not known to be in {region}, but in {', '.join(sorted(places))}",
            )
