"""The routing of requests: from path and verb to a method of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from encamp.api.errors import ApiError
from encamp.api.methods import METHODS, Method

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST: Final = 200


@dataclass(frozen=True)
class Route:
    """A method and the values of its path.

    Attributes:
        values: ``project``, ``job`` and ``location``, those that the path has; as sent, of any form.
    """

    method: Method
    values: Mapping[str, str]


class WrongVerbError(ApiError):
    """The path has methods, but none by this verb."""

    def __init__(self, verb: str, allowed: list[str]) -> None:
        names = ", ".join(allowed)
        super().__init__("UNIMPLEMENTED", f"Nothing here is done by {verb[:20]}; allowed: {names}.", code=405)
        self.allowed = names


def route(verb: str, path: str) -> Route:
    """Return the method that a verb and a path below the root mean.

    Raises:
        WrongVerbError: the path has methods, none of them by this verb.
        ApiError: NOT_FOUND, the path has none.
    """
    shape, values = _taken_apart(path.removeprefix("/"))
    methods = _TABLE.get(shape)
    if methods is None:
        raise ApiError("NOT_FOUND", f"The requested URL {path[:_LONGEST]} was not found on this server.")
    method = methods.get(verb)
    if method is None:
        raise WrongVerbError(verb, sorted(methods))
    return Route(method, values)


def _taken_apart(path: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the shape of a path, and its values. Paths are names of collections and of what is in them by turns."""
    head, *parts = path.split("/")
    if len(parts) > _MOST or "" in parts:
        return (), {}
    # A verb of its own follows what it is about: ``jobs/J:cancel``.
    if parts:
        parts[-1], colon, custom = parts[-1].partition(":")
        if colon and not custom:
            return (), {}
    else:
        custom = ""
    values = {_SINGULAR.get(parts[at - 1], ""): parts[at] for at in range(1, len(parts), 2)}
    if "" in values or "" in values.values():
        return (), {}
    return (head, *parts[::2], str(len(parts)), custom), values


_SINGULAR: Final = {"projects": "project", "jobs": "job", "locations": "location"}
_MOST: Final = 4
_TABLE: Final[dict[tuple[str, ...], dict[str, Method]]] = {}
for _method in METHODS:
    _TABLE.setdefault(_taken_apart(_method.path)[0], {})[_method.verb] = _method
