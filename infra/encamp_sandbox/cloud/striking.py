"""Doing an operation with the faults that were set for it: held up, refused, or done without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from encamp_sandbox.cloud.faults import FaultKind, fault_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from encamp_sandbox.cloud.faults import Asked, Strike

_AFTERWARDS = (FaultKind.LOST_ANSWER, FaultKind.HANG, FaultKind.PAUSE_AFTER)
_Done = TypeVar("_Done")


class FaultSource(Protocol):
    """A source of faults: the cloud's own, or the cloud over its front."""

    async def strike(self, asked: Asked) -> Strike | None:
        """Return the fault that strikes an operation now, None if all goes well."""
        ...

    async def released(self, number: int) -> None:
        """Return when a fault is deleted."""
        ...


async def perform(
    source: FaultSource,
    asked: Asked,
    work: Callable[[], Awaitable[_Done]],
    *,
    hang: Callable[[], Awaitable[object]],
) -> _Done:
    """Do ``work``, struck by what was set for it; ``hang`` returns when nobody waits for an answer any more.

    Raises:
        GoogleError: a fault says so.
    """
    strike = await source.strike(asked)
    if strike is None:
        return await work()
    if strike.kind is FaultKind.PAUSE:
        await source.released(strike.fault)
    elif strike.kind not in _AFTERWARDS:
        raise fault_error(strike.kind)
    done = await work()
    if strike.kind is FaultKind.PAUSE_AFTER:
        await source.released(strike.fault)
    elif strike.kind is not FaultKind.PAUSE:
        if strike.kind is FaultKind.HANG:
            await hang()
        raise fault_error(FaultKind.LOST_ANSWER)
    return done
