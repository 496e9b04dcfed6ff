"""MD5 and CRC32C of a content while it is written, in the base64 form that the storage API shows."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import google_crc32c

from encamp_sandbox.storage.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

_CHUNK = 1 << 20


class Digests:
    """Running checksums of a byte stream."""

    def __init__(self) -> None:
        self.size = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc = google_crc32c.Checksum()

    def update(self, data: bytes) -> None:
        """Take the next bytes."""
        self.size += len(data)
        self._md5.update(data)
        self._crc.update(data)

    @property
    def md5(self) -> str:
        """MD5, base64."""
        return base64.b64encode(self._md5.digest()).decode()

    @property
    def crc32c(self) -> str:
        """CRC32C (Castagnoli), big-endian, base64."""
        return base64.b64encode(self._crc.digest()).decode()


def digests_of(path: Path) -> Digests:
    """Return the checksums of a file that is already there."""
    digests = Digests()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digests.update(chunk)
    return digests


def check_digests(body: Mapping[str, Any], digests: Digests) -> None:
    """Refuse bytes that are not those whose checksums the caller promised (belief storage-digest-is-checked)."""
    for key, actual in (("md5Hash", digests.md5), ("crc32c", digests.crc32c)):
        if body.get(key) not in (None, actual):
            raise invalid(f"Provided {key} '{body[key]}' doesn't match calculated {key} '{actual}'.")
