"""The Python of replicas: which one, and the packages that it would find, without starting it.

Starting an interpreter to ask it costs as much as a small job takes; importing TensorFlow to ask its version, seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VERSIONED = re.compile(r"python(\d+\.\d+)")
_TENSORFLOW = re.compile(r"(?:tensorflow|tensorflow_(?:cpu|gpu|macos|intel|rocm))-(\d+)\..*\.(?:dist|egg)-info")


@dataclass(frozen=True)
class Interpreter:
    """A Python.

    Attributes:
        program: the file that is run.
        search: folders that hold its modules besides the working directory, as far as they are there; None if they
            cannot be told from files.
    """

    program: Path
    search: tuple[Path, ...] | None

    @property
    def primary_name(self) -> str:
        """TF_CONFIG's name of the primary: ``master`` with TensorFlow 1, ``chief`` with any other and with none."""
        for folder in self.search or ():
            for name in _names(folder):
                if found := _TENSORFLOW.fullmatch(name):
                    return "master" if found[1] == "1" else "chief"
        return "chief"


def interpreter(given: str | None, environ: Mapping[str, str], working: Path) -> Interpreter:
    """Return the Python of ``--python``, else ``python`` or ``python3`` of PATH, else the one that runs this.

    Raises:
        UsageError: the given one is not there or cannot be executed.
    """
    path = environ.get("PATH", os.defpath)
    if given is not None:
        found = shutil.which(os.path.expanduser(given), path=path)  # noqa: PTH111 - a name of PATH is no path
        if found is None:
            raise UsageError(
                f"there is no program {given!r}", where="--python", hint="name a Python, such as .venv/bin/python"
            )
    else:
        found = shutil.which("python", path=path) or shutil.which("python3", path=path) or sys.executable
    program = Path(os.path.abspath(working / found))  # noqa: PTH100 - a virtual environment is a link
    program = _behind_shim(program, environ, working) or program
    return Interpreter(program, _search(program, environ, working))


def _behind_shim(program: Path, environ: Mapping[str, str], working: Path) -> Path | None:
    """Return the program that a shim of pyenv would start; the shim itself takes longer to find it."""
    root = Path(environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    if program.parent != root / "shims":
        return None
    chosen = environ.get("PYENV_VERSION") or _first_line(
        [*(folder / ".python-version" for folder in (working, *working.parents)), root / "version"]
    )
    for version in (chosen or "").replace(":", " ").split():
        found = root / "versions" / version / "bin" / program.name
        if os.access(found, os.X_OK):
            return found
    return None


def _first_line(files: list[Path]) -> str | None:
    for file in files:
        try:
            words = file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            continue
        if words:
            return " ".join(words)
    return None


def _search(program: Path, environ: Mapping[str, str], working: Path) -> tuple[Path, ...] | None:
    """Return the folders of sys.path in its order, without archives; None if the program is no known Python."""
    installed = _installed(program, environ)
    if installed is None:
        return None
    given = [working / part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return tuple(folder for folder in (*given, *installed) if folder.is_dir())


def _installed(program: Path, environ: Mapping[str, str]) -> list[Path] | None:
    settings = _virtual(program.parent.parent / "pyvenv.cfg")
    if settings is not None:
        own = program.parent.parent
        home = Path(settings.get("home", ""))
        base = next((found for name in ("python3", "python") if (found := home / name).exists()), None)
        outer = _of_base(base.resolve(), environ) if base is not None else None
        if outer is None:
            return None
        version, library, shared = outer
        packages = [own / "lib" / version / "site-packages"]
        return [*library, *packages, *(shared if settings.get("include-system-site-packages") == "true" else ())]
    found = _of_base(program.resolve(), environ)
    return None if found is None else [*found[1], *found[2]]


def _of_base(program: Path, environ: Mapping[str, str]) -> tuple[str, list[Path], list[Path]] | None:
    """Return ``pythonX.Y``, library and package folders of a Python that is no virtual environment."""
    named = _VERSIONED.match(program.name)
    prefix = program.parent.parent
    known = [f"python{named[1]}"] if named else sorted(path.name for path in prefix.glob("lib/python[23].[0-9]*"))
    if len(known) != 1 or not (prefix / "lib" / known[0] / "os.py").is_file():
        return None
    version = known[0]
    library = prefix / "lib" / version
    user = Path(environ.get("PYTHONUSERBASE") or Path.home() / ".local")
    return (
        version,
        [library, library / "lib-dynload"],
        [
            user / "lib" / version / "site-packages",
            # Debian's Python has two folders of its own names, and no site-packages.
            *([Path("/usr/local/lib") / version / "dist-packages"] if prefix == Path("/usr") else []),
            *([Path("/usr/lib/python3/dist-packages")] if prefix == Path("/usr") else []),
            library / "site-packages",
        ],
    )


def _virtual(file: Path) -> dict[str, str] | None:
    """Return the settings of a virtual environment, None for any other folder."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from sorted(entry.name for entry in entries if entry.name.endswith("-info"))
    except OSError:
        return
