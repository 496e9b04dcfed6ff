"""Archives of Python packages: their content, and whether pip could read them."""

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
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Self

#: Bounds of an archive, far above what packages have: TensorFlow's own wheel has 25,000 files and 2 GB in it.
MOST_MEMBERS, LARGEST_BYTES, LONGEST_NAME = 100_000, 8 << 30, 1024
#: Largest ratio of content to archive; gzip reaches 1032, and people's text stays below 100.
LARGEST_RATIO = 200
#: An archive whose content is smaller is let be, whatever the ratio.
SMALL_BYTES = 64 << 20
LARGEST_HEADER = 64 << 10
_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_CHUNK = 1 << 20
_TOO_MANY = f"it holds more than {MOST_MEMBERS} files"
_BROKEN = (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
_WHEEL_PARTS = (5, 6)


class TooLargeError(Exception):
    """An archive is larger inside than a package may be."""


class _BoundedInfo(tarfile.TarInfo):
    """A member whose extended header is small: tarfile reads a long name or a comment into memory as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header's 512 bytes; what it announces is read after that."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED and found.size > LARGEST_HEADER:
            raise TooLargeError(f"an extended header in it has {found.size} bytes")
        return found


def check_archive(path: Path, where: str) -> None:
    """Refuse a file that pip could not install.

    Raises:
        PlanError: it is no archive of the kind that its name says, or holds no Python package.
    """
    try:
        names = members(path)
    except TooLargeError as error:
        raise PlanError(
            f"{path.name} is larger inside than a package may be: {error}", where=where, hint="keep data in a bucket"
        ) from error
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
    """Return the names of the files in an archive, read to its end so that a cut one is found out.

    Raises:
        TooLargeError: it is larger inside than a package may be; nothing of it is kept in memory or on disk.
    """
    if path.name.endswith(".tar.gz"):
        _read_out(path)
        with tarfile.open(path, "r:gz", tarinfo=_BoundedInfo) as archive:
            found = {member.name: member.isfile() for member in _limited(archive)}
            return [name for name in _bounded(found) if found[name]]
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        _check_size(sum(entry.file_size for entry in entries), path.stat().st_size)
        return [name for name in _bounded(entry.filename for entry in entries) if not name.endswith("/")]


def _limited(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for count, member in enumerate(archive, start=1):
        if count > MOST_MEMBERS:
            raise TooLargeError(_TOO_MANY)
        yield member


def _bounded(names: Iterable[str]) -> Iterator[str]:
    for count, name in enumerate(names, start=1):
        if count > MOST_MEMBERS:
            raise TooLargeError(_TOO_MANY)
        if len(name) > LONGEST_NAME:
            raise TooLargeError(f"a name in it has {len(name)} characters, more than {LONGEST_NAME}: {name[:60]}…")
        yield name


def _check_size(content: int, archive: int) -> None:
    if content > LARGEST_BYTES:
        raise TooLargeError(f"it holds more than {LARGEST_BYTES} bytes")
    if content > SMALL_BYTES and content > LARGEST_RATIO * archive:
        raise TooLargeError(f"its content is more than {LARGEST_RATIO} times as large as itself")


def _read_out(path: Path) -> None:
    """Read a gzip file to its end, where its checksum stands, or to the bound."""
    archive, content = path.stat().st_size, 0
    with gzip.open(path) as stream:
        while chunk := stream.read(_CHUNK):
            content += len(chunk)
            _check_size(content, archive)


def top_level(names: list[str], *, sdist: bool) -> list[str]:
    """Return the packages and modules that an archive would install, as far as its names tell."""
    parts = [name.split("/")[1:] if sdist else name.split("/") for name in names]
    parts = [part[1:] if sdist and part[:1] == ["src"] else part for part in parts]
    packages = {part[0] for part in parts if len(part) > 1 and part[1] == "__init__.py"}
    modules = {part[0].removesuffix(".py") for part in parts if len(part) == 1 and part[0].endswith(".py")}
    return sorted(packages | (modules - {"setup"} if sdist else modules))


def normal_wheel(content: bytes) -> bytes:
    """Return the same wheel, without what depends on the day and the machine of its making."""
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
    """Return the same source archive, without times, owners and the order of a folder."""
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
