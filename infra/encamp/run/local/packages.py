"""Packages of a job besides its trainer's own folder, as far as this machine lacks them.

Archives are unpacked, or installed by pip without what they require, into a folder of the run's own on PYTHONPATH.
Nothing is installed into anybody's Python: what it lacks is named, with the command that installs it.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from typing import TYPE_CHECKING

from encamp.errors import EncampError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.local.interpreter import Interpreter

_INFO = re.compile(r"([A-Za-z0-9._]+)-([^-]+)(?:-[^-]+)*\.(?:dist|egg)-info")
_LAST_LINES = 12


def lacking(requirements: Sequence[str], python: Interpreter) -> list[str]:
    """Return the requirements that a Python does not meet; none if its folders are not known."""
    if python.search is None or not requirements:
        return []
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - most jobs require nothing

    have: dict[str, str] = {}
    for folder in python.search:
        for entry in folder.iterdir():
            if found := _INFO.fullmatch(entry.name):
                have.setdefault(canonicalize_name(found[1]), found[2])
    return [text for text in requirements if not _fulfilled(text, have)]


def _fulfilled(text: str, have: dict[str, str]) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415
    from packaging.utils import canonicalize_name  # noqa: PLC0415

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return False
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
        return True
    version = have.get(canonicalize_name(wanted.name))
    return version is not None and wanted.specifier.contains(version, prereleases=True)


def check_requirements(requirements: Sequence[str], python: Interpreter) -> None:
    """Refuse to run with a Python that lacks what the job requires.

    Raises:
        UsageError: naming all of it and the command that installs it.
    """
    missing = lacking(requirements, python)
    if missing:
        quoted = " ".join(f"'{text}'" for text in missing)
        raise UsageError(
            f"{python.program} lacks {', '.join(missing)}",
            where="encamp.requirements",
            hint=f"{python.program} -m pip install {quoted}; or choose another Python by --python",
        )


def fetch(uris: Sequence[str], folder: Path) -> list[Path]:
    """Return packages of Cloud Storage as files of this machine.

    Raises:
        UsageError: one of them is not there or cannot be read from here.
    """
    if not uris:
        return []
    from encamp.cloud.rest import GoogleClient  # noqa: PLC0415 - most jobs here need no cloud
    from encamp.cloud.storage import Storage  # noqa: PLC0415

    try:
        storage = Storage(GoogleClient())
        return [_fetched(storage, uri, folder / str(index)) for index, uri in enumerate(uris)]
    except EncampError as error:
        raise UsageError(
            f"packages of Cloud Storage cannot be read from here: {error}",
            where="trainingInput.packageUris",
            hint="give copies on this machine by encamp.packages, or the sources by encamp.packagePath",
        ) from error


def _fetched(storage: Storage, uri: str, folder: Path) -> Path:
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    folder.mkdir(parents=True)
    path = folder / name.rpartition("/")[2]
    with path.open("wb") as file:
        file.writelines(storage.download(bucket, name))
    return path


def install(archives: Sequence[Path], target: Path, python: Interpreter) -> None:
    """Unpack pure wheels into a folder, and have pip install the rest there, in the order given.

    Raises:
        UsageError: pip could not.
    """
    for archive in archives:
        if archive.name.endswith("-none-any.whl") and _unpacked(archive, target):
            continue
        command = [str(python.program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        ran = subprocess.run(
            [*command, "--no-deps", "--upgrade", "--target", str(target), str(archive)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if ran.returncode != 0:
            lines = "\n".join(f"  | {line}" for line in ran.stdout.splitlines()[-_LAST_LINES:])
            raise UsageError(f"pip could not install {archive.name}:\n{lines}", where="encamp.packages")


def _unpacked(archive: Path, target: Path) -> bool:
    """Unpack a wheel that needs no further installation; False for others."""
    try:
        with zipfile.ZipFile(archive) as wheel:
            if any(".data/" in name.partition("/")[0] + "/" for name in wheel.namelist()):
                return False
            wheel.extractall(target)
    except (zipfile.BadZipFile, OSError) as error:
        raise UsageError(f"{archive.name} cannot be unpacked: {error}", where="encamp.packages") from error
    return True
