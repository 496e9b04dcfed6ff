"""A package as a wheel: the same files give the same bytes, on any machine and on any day."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

from encamp.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Version of every packed trainer; its content, not its version, tells one from another.
VERSION = "0.0.0"
#: Largest trainer, in bytes of its files.
MAXIMUM_BYTES = 64 * 1024 * 1024
PACKAGE_PATH = "encamp.packagePath"

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644


def pack(name: str, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Return a pure wheel of one package: its file name and content.

    Args:
        name: name of the package, such as ``trainer``.
        files: path inside the package (``task.py``, ``data/words.txt``) to content.

    Raises:
        PlanError: it is no package, or too large.
    """
    if "__init__.py" not in files:
        raise PlanError(
            f"{name} has no __init__.py, so it is no Python package",
            where=PACKAGE_PATH,
            hint=f"create {name}/__init__.py; it may be empty",
        )
    size = sum(len(content) for content in files.values())
    if size > MAXIMUM_BYTES:
        message = f"{name} has {size} bytes; at most {MAXIMUM_BYTES}"
        raise PlanError(message, where=PACKAGE_PATH, hint="keep data in a bucket")
    return f"{name}-{VERSION}-py3-none-any.whl", _wheel(name, files)


def _wheel(name: str, files: Mapping[str, bytes]) -> bytes:
    info = f"{name}-{VERSION}.dist-info"
    members = {f"{name}/{path}": content for path, content in sorted(files.items())}
    members[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n".encode()
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: encamp\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/top_level.txt"] = f"{name}\n".encode()
    record = f"{info}/RECORD"
    lines = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in members.items()]
    members[record] = "".join([*lines, f"{record},,\n"]).encode()
    return stored_zip({path: (content, _MODE) for path, content in members.items()})


def stored_zip(members: Mapping[str, tuple[bytes, int]]) -> bytes:
    """Return a zip of files (path to content and mode) that depends on nothing else.

    No time, no compressor's version.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, (content, mode) in members.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = mode << 16
            entry.create_system = 3
            archive.writestr(entry, content)
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
