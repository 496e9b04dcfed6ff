"""Encryption of submitted jobs in the record, with whatever secret they hold.

Fernet of the ``cryptography`` package: AES-128-CBC with an HMAC, by one key. A team's key comes by a variable; else it
is made once, in a file of its owner beside the record.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken

from encamp.errors import EngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names a team's key: 32 bytes in URL-safe base64, as ``Fernet.generate_key`` makes them.
KEY_VARIABLE = "ENCAMP_SUBMISSIONS_KEY"
KEY_FILE = "submissions.key"


class DecryptionError(UsageError):
    """Encrypted data cannot be decrypted."""


class Cipher:
    """Encryption and decryption by one key.

    Args:
        key: 32 bytes in URL-safe base64.

    Raises:
        ValueError: it is no such key.
    """

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)
        self._digest_key = hashlib.sha256(b"encamp submissions digest\n" + key.strip()).digest()

    @classmethod
    def open(cls, folder: Path) -> Cipher:
        """Return a cipher with the key in ``KEY_VARIABLE``, else of the key in a folder, which is created if missing.

        Raises:
            UsageError: the key is malformed.
            EngineError: the key's file cannot be read or made.
        """
        given = os.environ.get(KEY_VARIABLE)
        path = folder / KEY_FILE
        try:
            return cls(given.encode() if given else _kept(path))
        except ValueError as error:
            # The error does not say what is wrong with the key: that would tell of the key.
            raise UsageError(
                "this is no key for submissions",
                where=KEY_VARIABLE if given else str(path),
                hint="take 32 random bytes in URL-safe base64: `openssl rand -base64 32 | tr '+/' '-_'`; "
                "jobs that wait can only be begun by the key that encrypted them",
            ) from error
        except OSError as error:
            raise EngineError(f"the key of submissions cannot be read: {error.strerror}", where=str(path)) from error

    def encrypt(self, data: Mapping[str, Any]) -> str:
        """Encrypt JSON data and return it as ASCII text."""
        return self._fernet.encrypt(json.dumps(data, sort_keys=True).encode()).decode()

    def decrypt(self, encrypted: str, where: str) -> dict[str, Any]:
        """Return decrypted data; ``where`` is its name in messages.

        Raises:
            DecryptionError: it was encrypted by another key, or has been changed since.
        """
        try:
            found = json.loads(self._fernet.decrypt(encrypted.encode()))
        except (InvalidToken, ValueError) as error:
            raise DecryptionError(
                "the job as it was sent cannot be decrypted: it was encrypted by another key, or is damaged",
                where=where,
                hint="submit it again under another id",
            ) from error
        if not isinstance(found, dict):
            raise DecryptionError("the decrypted data is no job", where=where, hint="submit it again under another id")
        return found

    def digest(self, data: Mapping[str, Any]) -> str:
        """Return 64 hex digits, equal for equal JSON data; without the key nobody can guess the data from them."""
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hmac.new(self._digest_key, text.encode(), hashlib.sha256).hexdigest()


def _kept(path: Path) -> bytes:
    """Return the key in a file, which the first process creates whole or not at all."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes().strip()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            # A link, unlike a rename, does not take the place of a key that another process has just made.
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    return path.read_bytes().strip()
