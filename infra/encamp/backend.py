"""The engine's backend for states, found by the engine's own rules; and repair of what a killed engine broke there.

In a backend of files the engine's library keeps the attributes of each file beside it, and writes them in place. Of an
engine that was killed at that moment an empty file stays, with which every reading of that state, and every listing of
the backend, ends in "EOF" for ever (gocloud.dev/blob/fileblob, attrs.go). Nobody needs those attributes.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILES = "file://"
#: An engine writes attributes by one call; what has been empty for so long stays so.
_WRITTEN_SECONDS = 1.0


def backend_url(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the engine's backend.

    By the environment, the project in a folder, or the last `pulumi login`.
    """
    if given := environ.get("PULUMI_BACKEND_URL"):
        return given
    with suppress(FileNotFoundError):
        project = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))
        if url := (project.get("backend") or {}).get("url"):
            return str(url)
    found = pulumi_credentials(environ).get("current")
    return str(found) if found else None


def pulumi_credentials(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the credentials that `pulumi login` keeps on this machine; empty without a login."""
    home = environ.get("PULUMI_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".pulumi")
    try:
        found = json.loads((Path(home) / "credentials.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def mend(url: str | None) -> list[Path]:
    """Remove attributes that a killed engine left empty in a backend of files; gives their files."""
    if url is None or not url.startswith(_FILES):
        return []
    folder = Path(url.removeprefix(_FILES).partition("?")[0]).expanduser() / ".pulumi"
    before = time.time() - _WRITTEN_SECONDS
    removed = []
    for attributes in folder.rglob("*.attrs"):
        # Another engine replaces its files meanwhile.
        with suppress(FileNotFoundError):
            found = attributes.stat()
            if found.st_size == 0 and found.st_mtime < before:
                attributes.unlink()
                removed.append(attributes)
    return removed
