"""The Git commit and repository of a trainer on this machine, for the job's receipt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from encamp.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

_GIT_SECONDS = 20
#: No program that a repository's configuration names is run for a look at it.
_SAFE = ("-c", "core.fsmonitor=false")


def trainer_source(job: Mapping[str, Any], folder: Path | None) -> dict[str, Any] | None:
    """Return the source of a job's trainer, None if that is not of this machine or lies in no Git repository.

    Args:
        job: the Job resource as data.
        folder: what its ``encamp.packagePath`` is relative to.
    """
    given = (job.get("encamp") or {}).get("packagePath")
    return source_of((folder or Path.cwd()) / given) if isinstance(given, str) else None


def source_of(folder: Path) -> dict[str, Any] | None:
    """Return the repository and commit of a folder, and whether its files differ from that.

    None outside a work tree.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    top = _git(folder, "rev-parse", "--show-toplevel")
    if commit is None or top is None:
        return None
    # Files that Git ignores are in no commit either.
    tracked = _git(folder, "ls-files", "--", ".")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    remote = _git(folder, "config", "--get", "remote.origin.url")
    return {
        "repository": _plain_url(remote) if remote else Path(top).name,
        "path": _git(folder, "rev-parse", "--show-prefix") or "",
        "commit": commit,
        "dirty": bool(changes) or not tracked,
    }


def source_text(source: Mapping[str, Any]) -> str:
    """Return a source in one line; receipts of before told neither repository nor path."""
    place = " ".join(str(source[key]) for key in ("repository", "path") if source.get(key))
    changed = ", with changes" if source.get("dirty") else ""
    return f"{source.get('commit')}{changed}{f' ({place})' if place else ''}"


def _plain_url(url: str) -> str:
    """Return a remote's address without who logs in there."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return redacted(url)
    if not parts.scheme or "@" not in parts.netloc:
        return redacted(url)
    return redacted(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))


def _git(folder: Path, *arguments: str) -> str | None:
    program = shutil.which("git")
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, *_SAFE, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (subprocess.SubprocessError, OSError, ValueError):
        return None
    return answer.stdout.strip()
