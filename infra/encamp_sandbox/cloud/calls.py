"""One call of a Google API: its method and path, its caller, and its service."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError

if TYPE_CHECKING:
    from starlette.requests import Request

    from encamp_sandbox.cloud.tokens import Principal


@dataclass(frozen=True)
class Call:
    """A request that has been told apart.

    Attributes:
        service: host name without ``.googleapis.com``.
        method: HTTP method.
        path: segments of the service's own path, unquoted; a custom method stays on the last one (``P:getIamPolicy``).
        base: the URL by which the caller reached the service's root, without a final slash.
    """

    request: Request
    service: str
    method: str
    path: tuple[str, ...]
    principal: Principal
    base: str
    query: dict[str, str] = field(default_factory=dict)

    @property
    def agent(self) -> str:
        """The caller's user agent."""
        return self.request.headers.get("user-agent", "")

    @property
    def verb(self) -> str:
        """The custom method, such as ``getIamPolicy``; empty without one."""
        return self.path[-1].partition(":")[2] if self.path else ""

    @property
    def plain(self) -> tuple[str, ...]:
        """The path without the custom method."""
        return (*self.path[:-1], self.path[-1].partition(":")[0]) if self.path else ()

    async def json(self) -> dict[str, Any]:
        """Return the body.

        Raises:
            GoogleError: 400, it is no JSON object.
        """
        raw = await self.request.body()
        try:
            body = json.loads(raw) if raw.strip() else {}
        except ValueError as error:
            raise GoogleError(400, "Invalid JSON payload received.") from error
        if not isinstance(body, dict):
            raise GoogleError(400, "Invalid JSON payload received. The root has to be an object.")
        return body


def no_such_method(call: Call) -> GoogleError:
    """Return the error for a method that the sandbox does not serve."""
    path = "/".join(call.path)
    return GoogleError(404, f"The sandbox does not serve {call.method} /{path} of {call.service}.googleapis.com.")


def page(items: list[Any], query: dict[str, str], size_key: str = "pageSize") -> tuple[list[Any], str | None]:
    """Return one page of a list, and the token of the next: the place where it begins."""
    try:
        size = int(query.get(size_key) or 0) or 1000
        start = int(query.get("pageToken") or 0)
    except ValueError as error:
        raise GoogleError(400, "Invalid page token or page size.") from error
    following = start + max(1, size)
    return items[start:following], str(following) if following < len(items) else None
