"""Waits: until an object is ready, until it is gone. They read it again and again, from every 0.1 s to every second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.kubernetes import conditions
from encamp_sandbox.kubernetes.client import ApiError
from encamp_sandbox.kubernetes.conditions import Readiness
from encamp_sandbox.kubernetes.discovery import NOT_FOUND
from encamp_sandbox.kubernetes.objects import SKIP_AWAIT, TIMEOUT, WAIT_FOR, annotation, identity, name_of, namespace_of
from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from encamp_sandbox.kubernetes.client import Client
    from encamp_sandbox.kubernetes.conditions import Check

DEFAULT_SECONDS: Final = 600.0
FIRST_PAUSE, LONGEST_PAUSE, GROWTH = 0.1, 1.0, 1.3


class CancelledWaitError(ProviderError):
    """The engine cancelled the run."""


def seconds(time_limit: float | None, inputs: Mapping[str, Any]) -> float:
    """Return the seconds to wait: ``customTimeouts``, else ``pulumi.com/timeoutSeconds``, else ten minutes."""
    if time_limit:
        return time_limit
    try:
        return float(annotation(inputs, TIMEOUT) or DEFAULT_SECONDS)
    except ValueError as error:
        raise ProviderError(f"{TIMEOUT} is no number", where=identity(inputs)) from error


def chosen_check(inputs: Mapping[str, Any]) -> Check | None:
    """Return the condition to wait for after a create or an update, None for nothing.

    Raises:
        ProviderError: ``pulumi.com/waitFor`` is malformed.
    """
    wanted = annotation(inputs, WAIT_FOR)
    check = conditions.wait_for(wanted) if wanted else conditions.default_check(inputs)
    return None if annotation(inputs, SKIP_AWAIT) == "true" else check


class Waiter:
    """Waits for one object; ``cancelled`` ends every wait."""

    def __init__(self, client: Client, path: str, cancelled: asyncio.Event) -> None:
        self._client = client
        self._path = path
        self._cancelled = cancelled

    async def ready(self, check: Check, limit: float) -> tuple[Mapping[str, Any], Readiness]:
        """Wait until ``check`` is content, fails for good, or ``limit`` seconds are over; also after a cancel."""
        live: Mapping[str, Any] = {}
        found = Readiness(ready=False)

        async def settled() -> bool:
            nonlocal live, found
            live = await self._client.get(self._path)
            found = check(live)
            if found.ready and live.get("kind") == "Service":
                found = await self._endpoints(live)
            return found.ready or found.failed

        try:
            if not await self._until(settled, limit):
                found = Readiness(ready=False, reason=f"timed out after {limit:.0f} s: {found.reason}")
        except CancelledWaitError as error:
            found = Readiness(ready=False, reason=f"{error.what}: {found.reason}")
        return live, found

    async def gone(self, uid: str, limit: float) -> None:
        """Wait until the object, or that generation of it, does not exist.

        Raises:
            ProviderError: it still does; the text names its finalizers.
        """
        live: Mapping[str, Any] = {}

        async def missing() -> bool:
            nonlocal live
            try:
                live = await self._client.get(self._path)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return True
                raise
            return live["metadata"]["uid"] != uid

        if not await self._until(missing, limit):
            finalizers = ", ".join(live["metadata"].get("finalizers") or [])
            held = f"; it is held by the finalizers {finalizers}" if finalizers else ""
            raise ProviderError(
                f"timed out waiting for its deletion, it still exists after {limit:.0f} s{held}", where=identity(live)
            )

    async def _endpoints(self, service: Mapping[str, Any]) -> Readiness:
        spec = service.get("spec") or {}
        if not spec.get("selector") or spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
            return conditions.READY
        slices = await self._client.get(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace_of(service)}/endpointslices",
            {"labelSelector": f"kubernetes.io/service-name={name_of(service)}"},
        )
        if any(item.get("endpoints") for item in slices["items"]):
            return conditions.READY
        return Readiness(ready=False, reason="no pod matches the service's selector")

    async def _until(self, done: Callable[[], Awaitable[bool]], limit: float) -> bool:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + limit, FIRST_PAUSE
        while not await done():
            if loop.time() >= end:
                return False
            try:
                async with asyncio.timeout(min(pause, max(end - loop.time(), 0.01))):
                    await self._cancelled.wait()
            except TimeoutError:
                pause = min(pause * GROWTH, LONGEST_PAUSE)
                continue
            raise CancelledWaitError("the run was cancelled while waiting")
        return True
