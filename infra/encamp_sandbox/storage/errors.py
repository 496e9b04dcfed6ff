"""Refusals of the storage API, in the shape that Google's JSON API gives them.

Source: cloud.google.com/storage/docs/json_api/v1/status-codes.

Belief: storage-missing-is-404.
"""

from __future__ import annotations

import errno
import sqlite3
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class StorageError(Exception):
    """A request that the storage API refuses.

    Args:
        code: HTTP status.
        reason: Google's reason word, such as ``notFound``.
        message: what the caller reads.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the answer."""
        problem = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.code, "message": self.message, "errors": [problem]}}


def bucket_missing() -> StorageError:
    """Return the error for a missing bucket."""
    return StorageError(404, "notFound", "The specified bucket does not exist.")


def object_missing(bucket: str, name: str) -> StorageError:
    """Return the error for a missing object, or a missing generation of it."""
    return StorageError(404, "notFound", f"No such object: {bucket}/{name}")


def precondition_failed() -> StorageError:
    """Return the error for a generation or metageneration that the caller does not expect."""
    return StorageError(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")


def disk_trouble(error: OSError | sqlite3.Error, root: Path) -> StorageError | None:
    """Return a write that this machine's disk refused, None for another error.

    Google's storage never says so: it is ours.
    """
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
    full = full or getattr(error, "sqlite_errorcode", None) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
    if not full:
        return None
    said = error.strerror if isinstance(error, OSError) else str(error)
    message = f"The sandbox's storage cannot write to {root}: {said}. Make room there, then try again."
    return StorageError(507, "insufficientStorage", message)


def invalid(message: str) -> StorageError:
    """Return the error for an invalid request."""
    return StorageError(400, "invalid", message)
