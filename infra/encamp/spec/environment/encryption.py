"""The ``encryption`` block of an environment: a customer-managed key (CMEK)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from encamp.spec.environment.problems import Found
from encamp.spec.fields import Flag, Int64, Text, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.environment.model import EnvironmentSpec

_KEY = re.compile(
    r"projects/([a-z0-9.:-]+)/locations/([a-z0-9-]+)/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}"
)
_RING = re.compile(r"[A-Za-z0-9_-]{1,63}")
#: Cloud KMS takes a day and more (cloud.google.com/kms/docs/key-rotation).
MOST_ROTATION_DAYS = 3650


class EncryptionSpec(Written):
    """A Cloud KMS key (CMEK) for buckets, registry, node disks and the secrets of the cluster."""

    key: Text | None = None
    """A key that exists, ``projects/P/locations/REGION/keyRings/R/cryptoKeys/K``; one is made when absent."""
    key_ring: Text | None = None
    """Name of the key ring that is made with the key; the environment's name when absent. Google never deletes key
    rings and keys, so a name is used once."""
    rotation_days: Int64 = 90
    """A new version of the key that is made comes after so many days."""
    grant: Flag = True
    """Google's service agents are given the use of the key here. Off where the key's own project does it."""


def encryption_problems(encryption: EncryptionSpec, environment: EnvironmentSpec) -> Iterator[Found]:
    """Yield every problem of the block."""
    if encryption.key is not None:
        found = _KEY.fullmatch(encryption.key)
        if found is None:
            hint = "such as projects/my-project/locations/us-central1/keyRings/encamp/cryptoKeys/encamp"
            yield Found(("key",), f"{encryption.key!r} is no full name of a key", hint)
        elif found[2] != environment.region:
            message = f"is a key of {found[2]}; disks and the cluster of {environment.region} need one from there"
            yield Found(("key",), message)
        for name in sorted({"key_ring", "rotation_days"} & encryption.model_fields_set):
            yield Found((name,), "is of a key that is made, and this one exists", "leave it out")
    if encryption.key_ring is not None and not _RING.fullmatch(encryption.key_ring):
        yield Found(("key_ring",), f"{encryption.key_ring!r} must be 1 to 63 letters, digits, _ and -")
    if not 1 <= encryption.rotation_days <= MOST_ROTATION_DAYS:
        yield Found(("rotation_days",), f"{encryption.rotation_days} must be from 1 to {MOST_ROTATION_DAYS}")
    if encryption.key is None and not encryption.grant:
        yield Found(("grant",), "a key that is made would be of no use to anybody", "leave it out")
