"""A lie: the belief that it breaks, and its change at the edge of the sandbox."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class Asked:
    """A request as the lie sees it.

    Attributes:
        path: unquoted, with the service as its first part (``/container/v1/…``); storage's own begin with
            ``/storage``, ``/upload`` or ``/download``.
        headers: names in lower case.
        before: how often the same method and path had a good answer since the lies were set.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""
    before: int = 0

    @property
    def json(self) -> Any:
        """The body as JSON data; None if it is none."""
        return _json(self.body)

    def without(self, parameter: str) -> Asked:
        """Return the same without a query parameter."""
        return replace(self, query={key: value for key, value in self.query.items() if key != parameter})

    def with_json(self, data: Any) -> Asked:
        """Return the same with another body."""
        return replace(self, body=json.dumps(data).encode())


@dataclass(frozen=True)
class Told:
    """An answer as the lie sees it; ``headers`` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        """The body as JSON data; None if it is none."""
        return _json(self.body)

    def with_json(self, data: Any) -> Told:
        """Return the same with another body."""
        return replace(self, body=json.dumps(data).encode())


@dataclass(frozen=True)
class Lie:
    """One switch.

    Attributes:
        belief: id of the belief that it breaks.
        does: what the sandbox does then, in one sentence.
        method: HTTP methods that it is about, as a pattern.
        path: pattern of the whole path.
        asks: changes the request, or answers it without asking anybody.
        tells: changes the answer.
        objects: of which kinds of Kubernetes objects it changes each as it is answered, such as ``nodes leases``.
        shows: changes such an object.
        lists: changes what a listing of them holds.
    """

    belief: str
    does: str
    method: str = "GET"
    path: str = ""
    asks: Callable[[Asked], Asked | Told] | None = None
    tells: Callable[[Asked, Told], Told] | None = None
    objects: str = ""
    shows: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    lists: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None
    _path: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_path", re.compile(self.path))

    def is_about(self, asked: Asked) -> bool:
        """Whether a REST call is one that it changes."""
        return bool(self.path and re.fullmatch(self.method, asked.method) and self._path.fullmatch(asked.path))


def in_json(change: Callable[[dict[str, Any]], object]) -> Callable[[Asked, Told], Told]:
    """Change the JSON object of a good answer in place."""

    def tell(asked: Asked, told: Told) -> Told:
        del asked
        data = told.json
        if not isinstance(data, dict) or told.status >= ERRORS:
            return told
        change(data)
        return told.with_json(data)

    return tell


def instead(status: int, by: int, body: Mapping[str, Any] | None = None) -> Callable[[Asked, Told], Told]:
    """Answer with another status, and body, where the answer has the status ``status``."""

    def tell(asked: Asked, told: Told) -> Told:
        del asked
        if told.status != status:
            return told
        return Told(by, {"content-type": "application/json"}, b"" if body is None else json.dumps(body).encode())

    return tell


#: The first status that is no good answer.
ERRORS = 400


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
