"""The examples of ``examples.yaml``: good resources of every collection, and changes that break a rule."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tests.sandbox.cloud.desk import PROJECT

from encamp_sandbox.cloud.rest.values import merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sandbox.cloud.desk import Answer, Desk

_QUERY = "?"


@dataclass(frozen=True)
class Broken:
    """A change that breaks a rule.

    Attributes:
        belief: id of the rule's belief.
        message: part of what is said.
        before: changes of examples that stand before, by collection.
    """

    belief: str
    change: dict[str, Any]
    message: str
    before: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Example:
    """A good resource of a collection.

    Attributes:
        collection: service and collection, such as ``compute:networks``.
    """

    collection: str
    data: Mapping[str, Any]

    @property
    def needs(self) -> list[str]:
        """Collections whose examples stand before."""
        return list(self.data.get("needs", ()))

    @property
    def held(self) -> list[str]:
        """Collections whose examples cannot go while this one stands."""
        return list(self.data.get("held", ()))

    @property
    def stays(self) -> bool:
        """Whether nothing deletes it."""
        return bool(self.data.get("stays"))

    @property
    def named_by_server(self) -> bool:
        """Whether the server gives the name."""
        return self.data.get("name") == ""

    @property
    def broken(self) -> list[Broken]:
        """What breaks each rule."""
        found = []
        for belief, (change, message, *before) in self.data["broken"].items():
            found.append(Broken(belief, change, message, before[0] if before else {}))
        return found

    @property
    def at(self) -> str:
        """Path of the collection."""
        return str(self.data["at"]).replace("/P/", f"/{PROJECT}/")

    @property
    def path(self) -> str:
        """Path of the resource."""
        name = self.data.get("name") or self.data["good"]["name"]
        return f"{self.at}/{name}"

    def create(self, desk: Desk, change: Mapping[str, Any] | None = None) -> Answer:
        """Send the create, with a change."""
        change = dict(change or {})
        path = str(change.pop("at", self.data["at"])).replace("/P/", f"/{PROJECT}/")
        query = merged(self.data.get("query", {}), change.pop(_QUERY, {}))
        body = merged(deepcopy(self.data["good"]), change)
        return desk.ask("POST", path, body, query=query)

    def furnish(self, desk: Desk, made: set[str] | None = None) -> None:
        """Make what stands before, and what stands before that."""
        made = set() if made is None else made
        for need in self.needs:
            if need not in made:
                EXAMPLES[need].furnish(desk, made)
                assert EXAMPLES[need].create(desk).status == 200
                made.add(need)


EXAMPLES = {
    name: Example(name, data)
    for name, data in yaml.safe_load(Path(__file__).with_name("examples.yaml").read_text()).items()
}
