"""Imports of a trainer as it starts, read from its source alone: nothing of it is run.

Counted is what surely runs: statements at the top of the module that is run, and of the package's modules that these
import. Left out is what may not run or may fail without harm: functions, ``if`` (``TYPE_CHECKING`` among them),
``with``, loops, and ``try`` that catches a failed import. A file that this Python cannot read, such as one of Python 2,
is passed over. The source is untrusted, so its size and number are bounded.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from encamp.packaging.declared import build_file, declared_requirements
from encamp.packaging.files import read_files
from encamp.plan.trainer_imports import ImportedModule, TrainerImports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

#: Larger files, and what goes beyond the total, are not looked at.
_FILE_BYTES, _TOTAL_BYTES = 1 << 20, 8 << 20
_MOST_IMPORTS = 1000
_LONGEST_NAME = 100
#: Exceptions in an ``except`` that catches a failed import.
_CATCHING = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_INSTALLING = re.compile(r"\bpip3?\s+install\b|\bconda\s+install\b|\bapt(-get)?\s+install\b")
_NOT_READABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


@dataclass
class Reading:
    """The result of reading a trainer.

    Attributes:
        imports: modules of others by dotted name, each with the place of its first import.
        installs: whether it installs packages itself.
        extends_path: whether it changes where Python looks for modules.
    """

    imports: dict[str, ImportedModule] = field(default_factory=dict)
    installs: bool = False
    extends_path: bool = False


def folder_imports(folder: Path, module: str | None) -> TrainerImports | None:
    """Return the imports of a trainer's folder when a module of it is run; None if they cannot be known.

    Raises:
        PlanError: the folder cannot be packed.
    """
    if module is None:
        return None
    reading = read_imports(folder.name, read_files(folder, ending=".py"), module)
    if reading.installs:
        return None
    if build_file(folder.parent) is None:
        return TrainerImports(tuple(reading.imports.values()), extends_path=reading.extends_path)
    return TrainerImports(
        tuple(reading.imports.values()),
        requires=declared_requirements(folder.parent),
        own=frozenset(_beside(folder.parent)),
        extends_path=reading.extends_path,
    )


def _beside(root: Path) -> Iterator[str]:
    """Yield the names of what a build file may pack beside the trainer."""
    for folder in (root, root / "src", root / "lib"):
        if folder.is_dir():
            yield from (path.stem for path in folder.iterdir() if path.stem.isidentifier())


def read_imports(package: str, files: Mapping[str, bytes], module: str) -> Reading:
    """Read what ``python -m module`` imports.

    Args:
        package: name of the package.
        files: content by path inside it.
        module: dotted name of the module that is run.
    """
    reading = Reading()
    waiting = [*_parents(module), module, f"{module}.__main__"]
    seen: set[str] = set()
    own, left = own_names(package, files), _TOTAL_BYTES
    while waiting:
        name = waiting.pop(0)
        path = _path(name, package, files)
        if path is None or path in seen:
            continue
        seen.add(path)
        content = files[path]
        if len(content) > min(_FILE_BYTES, left):
            continue
        left -= len(content)
        tree = _parsed(content)
        if tree is None:
            continue
        _look_for_tricks(tree, reading)
        inside = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        for statement in _top_level(tree.body):
            for found in _names(statement, inside):
                if found.partition(".")[0] == package:
                    waiting += [*_parents(found), found]
                elif _is_told(found, own, reading):
                    place = f"{package}/{path}:{statement.lineno}"
                    reading.imports.setdefault(found, ImportedModule(found, place))
    return reading


def own_names(package: str, files: Collection[str]) -> frozenset[str]:
    """Return the names of a package's own modules, in whatever folder: they may be on the path by other ways."""
    parts = (part for path in files if path.endswith(".py") for part in path.removesuffix(".py").split("/"))
    return frozenset([package, *parts])


def _is_told(name: str, own: Collection[str], reading: Reading) -> bool:
    return (
        name.partition(".")[0] not in own
        and name.isascii()
        and len(name) <= _LONGEST_NAME
        and len(reading.imports) < _MOST_IMPORTS
    )


def _parsed(content: bytes) -> ast.Module | None:
    with warnings.catch_warnings():
        # The trainer's own, of strings with wrong escapes.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(content)
        except _NOT_READABLE:
            return None


def _path(name: str, package: str, files: Mapping[str, bytes]) -> str | None:
    """Return the file of a module of the package, or None."""
    first, *inside = name.split(".")
    if first != package:
        return None
    stem = "/".join(inside)
    candidates = (f"{stem}.py", f"{stem}/__init__.py") if stem else ("__init__.py",)
    return next((path for path in candidates if path in files), None)


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _top_level(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield imports that run whenever the module is imported, and whose failure ends it."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.Try):
            if not any(_catches(handler.type) for handler in statement.handlers):
                yield from _top_level(statement.body)
            yield from _top_level(statement.finalbody)


def _catches(caught: ast.expr | None) -> bool:
    """Whether an ``except`` may catch a failed import: by name, or nobody can tell."""
    if caught is None:
        return True
    if isinstance(caught, ast.Tuple):
        return any(map(_catches, caught.elts))
    return not isinstance(caught, ast.Name) or caught.id in _CATCHING or not caught.id.endswith("Error")


def _names(statement: ast.Import | ast.ImportFrom, inside: str) -> Iterator[str]:
    """Yield dotted names that a statement imports; what it takes from a module may be a module itself."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    parts = [statement.module] if statement.module else []
    if statement.level:
        base = inside.split(".")
        if statement.level > len(base):
            return
        parts = [*base[: len(base) - statement.level + 1], *parts]
    name = ".".join(parts)
    for alias in statement.names:
        yield name if alias.name == "*" else f"{name}.{alias.name}"


def _look_for_tricks(tree: ast.Module, reading: Reading) -> None:
    """Note code that installs packages, or that lets modules come from elsewhere."""
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            reading.installs |= node.value in {"pip", "pip3", "conda"} or bool(_INSTALLING.search(node.value))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            reading.installs |= any(name.partition(".")[0] in {"pip", "ensurepip"} for name in _names(node, ""))
            reading.extends_path |= any(
                name in {"sys.path", "sys.modules", "sys.meta_path"} or name.partition(".")[0] == "site"
                for name in _names(node, "")
            )
        elif isinstance(node, ast.Attribute) and node.attr in {"path", "modules", "meta_path", "path_hooks"}:
            reading.extends_path |= isinstance(node.value, ast.Name) and node.value.id == "sys"
