"""Distributions that are installed in the sandbox's own Python, and what each of them needs."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import site
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from encamp.spec.distributions import builds_of, common_name, normal_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class InstalledDistribution:
    """A distribution.

    Attributes:
        name: as the index compares it.
        requires: its requirements, markers and extras among them.
        scripts: console scripts by name, each with its entry point such as ``tensorboard.main:run_main``.
        folder: that its files lie in, a site-packages.
        files: below ``folder``; what lies elsewhere, such as scripts, is left out.
    """

    name: str
    version: str
    requires: tuple[str, ...]
    scripts: Mapping[str, str]
    folder: Path
    files: tuple[tuple[str, ...], ...]


def installed(folders: tuple[Path, ...] | None = None) -> Mapping[str, InstalledDistribution]:
    """Return distributions by name, the first of each as Python finds them; those without a file list are left out.

    Args:
        folders: where they lie; those of this Python where none are given.
    """
    return _installed(tuple((folder, folder.stat().st_mtime_ns) for folder in folders or site_folders()))


@functools.lru_cache(maxsize=4)
def _installed(folders: tuple[tuple[Path, int], ...]) -> Mapping[str, InstalledDistribution]:
    """Read folders once; the time of their last change tells whether they were."""
    found: dict[str, InstalledDistribution] = {}
    for folder, _ in folders:
        for one in importlib.metadata.distributions(path=[str(folder)]):
            listed = one.files
            name = normal_name(one.metadata["Name"] or "")
            if listed is None or not name or name in found:
                continue
            files = tuple(file.parts for file in listed if ".." not in file.parts and not file.is_absolute())
            scripts = {entry.name: entry.value for entry in one.entry_points if entry.group == "console_scripts"}
            found[name] = InstalledDistribution(name, one.version, tuple(one.requires or ()), scripts, folder, files)
    return found


def site_folders() -> tuple[Path, ...]:
    """Return the folders of distributions that this Python reads."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return tuple(dict.fromkeys(Path(folder) for folder in folders if folder in sys.path))


def matching(names: Iterable[str], have: Mapping[str, InstalledDistribution]) -> dict[str, str | None]:
    """Return each distribution with the one that is installed as the same, maybe another build; None if none is.

    ``tensorflow-cpu`` stands for ``tensorflow``.
    """
    by_common: dict[str, str] = {}
    for name in sorted(have, key=lambda one: one != common_name(one)):
        by_common.setdefault(common_name(name), name)
    return {name: name if name in have else by_common.get(common_name(name)) for name in map(normal_name, names)}


def version_here(name: str) -> str | None:
    """Return the version of a distribution or another build of it in this Python, without looking at all the others."""
    for candidate in (name, *builds_of(name)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(candidate)
    return None


def closure(names: Iterable[str], have: Mapping[str, InstalledDistribution]) -> set[str] | None:
    """Return installed distributions with all that they need; None where something of that is not installed."""
    found: set[str] = set()
    todo = [(name, frozenset[str]()) for name in names]
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if name not in have:
            return None
        found.add(name)
        todo += _needed(have[name].requires, extras)
    return found


def fulfilled(requirements: Sequence[str], have: Mapping[str, InstalledDistribution]) -> set[str]:
    """Return installed distributions that fulfil requirements, with all that they need; of others nothing."""
    found: set[str] = set()
    for text in requirements:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        here = have.get(normal_name(wanted.name))
        if here is None or wanted.url is not None or not wanted.specifier.contains(here.version, prereleases=True):
            continue
        extra = [name for name, _ in _needed(here.requires, frozenset(wanted.extras))]
        found |= closure([here.name, *extra], have) or set()
    return found


def _needed(texts: Iterable[str], extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Return names and extras of the requirements that hold on this machine."""
    needed = []
    for text in texts:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:  # of an old distribution
            continue
        cases = [{"extra": extra} for extra in ("", *extras)]
        if wanted.marker is None or any(wanted.marker.evaluate(case) for case in cases):
            needed.append((normal_name(wanted.name), frozenset(wanted.extras)))
    return needed
