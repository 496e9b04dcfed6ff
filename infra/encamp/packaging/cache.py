"""A cache of built archives, keyed by their content: a plan, a preview and a run build each only once."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

import platformdirs

#: The same variable moves the cache of the sandbox's tools.
CACHE_VARIABLE = "ENCAMP_CACHE_DIR"
#: Number of archives that stay; the least recently used go first.
_KEPT = 64


def cached(key: str) -> Path | None:
    """Return the archive that was made of ``key``, or None."""
    folder = _folder() / key
    try:
        (found,) = folder.iterdir()
        os.utime(folder)
    except (OSError, ValueError):
        return None
    return found


def keep(key: str, file_name: str, content: bytes) -> Path:
    """Keep an archive; its path. Whoever keeps the same at the same time finds one of the two."""
    root = _folder()
    root.mkdir(parents=True, exist_ok=True)
    partial = root / f".{secrets.token_hex(8)}"
    partial.mkdir()
    try:
        (partial / file_name).write_bytes(content)
        partial.rename(root / key)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not (root / key / file_name).is_file():
            raise
    _prune(root)
    return root / key / file_name


def _folder() -> Path:
    moved = os.environ.get(CACHE_VARIABLE)
    return (Path(moved).expanduser() if moved else platformdirs.user_cache_path("encamp")) / "packages"


def _prune(root: Path) -> None:
    entries = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(root) if not entry.name.startswith(".")]
    for _, path in sorted(entries)[:-_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
