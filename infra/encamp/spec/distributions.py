"""Names of modules and of the distributions that have them: which requirement brings an import.

Tables: ``distributions.json`` for names that differ or that are known to be the same, ``requirements.json`` for what a
distribution brings with it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from encamp.spec.data_files import data_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def distribution_of(module: str) -> str | None:
    """Return the distribution that has a module, by the module's dotted name; None if it is not known."""
    return distributions().get(module)


@cache
def distributions() -> dict[str, str]:
    """Return modules by dotted name, each with the distribution that has it."""
    table = data_file("distributions")
    return {**{name: name for name in table["same"]}, **table["other"]}


def normal_name(distribution: str) -> str:
    """Return a distribution's name as the index compares it: ``Scikit_Learn`` is ``scikit-learn``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def modules_of(names: Iterable[str]) -> frozenset[str]:
    """Return dotted names of the modules of distributions.

    A distribution that no table knows has a module of its own name, with ``_`` for ``-``, as most have.
    """
    wanted = {common_name(name) for name in names}
    known = {module for module, name in distributions().items() if normal_name(name) in wanted}
    return frozenset(known | {name.replace("-", "_") for name in wanted})


def brought(names: Collection[str]) -> frozenset[str] | None:
    """Return distributions with all that they bring; None if a name is not known, as it may bring anything."""
    table = data_file("requirements")["brings"]
    asked = {common_name(name) for name in names}
    if not asked <= table.keys():
        return None
    return frozenset(asked).union(*(table[name] for name in asked))


def common_name(name: str) -> str:
    """Return the name that tables know a distribution by, which may be another build of the same."""
    normal = normal_name(name)
    return normal_name(data_file("distributions")["alternatives"].get(normal, normal))


def builds_of(name: str) -> list[str]:
    """Return other builds of a distribution, such as ``tensorflow-cpu`` of ``tensorflow``."""
    return [other for other, common in data_file("distributions")["alternatives"].items() if common == name]
