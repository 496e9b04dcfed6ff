"""A view of the sandbox's own Python: an environment whose site-packages holds links to some of its distributions.

A folder that belongs to shown distributions alone is one link; one that they share with others, such as ``google``, is
a folder of its own. Nothing is copied, so a view is made in milliseconds and takes no room.
"""

from __future__ import annotations

import hashlib
import json
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from encamp_sandbox.pythons.cache import made_once, pythons_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from encamp_sandbox.pythons.installed import InstalledDistribution

#: Raised when views get another form.
_FORMAT = 1
#: Each set of requirements on an image has a view of its own.
_KEPT = 64
#: As console scripts of a Python whose path may be longer than a shebang line.
_SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import importlib
import sys

target = importlib.import_module({module!r})
for name in {names!r}:
    target = getattr(target, name)
sys.exit(target())
"""


def view_of(shown: Collection[str], have: Mapping[str, InstalledDistribution]) -> Path:
    """Return an environment with certain distributions and no others; its programs lie in ``bin``.

    Args:
        shown: names of distributions of ``have``.
        have: all that is installed.

    Raises:
        SandboxError: the cache cannot be written to.
    """
    parts = [f"{name} {have[name].version} {have[name].folder}" for name in sorted(shown)]
    # What is hidden decides which folders are shared, so all of it counts.
    others = sorted(f"{name} {one.version}" for name, one in have.items())
    content = json.dumps([_FORMAT, sys.version, str(Path(sys.executable).resolve()), parts, others])
    folder = pythons_folder() / "views" / hashlib.sha256(content.encode()).hexdigest()[:20]

    def make(partial: Path) -> None:
        venv.EnvBuilder(symlinks=True).create(partial)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(partial)}))
        _link(packages, shown, have)
        for name in shown:
            _write_scripts(partial / "bin", have[name].scripts, folder / "bin" / "python3")

    return made_once(folder, make, keep=_KEPT)


def _link(packages: Path, shown: Collection[str], have: Mapping[str, InstalledDistribution]) -> None:
    """Fill a site-packages with links to the files of the distributions that are shown."""
    owners: dict[tuple[str, ...], set[Path]] = {}  # of folders with shown files: the site-packages they lie in
    mixed: set[tuple[str, ...]] = set()  # folders in which others have files too
    for name, one in have.items():
        for folder in {file[:depth] for file in one.files for depth in range(1, len(file))}:
            if name in shown:
                owners.setdefault(folder, set()).add(one.folder)
            else:
                mixed.add(folder)
    mixed |= {folder for folder, places in owners.items() if len(places) > 1}
    done: set[tuple[str, ...]] = set()
    for name in sorted(shown):
        one = have[name]
        for file in one.files:
            outermost = next((file[:depth] for depth in range(1, len(file)) if file[:depth] not in mixed), file)
            target = one.folder.joinpath(*outermost)
            if outermost not in done and target.exists():
                done.add(outermost)
                place = packages.joinpath(*outermost)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)


def _write_scripts(folder: Path, scripts: Mapping[str, str], python: Path) -> None:
    """Write the console scripts of a distribution."""
    for name, target in scripts.items():
        module, _, names = target.partition("[")[0].strip().partition(":")
        path = folder / name
        path.write_text(_SCRIPT.format(python=python, module=module.strip(), names=_dotted(names)))
        path.chmod(0o755)


def _dotted(names: str) -> Iterable[str]:
    return [part for part in names.strip().split(".") if part]
