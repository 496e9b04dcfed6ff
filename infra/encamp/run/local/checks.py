"""Checks before a local run starts a process, each with a hint.

Everything is looked up in files: no code of the trainer and no interpreter is run for it.
"""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIXES = (".py", ".pyc", ".so", ".pyd")
_REMOTE = "gs://"
_PACKAGE, _MODULE, _FOLDER = "package", "module", "folder"
#: Number of modules that a hint names.
_MOST_NAMED = 8


def package_root(package_path: str, working: Path, *, where: str = "--package-path") -> Path:
    """Return the folder that a trainer package lies in, which replicas start in.

    Args:
        package_path: as it was given, relative to ``working``.
        working: the folder that the command was called in.
        where: what messages call it.

    Raises:
        UsageError: it is not there, no folder, or no package.
    """
    given = Path(package_path)
    path = Path(os.path.abspath(working / given.expanduser()))  # noqa: PTH100 - links stay as they are
    if not path.exists():
        near = difflib.get_close_matches(path.name, _modules(path.parent), n=1)
        hint = f"did you mean {given.parent / near[0]}?" if near else "name the folder that holds the trainer's modules"
        raise UsageError(f"there is no folder {str(given)!r}", where=where, hint=hint)
    if not path.is_dir():
        raise UsageError(
            f"{str(given)!r} is a file, not a package",
            where=where,
            hint=f"name the folder that holds it: {given.parent}",
        )
    if not (path / "__init__.py").is_file():
        raise UsageError(
            f"{str(given)!r} has no __init__.py, so it is no Python package",
            where=where,
            hint=f"create {given / '__init__.py'}; it may be empty",
        )
    if not path.name.isidentifier():
        raise UsageError(
            f"a module cannot be imported from a folder named {path.name!r}",
            where=where,
            hint=f"rename it, such as to {_identifier(path.name)}",
        )
    return path.parent


def check_module(module: str, root: Path, search: Sequence[Path] | None, *, where: str = "--module-name") -> None:
    """Refuse a module that ``python -m`` will not find.

    Args:
        module: dotted name, such as ``trainer.task``.
        root: folder that replicas start in; ``python -m`` looks there first.
        search: the other folders in which the chosen Python looks for modules, None if that is not known: a
            module that may lie there is believed.
        where: what messages call it.

    Raises:
        UsageError: the name is malformed, or nothing of that name exists.
    """
    parts = module.split(".")
    _check_name(module, parts, root, where)
    holders = [folder for folder in (root, *(search or ())) if _kind(folder, parts[0])]
    # Parts of one namespace may lie in several folders.
    found = [_mistake(parts, folder) for folder in holders]
    if None in found:
        return
    if found and found[0] is not None:
        raise UsageError(found[0][0], where=where, hint=found[0][1])
    if search is None or parts[0] in sys.stdlib_module_names or any(_adds(folder, parts[0]) for folder in search):
        return
    near = difflib.get_close_matches(parts[0], _modules(root), n=1)
    hint = (
        f"did you mean {'.'.join([near[0], *parts[1:]])}?"
        if near
        else f"start in the folder that holds {parts[0]}/, or name it with --package-path"
    )
    raise UsageError(f"there is no module {module!r}: {root} holds no {parts[0]!r}", where=where, hint=hint)


def check_job_dir(job_dir: str | None, root: Path, *, where: str = "--job-dir") -> None:
    """Refuse a local job dir that cannot be written; it need not exist, and nothing is made.

    Args:
        job_dir: local path, relative to ``root``, or ``gs://`` path, which is believed.
        root: folder that replicas start in.
        where: what messages call it.

    Raises:
        UsageError: it is no folder, or this user may not write there.
    """
    if job_dir is None or job_dir.startswith(_REMOTE):
        return
    if not job_dir.strip():
        raise UsageError("is empty", where=where, hint="name a folder or a gs:// path, or leave it out")
    path = root / job_dir
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UsageError(
            f"{str(there)!r} is a file, so that nothing can be written to {job_dir!r}",
            where=where,
            hint="name a folder, or a gs:// path",
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(
            f"{job_dir!r} cannot be written: {str(there)!r} belongs to somebody else or is read-only",
            where=where,
            hint="name another folder, or change its rights with chmod",
        )


def check_counts(counts: Mapping[str, int | None]) -> None:
    """Refuse negative counts, each by the name of its flag.

    Raises:
        UsageError: naming all of them.
    """
    wrong = {name: count for name, count in counts.items() if count is not None and count < 0}
    if wrong:
        raise UsageError(
            f"a count cannot be negative: {', '.join(f'{name} {count}' for name, count in wrong.items())}",
            where=next(iter(wrong)),
            hint="0 is none of them",
        )


def check_own_flags(arguments: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """Return warnings about arguments of the trainer (after ``--``) that are spelled as flags of this command.

    ``--job-dir`` is the trainer's own too, and so is no mistake.
    """
    known = set(flags) - {"--job-dir"}
    found = [word for word in arguments if word.partition("=")[0] in known]
    return tuple(
        f"{word} stands after -- and goes to the trainer; flags of this command stand before it" for word in found
    )


def _check_name(module: str, parts: Sequence[str], root: Path, where: str) -> None:
    if all(part.isidentifier() for part in parts):
        return
    hint = "write a dotted name, such as trainer.task"
    path = Path(module)
    if path.suffix == ".py" and ((root / path).is_file() or path.is_file()):
        relative = Path(os.path.relpath(path if path.is_absolute() else root / path, root))
        dotted = ".".join(relative.with_suffix("").parts)
        hint = f"write {dotted}" if ".." not in relative.parts else hint
    elif module.endswith(".py"):
        hint = f"write {module.removesuffix('.py').replace('/', '.').strip('.')}"
    raise UsageError(f"{module!r} is a path or no name, not a module", where=where, hint=hint)


def _mistake(parts: Sequence[str], folder: Path) -> tuple[str, str] | None:
    """Follow a dotted name below the folder that its first part lies in; what is wrong with it and what to try."""
    here = folder
    for at, part in enumerate(parts):
        holder, through = ".".join(parts[:at]), ".".join(parts[: at + 1])
        kind = _kind(here, part)
        if kind is None:
            return f"there is no module {'.'.join(parts)!r}: {holder} holds no {part!r}", _nearest(holder, here, part)
        if kind == _MODULE:
            if part == parts[-1] and at == len(parts) - 1:
                return None
            return f"{through} is a module, not a package, so it holds no {parts[at + 1]!r}", f"write {through}"
        here = here / part
    # A package's entry point is its __main__.
    if _kind(here, "__main__") or not _kind(here, "__init__"):
        return None
    inside = [f"{'.'.join(parts)}.{name}" for name in _modules(here)]
    return (
        f"{'.'.join(parts)!r} is a package, and python -m runs a package only where it has a __main__.py",
        f"name a module of it, such as {inside[0]}" if inside else f"create {here / '__main__.py'}",
    )


def _nearest(holder: str, folder: Path, name: str) -> str:
    known = _modules(folder)
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {holder}.{near[0]}?"
    return f"{holder} holds {', '.join(known[:_MOST_NAMED]) or 'no module at all'}"


def _kind(folder: Path, name: str) -> str | None:
    """Return Python's view of a name in a folder: a package goes before a module, a mere folder comes last."""
    here = folder / name
    if (here / "__init__.py").is_file() or any(here.glob("__init__.*")):
        return _PACKAGE
    if any((folder / f"{name}{suffix}").is_file() for suffix in _SUFFIXES) or any(folder.glob(f"{name}.*.so")):
        return _MODULE
    return _FOLDER if here.is_dir() else None


def _modules(folder: Path) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    names = [
        entry.name.removesuffix(".py")
        for entry in entries
        if entry.name.endswith(".py") or (entry.is_dir() and (Path(entry.path) / "__init__.py").is_file())
    ]
    return [name for name in names if name.isidentifier() and not name.startswith("__")]


def _adds(folder: Path, name: str) -> bool:
    """Whether a ``.pth`` file there adds a folder that holds the name, or a finder of an editable install."""
    for file in folder.glob("*.pth"):
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("import"):
                if "__editable__" in line:
                    return True
            elif line.strip() and not line.startswith("#") and _kind(folder / line.strip(), name):
                return True
    return False


def _identifier(name: str) -> str:
    return "".join(one if one.isalnum() else "_" for one in name)
