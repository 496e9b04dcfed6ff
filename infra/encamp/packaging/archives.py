"""What an archive of a Python package holds, and whether pip could read it at all."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from stat import S_IFREG
from typing import TYPE_CHECKING

from encamp.errors import PlanError
from encamp.packaging.wheel import stored_zip

if TYPE_CHECKING:
    from pathlib import Path

_BROKEN = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
_WHEEL_PARTS = (5, 6)


def check_archive(path: Path, where: str) -> None:
    """Refuse a file that pip could not install.

    Raises:
        PlanError: it is no archive of the kind that its name says, or holds no Python package.
    """
    try:
        names = members(path)
    except _BROKEN as error:
        raise PlanError(
            f"{path.name} cannot be read as an archive: {error}", where=where, hint="build or download it again"
        ) from error
    if path.name.endswith(".whl"):
        if len(path.name.removesuffix(".whl").split("-")) not in _WHEEL_PARTS:
            raise PlanError(
                f"{path.name} is no name of a wheel; pip refuses it",
                where=where,
                hint="give it back its own name, such as trainer-1.0-py3-none-any.whl",
            )
        right = any(name.endswith(".dist-info/WHEEL") for name in names)
    else:
        right = any(name.rpartition("/")[2] in {"setup.py", "pyproject.toml"} for name in names)
    if not right:
        kind = "wheel" if path.name.endswith(".whl") else "source archive with setup.py or pyproject.toml"
        raise PlanError(f"{path.name} is no {kind}", where=where, hint="build it by `python -m build`")


def members(path: Path) -> list[str]:
    """Names of the files in an archive, read to its end so that a cut one is found out."""
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path, "r:gz") as archive:
            names = [member.name for member in archive if member.isfile()]
        _read_out(path)
        return names
    with zipfile.ZipFile(path) as archive:
        return [name for name in archive.namelist() if not name.endswith("/")]


def _read_out(path: Path) -> None:
    """Read a gzip file to its end: its checksum stands there."""
    with gzip.open(path) as stream:
        while stream.read(1 << 20):
            pass


def top_level(names: list[str], *, sdist: bool) -> list[str]:
    """The packages and modules that an archive would install, as far as its names tell."""
    parts = [name.split("/")[1:] if sdist else name.split("/") for name in names]
    parts = [part[1:] if sdist and part[:1] == ["src"] else part for part in parts]
    packages = {part[0] for part in parts if len(part) > 1 and part[1] == "__init__.py"}
    modules = {part[0].removesuffix(".py") for part in parts if len(part) == 1 and part[0].endswith(".py")}
    return sorted(packages | (modules - {"setup"} if sdist else modules))


def normal_wheel(content: bytes) -> bytes:
    """The same wheel, without what depends on the day and the machine of its making."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        found = {
            # pip looks for the bits of a regular file before it makes a script executable.
            entry.filename: (archive.read(entry), S_IFREG | (0o755 if entry.external_attr >> 16 & 0o100 else 0o644))
            for entry in archive.infolist()
            if not entry.is_dir()
        }
    order = sorted(found, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name))
    return stored_zip({name: found[name] for name in order})


def normal_sdist(content: bytes) -> bytes:
    """The same source archive, without times, owners and the order of a folder."""
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive,
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            data = archive.extractfile(member) if member.isfile() else None
            plain = tarfile.TarInfo(member.name)
            plain.type, plain.linkname, plain.size = member.type, member.linkname, member.size
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            made.addfile(plain, data)
    return buffer.getvalue()
