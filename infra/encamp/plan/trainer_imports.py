"""Imports of a trainer, as its packing passes them to the plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ImportedModule:
    """A module that a trainer imports as it starts: its dotted name, and the file and line."""

    name: str
    place: str


@dataclass(frozen=True)
class TrainerImports:
    """The modules that a trainer's source needs from others.

    Attributes:
        modules: in the order of their import; what follows the module's own name may be a name in it.
        requires: requirements of its build file, None if nobody can tell without running it.
        own: names of modules that its archive may hold beside the package.
        extends_path: whether it changes where Python looks for modules.
    """

    modules: tuple[ImportedModule, ...] = ()
    requires: tuple[str, ...] | None = ()
    own: frozenset[str] = frozenset()
    extends_path: bool = False
