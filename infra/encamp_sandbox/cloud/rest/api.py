"""One API of Google: its versions, its collections, and its other methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from encamp_sandbox.cloud.calls import no_such_method
from encamp_sandbox.cloud.faults import Asked
from encamp_sandbox.cloud.rest.routes import Ask, Router

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp_sandbox.cloud.calls import Call
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.faults import FaultError
    from encamp_sandbox.cloud.rest.collection import Collection
    from encamp_sandbox.cloud.rest.routes import Route


class Api:
    """Answers the calls of one service.

    Args:
        name: host name without ``.googleapis.com``.
        versions: what stands before the paths, such as ``v1`` or ``compute/beta``.
        collections: declared collections.
        methods: what it answers beside them; they come first.
    """

    def __init__(
        self,
        cloud: Cloud,
        name: str,
        versions: tuple[str, ...],
        collections: Iterable[Collection] = (),
        methods: Iterable[Route] = (),
    ) -> None:
        self._cloud = cloud
        self.name = name
        self.collections = tuple(collections)
        self._versions = [tuple(version.split("/")) for version in versions]
        self._router = Router([*methods, *(route for one in self.collections for route in one.routes())])

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        found = self._found(call)
        if found is None:
            raise no_such_method(call)
        route, ask = found
        answer = await route.handler(ask)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    async def asked(self, call: Call) -> Asked | None:
        """Return the operation that a call requests, in the words of faults; None if it is no method."""
        found = self._found(call)
        if found is None:
            return None
        route, ask = found
        name = await route.named(ask) if route.named is not None else None
        return Asked(f"{self.name}:{route.plural}", route.operation, name or ask.name, call.agent)

    def failed(self, asked: Asked, error: FaultError) -> Response | None:
        """Return None: every fault refuses at once."""
        del asked, error
        return None

    def _found(self, call: Call) -> tuple[Route, Ask] | None:
        plain = call.plain
        for version in self._versions:
            if plain[: len(version)] != version:
                continue
            path = list(plain[len(version) :])
            found = self._router.find(call.method, call.verb, path)
            if found is not None:
                route, variables = found
                if "project" in variables:
                    variables["project"] = path[1] = self._cloud.project
                return route, Ask(call, self._cloud, variables, "/".join(path))
        return None
