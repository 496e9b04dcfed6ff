"""A trainer's own build file, and the requirements in it, read without running it."""

from __future__ import annotations

import ast
import configparser
import tomllib
from typing import TYPE_CHECKING, Any

from encamp.errors import PlanError
from encamp.packaging.wheel import PACKAGE_PATH

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 1 << 20
_SETUPTOOLS = ("setuptools.build_meta", "setuptools.build_meta:__legacy__")
_NOT_READABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError, configparser.Error)


def build_file(root: Path) -> Path | None:
    """Return ``setup.py`` or a ``pyproject.toml`` with a build system in a folder; None if it has neither.

    Many a ``pyproject.toml`` only holds the settings of tools.

    Raises:
        PlanError: the ``pyproject.toml`` is no TOML.
    """
    setup, project = root / "setup.py", root / "pyproject.toml"
    if setup.is_file():
        return setup
    if not project.is_file():
        return None
    try:
        data = tomllib.loads(project.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{project.name} beside the trainer is no TOML: {error}", where=PACKAGE_PATH) from error
    return project if data.keys() & {"project", "build-system"} else None


def declared_requirements(root: Path) -> tuple[str, ...] | None:
    """Return the requirements that a project declares; None if only its build file, when run, would tell."""
    try:
        project = tomllib.loads(_text(root / "pyproject.toml"))
        table = project.get("project")
        if isinstance(table, dict):
            return None if "dependencies" in table.get("dynamic", ()) else _texts(table.get("dependencies", []))
        if (root / "setup.py").is_file():
            return _of_setup(ast.parse(_text(root / "setup.py")), root)
        backend = project.get("build-system", {}).get("build-backend", _SETUPTOOLS[0])
        return _of_setup_cfg(root) if backend in _SETUPTOOLS else None
    except (*_NOT_READABLE, AttributeError, TypeError):
        return None


def _text(path: Path) -> str:
    if not path.is_file():
        return ""
    if path.stat().st_size > _LARGEST:
        raise ValueError(path)
    return path.read_text(encoding="utf-8")


def _texts(value: Any) -> tuple[str, ...] | None:
    texts = list(value)
    return tuple(texts) if all(isinstance(one, str) for one in texts) else None


def _of_setup(tree: ast.Module, root: Path) -> tuple[str, ...] | None:
    """Return ``install_requires`` of the one call of ``setup``, given as a list or by the name of one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_setup(node.func)]
    if len(calls) != 1 or any(keyword.arg is None for keyword in calls[0].keywords):
        return None
    given = next((keyword.value for keyword in calls[0].keywords if keyword.arg == "install_requires"), None)
    if given is None:
        return _of_setup_cfg(root)
    if isinstance(given, ast.Name):
        given = _only_value(given.id, tree)
    return _texts(ast.literal_eval(given)) if given is not None else None


def _is_setup(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name == "setup"


def _only_value(name: str, tree: ast.Module) -> ast.expr | None:
    """Return the value of a name that is assigned once and used once, so that nothing has changed it."""
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    values = [
        statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == name
    ]
    uses = 2
    return values[0] if len(values) == 1 and len(named) == uses else None


def _of_setup_cfg(root: Path) -> tuple[str, ...] | None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(_text(root / "setup.cfg"))
    text = parser.get("options", "install_requires", fallback="")
    if text.lstrip().startswith("file:"):
        return None
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))
