"""Git's view of a checkout: the files that differ from a base, and the base's own tree."""

from __future__ import annotations

import io
import subprocess
import tarfile
from typing import TYPE_CHECKING

from encamp.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def merge_base(checkout: Path, base: str) -> str:
    """Return the commit from which HEAD and ``base`` went apart: what ``base`` gained since is no change of ours.

    Raises:
        UsageError: no repository, no such base, or a clone too shallow to have the commit.
    """
    found = _git(checkout, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}", refused=None)
    if found is None:
        raise UsageError(
            f"Git knows no commit {base!r}",
            where="--base",
            hint="fetch it: `git fetch origin main`, or `fetch-depth: 0` of actions/checkout with --base origin/main",
        )
    common = _git(checkout, "merge-base", "HEAD", found.strip(), refused=None)
    if common is None:
        raise UsageError(
            f"HEAD and {base!r} have no commit in common",
            where="--base",
            hint="clone with the whole history: `fetch-depth: 0` of actions/checkout",
        )
    return common.strip()


def changed_files(checkout: Path, commit: str) -> tuple[str, ...]:
    """Return paths in a folder of a work tree, relative to it, that differ from a commit, new files among them, sorted.

    Raises:
        UsageError: Git refuses; shows its words.
    """
    differing = _git(checkout, "diff", "--name-only", "--no-renames", "--relative", "-z", commit, "--", ".") or ""
    new = _git(checkout, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return tuple(sorted({path for path in (differing + new).split("\0") if path}))


def write_tree(checkout: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder; the checkout and its index stay as they are.

    Raises:
        UsageError: Git refuses; shows its words.
    """
    ended = subprocess.run(["git", "archive", "--format=tar", commit], cwd=checkout, capture_output=True, check=False)
    if ended.returncode != 0:
        raise UsageError(f"git archive: {ended.stderr.decode(errors='replace').strip()}", where=str(checkout))
    with tarfile.open(fileobj=io.BytesIO(ended.stdout)) as archive:
        archive.extractall(folder, filter=_inside)  # noqa: S202 - the filter keeps it in the folder


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Return a member of an archive; a link that leads out of the tree is left out."""
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _git(checkout: Path, *words: str, refused: str | None = "") -> str | None:
    """Return Git's output; with ``refused=None`` a failure without a message, as for a missing path, is None."""
    try:
        ended = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UsageError("git is not on PATH", where="git", hint="install it") from error
    if ended.returncode == 0:
        return ended.stdout
    if refused is None and not ended.stderr.strip():
        return None
    raise UsageError(f"git {words[0]}: {ended.stderr.strip()}", where=str(checkout))
