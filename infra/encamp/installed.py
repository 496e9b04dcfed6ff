"""The packages that this encamp runs with, by version: what a project of one's own is locked to."""

from __future__ import annotations

import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from encamp.resources import repository
from encamp.version import __version__

#: Extras for developers of encamp and for trainers; a project never needs them.
_NOT_FOR_PROJECTS = {"dev", "trainer"}


def pinned_requirements() -> list[str]:
    """Return encamp with its installed extras, then everything that they need, as ``name==version``.

    What another platform needs beside them is not among it.
    """
    needs = own_requirements()
    by_extra = _by_extra(needs)
    extras = sorted(name for name in by_extra.keys() - _NOT_FOR_PROJECTS if all(map(_version, by_extra[name])))
    found: dict[str, str] = {}
    waiting = [need for need in needs if applies(need, {*extras, ""})]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        need = waiting.pop()
        key = (canonicalize_name(need.name), frozenset(need.extras))
        version = _version(need)
        if key in seen or version is None:
            continue
        seen.add(key)
        found[key[0]] = version
        listed = map(Requirement, metadata.requires(need.name) or ())
        waiting += [one for one in listed if applies(one, {*need.extras, ""})]
    own = f"encamp[{','.join(extras)}]" if extras else "encamp"
    return [f"{own}=={__version__}", *(f"{name}=={found[name]}" for name in sorted(found))]


def own_requirements() -> list[Requirement]:
    """Return encamp's requirements.

    They come from its metadata, or in a checkout, which is not installed, from ``pyproject.toml``.
    """
    try:
        return [Requirement(text) for text in metadata.requires("encamp") or ()]
    except metadata.PackageNotFoundError:
        folder = repository()
        if folder is None:
            raise
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [Requirement(text) for text in project["dependencies"]]
    for extra, listed in project["optional-dependencies"].items():
        for need in map(Requirement, listed):
            marker = f"({need.marker}) and " if need.marker else ""
            bare = str(need).partition(";")[0]
            found.append(Requirement(f'{bare}; {marker}extra == "{extra}"'))
    return found


def _by_extra(needs: list[Requirement]) -> dict[str, list[Requirement]]:
    """Return the requirements of each extra that count on this platform."""
    names = {canonicalize_name(name) for name in _extra_names(needs)}
    return {name: [need for need in needs if not applies(need, {""}) and applies(need, {name})] for name in names}


def _extra_names(needs: list[Requirement]) -> set[str]:
    pieces = (str(need.marker).partition('extra == "')[2].partition('"')[0] for need in needs if need.marker)
    return {name for name in pieces if name}


def applies(need: Requirement, extras: set[str]) -> bool:
    """Whether a requirement counts on this platform, for some of these extras; no extra is the empty name."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)


def _version(need: Requirement) -> str | None:
    """Return the version that is installed here."""
    try:
        return metadata.version(need.name)
    except metadata.PackageNotFoundError:
        return None
