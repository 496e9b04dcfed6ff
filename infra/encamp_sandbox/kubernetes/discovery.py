"""REST paths of kinds, from the API server's discovery documents; kept per session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.kubernetes.client import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubernetes.client import Client

NOT_FOUND: Final = 404
DEFAULT_NAMESPACE: Final = "default"


class NoMatchError(ApiError):
    """The API server knows no such kind; for a custom resource its definition is missing."""

    def __init__(self, api_version: str, kind: str) -> None:
        message = f'no matches for kind "{kind}" in version "{api_version}"'
        super().__init__(NOT_FOUND, "NoMatch", message, {})


@dataclass(frozen=True)
class Mapped:
    """The REST location of a kind: ``prefix`` such as ``/apis/batch/v1``, ``plural`` such as ``jobs``."""

    prefix: str
    plural: str
    namespaced: bool

    def collection(self, namespace: str | None) -> str:
        """Return the path to create in."""
        if not self.namespaced:
            return f"{self.prefix}/{self.plural}"
        return f"{self.prefix}/namespaces/{namespace or DEFAULT_NAMESPACE}/{self.plural}"

    def item(self, namespace: str | None, name: str) -> str:
        """Return the path of one object."""
        return f"{self.collection(namespace)}/{name}"


class Discovery:
    """Looks kinds up; a group's list is asked for once, and again while the kind is not in it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, Mapped]] = {}
        self._asking = asyncio.Lock()

    async def find(self, api_version: str, kind: str) -> Mapped:
        """Find a kind.

        Raises:
            NoMatchError: the server does not serve it.
            UnreachableError: the server does not answer.
        """
        if found := self._known.get(api_version, {}).get(kind):
            return found
        async with self._asking:
            if kind not in self._known.get(api_version, {}):
                self._known[api_version] = await self._ask(api_version)
        if found := self._known[api_version].get(kind):
            return found
        raise NoMatchError(api_version, kind)

    def forget(self) -> None:
        """Ask again: a definition was created or deleted."""
        self._known.clear()

    async def _ask(self, api_version: str) -> dict[str, Mapped]:
        prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            document: Mapping[str, Any] = await self._client.get(prefix)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return {}
            raise
        return {
            entry["kind"]: Mapped(prefix, entry["name"], bool(entry["namespaced"]))
            for entry in document.get("resources") or []
            if "/" not in entry["name"]
        }
