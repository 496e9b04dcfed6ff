"""The pods' view of this machine's files beside programs and libraries, and the files that are hidden from them.

A pod has no image here, so parts of this machine stand for it; on GKE it sees nothing but its image and its volumes.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import site
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.resources import PACKAGE
from encamp_sandbox.tools.catalog import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp_sandbox.layout import Layout

_OWN = Path(__file__).resolve().parents[1]
_SETTINGS = Path("/etc")


@dataclass(frozen=True)
class HostView:
    """Absolute paths of this machine.

    Attributes:
        shown: folders and files that pods see, also where they lie in a hidden folder.
        hidden: folders and files that pods do not see, wherever they lie.
    """

    shown: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def host_view(layout: Layout | None, variables: Mapping[str, str]) -> HostView:
    """Return the pods' view: the interpreter and what it imports, encamp's tools, and pip's folders of packages.

    Args:
        layout: the sandbox, which no pod sees; None if there is none.
        variables: of the owner's environment.
    """
    hidden = {str(home) for home in _homes(variables)} | {str(path) for path in _secret_settings()}
    if layout is not None:
        hidden.add(str(layout.root))
    shown = {str(path) for path in _needed(variables) if path.exists() and not _holds(path, hidden)}
    return HostView(tuple(sorted(shown)), tuple(sorted(hidden)))


def _homes(variables: Mapping[str, str]) -> Iterator[Path]:
    found = [variables.get("HOME") or ""]
    with contextlib.suppress(KeyError):
        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    for text in found:
        if text.strip("/"):
            yield Path(text)
            yield Path(text).resolve()


def _needed(variables: Mapping[str, str]) -> Iterator[Path]:
    folders = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getusersitepackages()))
    folders += [PACKAGE, _OWN, cache_folder()]
    folders += [Path(word) for word in variables.get("PIP_FIND_LINKS", "").split() if word.startswith("/")]
    for folder in folders:
        yield folder
        yield folder.resolve()


def _holds(path: Path, hidden: set[str]) -> bool:
    """Whether a folder is one that is hidden, or has one in it: such a folder is not shown."""
    return any(Path(one).is_relative_to(path) for one in hidden)


def _secret_settings() -> Iterator[Path]:
    """Yield the files of /etc that only their owner reads; root's own pods would read them too."""
    if os.getuid() != 0:
        return
    for folder, folders, files in os.walk(_SETTINGS):
        for name in [*folders, *files]:
            path = Path(folder) / name
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                continue
            if not found.st_mode & (stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IROTH):
                yield path
        folders[:] = [name for name in folders if (Path(folder) / name).lstat().st_mode & stat.S_IXOTH]
