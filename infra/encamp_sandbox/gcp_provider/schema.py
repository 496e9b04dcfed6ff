"""The schemas of the types: properties with their kinds, and the official provider's treatment of each.

The files hold facts of pulumi-gcp 10.2 over terraform-provider-google-beta 8.0, in the property names of the Pulumi
package. A property is written in words: its kind (``string``, ``int``, ``float``, ``bool``, ``map``, ``block`` for one
object, ``blocks`` and ``blockset`` for lists of objects, ``list of …`` and ``set of …``), then what holds of it:
``required``, ``optional``, ``computed`` (the server gives a value where none was given), ``forceNew`` (a change
replaces the resource), ``secret``, ``suppress`` (different spellings count as equal), ``autoname``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FOLDER: Final = Path(__file__).parent / "schema"
_FLAGS: Final = ("required", "optional", "computed", "forceNew", "secret", "suppress", "autoname")


@dataclass(frozen=True)
class Property:
    """One property of a type or of an object inside it.

    Attributes:
        kind: see the module.
        force_new: a change replaces the resource.
        default: value of an input that was left out.
        choices: the only texts that are taken.
        least: smallest number; ``most`` is the largest.
        pattern: regular expression that a text has to match somewhere.
        conflicts: dotted paths of properties that exclude this one.
        exactly_one: dotted paths of which one has to be given.
        at_least_one: dotted paths of which one or more have to be given.
        fields: of an object, its properties.
    """

    kind: str
    required: bool = False
    optional: bool = False
    computed: bool = False
    force_new: bool = False
    secret: bool = False
    suppress: bool = False
    autoname: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    conflicts: tuple[str, ...] = ()
    exactly_one: tuple[str, ...] = ()
    at_least_one: tuple[str, ...] = ()
    fields: Mapping[str, Property] = field(default_factory=dict)

    @property
    def is_input(self) -> bool:
        """Whether a program may give it."""
        return self.required or self.optional

    @property
    def is_set(self) -> bool:
        """Whether the order of its elements says nothing."""
        return self.kind == "blockset" or self.kind.startswith("set of")


@dataclass(frozen=True)
class Schema:
    """The schema of one type.

    Attributes:
        timeouts: seconds that ``create``, ``update`` and ``delete`` take at most, where the official provider says so.
    """

    token: str
    fields: Mapping[str, Property]
    timeouts: Mapping[str, float]

    @property
    def autoname(self) -> str | None:
        """The property that gets a name of its own when it is left out."""
        return next((name for name, one in self.fields.items() if one.autoname), None)


@cache
def schema(token: str) -> Schema:
    """Return the schema of a type token such as ``gcp:storage/bucket:Bucket``."""
    module, name = token.split(":")[1].partition("/")[0], token.rpartition(":")[2]
    data = json.loads((_FOLDER / f"{module}.{name}.json").read_bytes())
    return Schema(token, _properties(data["fields"]), data.get("timeouts") or {})


def _properties(data: Mapping[str, Any]) -> dict[str, Property]:
    return {name: _property(one) for name, one in data.items()}


def _property(data: str | Mapping[str, Any]) -> Property:
    written = data if isinstance(data, str) else data["is"]
    more: Mapping[str, Any] = {} if isinstance(data, str) else data
    words = written.split()
    flags = {word for word in words if word in _FLAGS}
    return Property(
        kind=" ".join(word for word in words if word not in _FLAGS),
        required="required" in flags,
        optional="optional" in flags,
        computed="computed" in flags,
        force_new="forceNew" in flags,
        secret="secret" in flags,
        suppress="suppress" in flags,
        autoname="autoname" in flags,
        default=more.get("default"),
        choices=tuple(more.get("choices") or ()),
        least=more.get("least"),
        most=more.get("most"),
        pattern=more.get("pattern"),
        conflicts=tuple(more.get("conflicts") or ()),
        exactly_one=tuple(more.get("exactlyOne") or ()),
        at_least_one=tuple(more.get("atLeastOne") or ()),
        fields=_properties(more.get("fields") or {}),
    )
