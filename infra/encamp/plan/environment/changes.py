"""The effect of each field's change on an environment that is up: the table ``environment_changes.json``.

Each field, or block, has its ``take``: ``in-place``; ``grown`` (a range that may only become a larger one);
``replaced`` (what it names is made anew, and ``loses`` says what goes with the former one); ``refused`` by Google, or
because the engine would delete what is in use; ``new-cluster``; ``new-environment``. The stack's outputs keep what an
environment was made with, so a preview and an ``up`` compare before anything is touched.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_snake

from encamp.errors import PlanError
from encamp.spec.data_files import data_file
from encamp.spec.environment.gke import GkeSpec
from encamp.spec.environment.vpc import VpcSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.spec.environment.model import EnvironmentSpec

#: Output of an environment's stack: what it was made with, by field.
MADE_WITH = "madeWith"
_KEY_OF_ITS_OWN = "a key that is made"
_INSTEAD = "write the former value back, or make a second environment beside this one and take this one down when empty"


class Take(StrEnum):
    """The effect of a changed field."""

    IN_PLACE = "in-place"
    GROWN = "grown"
    REPLACED = "replaced"
    REFUSED = "refused"
    NEW_CLUSTER = "new-cluster"
    NEW_ENVIRONMENT = "new-environment"


_WORDS = {
    Take.GROWN: "can only become a larger range that holds the former one",
    Take.REFUSED: "cannot be changed while the environment is up",
    Take.NEW_CLUSTER: "takes a new cluster, and all jobs of this one would end",
    Take.NEW_ENVIRONMENT: "takes a new environment",
}


@dataclass(frozen=True)
class Change:
    """A field that differs from what the environment was made with.

    Attributes:
        path: the field, such as ``podsCidr`` or ``vpc.mtu``.
        before: its value as the stack's outputs have it; None for none.
        after: its value now.
        take: what the change takes.
        loses: what goes with what is replaced; None for nothing.
        belief: id of the rule.
    """

    path: str
    before: Any
    after: Any
    take: Take
    loses: str | None
    belief: str

    @property
    def refused(self) -> bool:
        """Whether the change is stopped before anything is touched."""
        if self.take is Take.GROWN:
            return not _holds(self.after, self.before)
        return self.loses is not None or self.take is not Take.REPLACED

    def __str__(self) -> str:
        words = _WORDS.get(self.take) or (f"is replaced, and {self.loses} go" if self.loses else "is replaced")
        return f"{self.path}: {_shown(self.before)} → {_shown(self.after)}: {words} ({self.belief})"


def table() -> Mapping[str, Mapping[str, Any]]:
    """Return the effect of a change by the path of a field or a block."""
    found: Mapping[str, Mapping[str, Any]] = data_file("environment_changes")["fields"]
    return found


def made_with(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return values of the fields that cannot be changed in place, by path; those that are absent are left out."""
    values = {path: _value(spec, path) for path, entry in table().items() if entry["take"] != Take.IN_PLACE}
    return {path: value for path, value in values.items() if value is not None}


def changes(before: Mapping[str, Any], spec: EnvironmentSpec) -> tuple[Change, ...]:
    """Return every field that cannot simply be changed in place and differs.

    Args:
        before: :func:`made_with` of the environment that is up, as its outputs have it; empty of one that is not up or
            was made before outputs had it: nothing is then known, and the engine's preview alone tells.
        spec: as it is written now.
    """
    return tuple(_changes(before, spec)) if before else ()


def refuse(found: tuple[Change, ...], *, where: str) -> None:
    """Stop before anything is touched where a change would lose or break what is up.

    Raises:
        PlanError: lists every such change.
    """
    refused = [str(one) for one in found if one.refused]
    if refused:
        raise PlanError("\n  ".join(["changes of an environment that is up:", *refused]), where=where, hint=_INSTEAD)


def _changes(before: Mapping[str, Any], spec: EnvironmentSpec) -> Iterator[Change]:
    after = made_with(spec)
    for path, entry in table().items():
        if before.get(path) != after.get(path):
            take = Take(entry["take"])
            yield Change(path, before.get(path), after.get(path), take, entry.get("loses"), entry["belief"])


def _value(spec: EnvironmentSpec, path: str) -> Any:
    """Return a field's value; of a block that is absent its defaults, where an empty block means the same."""
    if path == "encryption.key" and spec.encryption is not None:
        return spec.encryption.key or _KEY_OF_ITS_OWN
    found: Any = spec.model_copy(update={"vpc": spec.vpc or VpcSpec(), "gke": spec.gke or GkeSpec()})
    for name in path.split("."):
        if found is None:
            return None
        found = getattr(found, to_snake(name))
    return list(found) if isinstance(found, tuple) else found


def _holds(larger: Any, smaller: Any) -> bool:
    try:
        return ipaddress.IPv4Network(str(smaller)).subnet_of(ipaddress.IPv4Network(str(larger)))
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
