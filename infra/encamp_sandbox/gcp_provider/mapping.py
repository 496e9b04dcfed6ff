"""The mapping of a program's properties to the API's JSON and back, by a type's schema and its exceptions.

A property has the API's name unless the type says another one, which may lead through objects that Pulumi leaves out
(``maxPodsConstraint.maxPodsPerNode``). Numbers that the API writes as text become numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.rest.values import at, put
from encamp_sandbox.provider import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp_sandbox.gcp_provider.schema import Property

Body = dict[str, Any]


@dataclass(frozen=True)
class TypeMapping:
    """The exceptions of one type. Every key is a dotted path of properties, without indices.

    Attributes:
        names: the API's name, as a dotted path from the object that holds the property.
        longs: numbers that the API takes as text.
        out: changes a value on its way to the API.
        into: changes a value on its way from the API.
        own: properties of the provider alone; the API never hears of them.
        kept: properties that the API takes and never shows; what was given counts as what is.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    longs: frozenset[str] = frozenset()
    out: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    into: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def body(self, fields: Mapping[str, Property], inputs: Mapping[str, Any], path: str = "") -> Body:
        """Return the API's JSON of inputs, with the schema's defaults of what was left out."""
        body: Body = {}
        for name, known in fields.items():
            value = inputs.get(name)
            value = known.default if value is None else value
            where = f"{path}.{name}" if path else name
            if value is None or value is UNKNOWN or not known.is_input or where in self.own:
                continue
            put(body, self.names.get(where, name), self._out(known, value, where))
        return body

    def _out(self, known: Property, value: Any, where: str) -> Any:
        if known.kind == "block" and isinstance(value, dict):
            value = self.body(known.fields, value, where)
        elif known.kind in ("blocks", "blockset"):
            value = [self.body(known.fields, one, where) for one in value]
        elif where in self.longs:
            value = str(value)
        change = self.out.get(where)
        return value if change is None else change(value)

    def properties(self, fields: Mapping[str, Property], body: Mapping[str, Any], path: str = "") -> Body:
        """Return the properties of the API's JSON; what it does not show is left out."""
        found: Body = {}
        for name, known in fields.items():
            where = f"{path}.{name}" if path else name
            if where in self.own or where in self.kept:
                continue
            value = at(body, self.names.get(where, name))
            if value is None:
                continue
            change = self.into.get(where)
            value = value if change is None else change(value)
            if (shown := self._into(known, value, where)) is not None:
                found[name] = shown
        return found

    def _into(self, known: Property, value: Any, where: str) -> Any:  # noqa: PLR0911 - one return for each kind
        match known.kind:
            case "block":
                return self.properties(known.fields, value, where) if isinstance(value, dict) else None
            case "blocks" | "blockset":
                return [self.properties(known.fields, one, where) for one in value]
            case "int":
                return int(value)
            case "float":
                return float(value)
            case "string":
                return value if isinstance(value, str) else str(value)
            case "bool":
                return bool(value)
        return value
