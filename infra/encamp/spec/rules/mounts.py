"""Rules of mounts, zones and placement: E20-E22."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.encamp import Placement, Provisioning
from encamp.spec.rules.case import INPUT
from encamp.spec.rules.places import BUCKET

if TYPE_CHECKING:
    from encamp.spec.encamp import MountSpec
    from encamp.spec.loading import DataPath
    from encamp.spec.rules.case import Case

_ZONE = re.compile(r"([a-z]+-[a-z]+[0-9]+)-[a-z][a-z0-9]*")
_OPTION = re.compile(r"[a-z][a-z0-9-]*(:[a-z0-9-]+)*([:=][A-Za-z0-9._/%-]+)?")
#: Options that encamp sets itself, and options that would undo them.
_OWN_OPTIONS = frozenset({"only-dir", "implicit-dirs", "ro", "rw", "o", "key-file", "token-url", "config-file"})
_LONGEST_PREFIX = 512


def check_mounts(case: Case) -> None:
    """Check E20: each mount is one bucket or the job dir, and lies inside no other."""
    places: dict[str, int] = {}
    for index, mount in enumerate(case.job.encamp.mounts or ()):
        path: DataPath = ("encamp", "mounts", index)
        if mount.job_dir:
            _job_dir(case, mount, path)
            place = "the job dir"
        else:
            place = _bucket(case, mount, path)
        _options(case, mount, path)
        if place in places:
            message = f"{place} is mounted already, by mounts[{places[place]}]"
            case.problem("E20", path, message, "remove one of the two, or mount the folder above both")
        places.setdefault(place or f"nothing {index}", index)


def _job_dir(case: Case, mount: MountSpec, path: DataPath) -> None:
    for name in ("bucket", "prefix", "write"):
        if getattr(mount, name):
            message = "excludes jobDir: the job dir is mounted where it is, for reading and writing"
            case.problem("E20", (*path, name), message, "remove one of the two")
    if case.input.job_dir is None and case.job.encamp.storage is None and not case.broken("encamp", "storage"):
        message = "needs a job dir, and the job has none"
        case.problem("E20", (*path, "job_dir"), message, "give jobDir, or encamp.storage with a kind")


def _bucket(case: Case, mount: MountSpec, path: DataPath) -> str | None:
    """Return the bucket, where it can be one."""
    if case.broken(*path, "bucket"):
        return None
    if mount.bucket is None:
        message = "is missing: what is mounted is not said"
        case.problem("E20", (*path, "bucket"), message, "write the bucket's name, or jobDir: true")
        return None
    if not BUCKET.fullmatch(mount.bucket):
        plain = mount.bucket.removeprefix("gs://").partition("/")[0]
        message = f"{mount.bucket[:80]!r} must be 3 to 63 lowercase letters, digits, ., _ and -, without gs:// and /"
        hint = f"write {plain}, and what follows it as prefix" if BUCKET.fullmatch(plain) else None
        case.problem("E20", (*path, "bucket"), message, hint)
        return None
    parts = (mount.prefix or "folder").split("/")
    if mount.prefix == "" or any(part in {"", ".", ".."} for part in parts) or not "".join(parts).isprintable():
        message = f"{str(mount.prefix)[:80]!r} must be folder names with / between them, none of them empty, . or .."
        case.problem("E20", (*path, "prefix"), message, "leave it out for the whole bucket")
    elif any(character in "".join(parts) for character in ",:") or len("/".join(parts).encode()) > _LONGEST_PREFIX:
        message = f"{str(mount.prefix)[:80]!r} must have at most {_LONGEST_PREFIX} bytes, and neither , nor :"
        case.problem("E20", (*path, "prefix"), message, "mount the folder above it")
    return mount.bucket


def _options(case: Case, mount: MountSpec, path: DataPath) -> None:
    for index, option in enumerate(mount.options or ()):
        where = (*path, "options", index)
        if not _OPTION.fullmatch(option):
            message = f"{option[:80]!r} must be one option: words with - and :, then : or = and a value"
            case.problem("E20", where, message, "such as metadata-cache:ttl-secs:600")
        elif re.split("[:=]", option)[0] in _OWN_OPTIONS:
            message = f"{option[:80]} is encamp's own to set"
            case.problem("E20", where, message, "use bucket, prefix and write")


def check_zone(case: Case) -> None:
    """Check E21: a zone, of the region that the job asks for."""
    zone, region = case.job.encamp.zone, case.input.region
    if zone is None:
        return
    found = _ZONE.fullmatch(zone)
    if found is None:
        message = f"{zone[:60]!r} must be a zone: a region, - and a letter"
        case.problem("E21", ("encamp", "zone"), message, f"such as {region or 'us-central1'}-a")
    elif region is not None and not case.broken(INPUT, "region") and found[1] != region:
        message = f"{zone} is no zone of {region}, where the job runs"
        case.problem("E21", ("encamp", "zone"), message, f"write a zone of {region}, or set region: {found[1]}")


def check_placement(case: Case) -> None:
    """Check E22: machines that are queued for come where there is room."""
    block = case.job.encamp
    if block.placement is Placement.COMPACT and block.provisioning is Provisioning.QUEUED:
        message = "COMPACT and provisioning QUEUED exclude each other: GKE queues for no compact placement of GPUs"
        case.problem("E22", ("encamp", "placement"), message, "remove placement, or use RESERVATION or ON_DEMAND")
