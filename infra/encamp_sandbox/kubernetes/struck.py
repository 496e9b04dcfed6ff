"""A session whose operations the sandbox's cloud may strike with its faults, which lie in another process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.faults import Asked, FaultKind, Strike
from encamp_sandbox.cloud.striking import perform
from encamp_sandbox.kubernetes.objects import identity
from encamp_sandbox.kubernetes.session import KubernetesSession
from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from encamp_sandbox.cloud.striking import FaultSource
    from encamp_sandbox.kubernetes.kubeconfig import ClusterAccess
    from encamp_sandbox.kubernetes.session import SessionOptions
    from encamp_sandbox.layout import Layout
    from encamp_sandbox.provider import CreateResult, Properties, ReadResult, Resource, ResourceState

_LOOK_SECONDS = 0.05
_SECONDS = 5.0


class FrontFaults:
    """The cloud's faults, asked over its front. While that does not answer nothing strikes, and nothing is let go."""

    def __init__(self, layout: Layout) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{layout.ports.front}/encamp/v1",
            headers={"authorization": f"Bearer {layout.token}"},
            timeout=_SECONDS,
            trust_env=False,
        )

    async def close(self) -> None:
        """Drop the connections to the front."""
        await self._client.aclose()

    async def strike(self, asked: Asked) -> Strike | None:
        """Return the fault that strikes an operation now, None if all goes well."""
        body = {"type": asked.type, "operation": asked.operation, "name": asked.name}
        try:
            answer = await self._client.post("/strikes", json=body)
        except httpx.HTTPError:
            return None
        found = answer.json() if answer.is_success else {}
        return Strike(FaultKind(found["kind"]), found["fault"]) if found else None

    async def released(self, number: int) -> None:
        """Return when a fault is deleted."""
        while True:
            try:
                if (await self._client.get(f"/faults/{number}")).status_code == httpx.codes.NOT_FOUND:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(_LOOK_SECONDS)


class StruckSession(KubernetesSession):
    """One engine connection; what it creates, reads, updates and deletes may be struck."""

    def __init__(self, access: ClusterAccess | ProviderError, options: SessionOptions, faults: FaultSource) -> None:
        super().__init__(access, options)
        self._faults = faults

    async def create(
        self, resource: Resource, inputs: Properties, *, time_limit: float | None, preview: bool
    ) -> CreateResult:
        """Create; a preview is never struck."""

        async def work() -> CreateResult:
            return await super(StruckSession, self).create(resource, inputs, time_limit=time_limit, preview=preview)

        return await work() if preview else await self._struck(resource, "create", identity(inputs), work)

    async def read(self, resource: Resource, state: ResourceState) -> ReadResult | None:
        """Read."""

        async def work() -> ReadResult | None:
            return await super(StruckSession, self).read(resource, state)

        return await self._struck(resource, "read", state.resource_id, work)

    async def update(
        self,
        resource: Resource,
        state: ResourceState,
        news: Properties,
        *,
        time_limit: float | None,
        preview: bool,
        ignore_changes: Sequence[str],
    ) -> Properties:
        """Update; a preview is never struck."""

        async def work() -> Properties:
            return await super(StruckSession, self).update(
                resource, state, news, time_limit=time_limit, preview=preview, ignore_changes=ignore_changes
            )

        return await work() if preview else await self._struck(resource, "update", state.resource_id, work)

    async def delete(self, resource: Resource, state: ResourceState, *, time_limit: float | None) -> None:
        """Delete."""

        async def work() -> None:
            await super(StruckSession, self).delete(resource, state, time_limit=time_limit)

        await self._struck(resource, "delete", state.resource_id, work)

    async def _struck(self, resource: Resource, operation: str, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await perform(self._faults, Asked(resource.token, operation, name), work, hang=self.cancelled.wait)
        except GoogleError as error:
            raise ProviderError(str(error), where=name or resource.token) from error
