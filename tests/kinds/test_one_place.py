"""Kinds are named in ``encamp.kinds``; what lists several of them elsewhere takes them from there."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING

from encamp.kinds.environment import ENVIRONMENT_RESOURCES
from encamp.kinds.google import RESOURCES
from encamp.kinds.objects import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parents[2] / "infra" / "encamp"
#: The kinds' own room. The sandbox, a package of its own, implements each service in a module.
ELSEWHERE = ("kinds",)
GOOGLE = (*RESOURCES, *ENVIRONMENT_RESOURCES)
TOKENS = {kind.token for kind in (*GOOGLE, *OBJECTS)}
#: The kind of each name by which lists had it.
NAMES = {
    **{name: kind.word for kind in OBJECTS for name in (kind.kind, kind.word, kind.plural)},
    **{name: kind.token for kind in RESOURCES for name in (kind.token.rpartition(":")[2], kind.word, kind.plural)},
}
#: Permissions that name a kind of a job and are asked for in no other service.
PERMISSIONS = {right for kind in RESOURCES for right in kind.permissions if right.startswith("compute.")}
#: Lists that name two kinds and are about something else: what is in it, and why it is none of a job's resources.
OTHERS = {
    ("acceptance/watcher.py", ("nodes", "pods", "system pods", "jobsets", "workloads")): "what a run's sampling counts",
    ("doctor/limits.py", ("queues", "service accounts", "node pools", "IAM policy")): "limits that the doctor looks at",
}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.split("/", maxsplit=1)[0] not in ELSEWHERE:
            yield name, ast.parse(path.read_text())


def _texts(node: ast.AST) -> tuple[str, ...]:
    """Return the strings of a literal list, of whatever form; of a dictionary its keys."""
    if isinstance(node, ast.Dict):
        parts: list[ast.expr | None] = list(node.keys)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        parts = list(node.elts)
    else:
        return ()
    return tuple(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))


def test_no_module_lists_kinds_by_hand() -> None:
    found = {
        (name, _texts(node)): node.lineno
        for name, module in _modules()
        for node in ast.walk(module)
        if isinstance(node, ast.expr) and len({NAMES[text] for text in _texts(node) if text in NAMES}) > 1
    }
    assert found.keys() == OTHERS.keys()


def test_no_module_names_a_type_token_or_a_kinds_own_permission() -> None:
    named = {
        (name, node.value)
        for name, module in _modules()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and node.value in TOKENS | PERMISSIONS
    }
    assert named == set()


def test_the_table_of_roles_names_no_object_of_a_job() -> None:
    abilities = json.loads((PACKAGE / "spec" / "data" / "ml_access.json").read_text())["abilities"]
    named = {
        resource for found in abilities.values() for rule in found.get("cluster", ()) for resource in rule["resources"]
    }
    assert named
    assert named.isdisjoint(kind.plural for kind in OBJECTS)
