"""Paths of an API: templates such as ``projects/{project}/locations/{location}/keyRings``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from encamp_sandbox.cloud.calls import Call
    from encamp_sandbox.cloud.cloud import Cloud


@dataclass(frozen=True)
class Ask:
    """A call whose path was recognised.

    Attributes:
        variables: what stands in the template's braces, the project by its id.
        name: the path as a full name.
    """

    call: Call
    cloud: Cloud
    variables: dict[str, str]
    name: str

    @property
    def parent(self) -> str:
        """Full name of what a collection's path lies below."""
        return self.name.rpartition("/")[0]

    def require(self, permission: str, resource: str = "") -> None:
        """Refuse a caller without a permission.

        Raises:
            GoogleError: 403.
        """
        self.cloud.access.require(self.call.principal, permission, resource=resource)


Handler = Callable[[Ask], Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    """One method of an API.

    Attributes:
        template: path below the version, with names in braces.
        http: HTTP methods.
        verb: custom method behind a colon, empty without one.
        operation: what faults call it: ``create``, ``read``, ``update`` or ``delete``.
        collection: plural that faults know the resource by; by default the template's last literal.
        named: full name of what a create makes, None where only the server knows it.
    """

    template: str
    http: tuple[str, ...]
    handler: Handler
    verb: str = ""
    operation: str = "read"
    collection: str = ""
    named: Callable[[Ask], Awaitable[str | None]] | None = None

    @property
    def plural(self) -> str:
        """The collection by which faults know the resource."""
        if self.collection:
            return self.collection
        return next(part for part in reversed(self.template.split("/")) if not part.startswith("{"))


class Router:
    """Finds the route of a call."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        for route in routes:
            parts = tuple(route.template.split("/"))
            self._routes.setdefault(len(parts), []).append((parts, route))

    def find(self, method: str, verb: str, path: Sequence[str]) -> tuple[Route, dict[str, str]] | None:
        """Return the route and its variables, None if nothing matches."""
        for parts, route in self._routes.get(len(path), ()):
            if method in route.http and verb == route.verb:
                variables = _matched(parts, path)
                if variables is not None:
                    return route, variables
        return None


def _matched(parts: Sequence[str], path: Sequence[str]) -> dict[str, str] | None:
    variables: dict[str, str] = {}
    for part, given in zip(parts, path, strict=True):
        if part.startswith("{"):
            if not given:
                return None
            variables[part[1:-1]] = given
        elif part != given:
            return None
    return variables
