"""Ports of the replicas of one run, which no other run on this machine gets as long as they are held.

A port is ours while we hold its lock *and* it can be bound: the lock keeps other runs away from it until our replicas
listen, or listen again, and binding finds what other programs hold. Ports lie below the range that the system takes
for outgoing connections, so that no client takes one away in between.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Self

from encamp.errors import EngineError, UsageError
from encamp.process.port_lock import lock_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from encamp.process.port_lock import PortLock

#: First port of the old client; used if free.
FIRST_PORT = 27182
_LOWEST, _HIGHEST = 17000, 32000
_LARGEST = 65535
_TRIES = 4000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports:
    """Ports that are ours until ``close``; a context manager.

    Attributes:
        numbers: as many as were asked for, different ones.
    """

    def __init__(self, numbers: Sequence[int], locks: Sequence[PortLock]) -> None:
        self.numbers = tuple(numbers)
        self._locks = locks

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the ports."""
        for lock in self._locks:
            lock.close()


def reserve(count: int, start: int | None = None) -> Ports:
    """Reserve ports.

    Args:
        count: how many.
        start: the first one, the others follow it; None for the old client's where those are free, else any.

    Raises:
        UsageError: one of the ports asked for is taken, or there is no such port.
        EngineError: so many free ports are not to be had.
    """
    if start is not None:
        return _exactly(range(start, start + count))
    lowest, highest = _bounds()
    usual = range(FIRST_PORT, FIRST_PORT + count)
    locks = _all_of(usual) if usual.stop <= highest else None
    return Ports(usual, locks) if locks is not None else _any(count, lowest, highest)


def _exactly(wanted: range) -> Ports:
    if wanted.start < 1 or wanted.stop - 1 > _LARGEST:
        raise UsageError(
            f"{len(wanted)} ports from {wanted.start} on do not lie between 1 and {_LARGEST}",
            where="--start-port",
            hint="leave it out, and free ports are found",
        )
    locks = {port: _take(port) for port in wanted}
    taken = [port for port, lock in locks.items() if lock is None]
    if taken:
        for lock in locks.values():
            if lock is not None:
                lock.close()
        several = len(taken) > 1
        raise UsageError(
            f"port{'s' * several} {', '.join(map(str, taken))} {'are' if several else 'is'} taken",
            where="--start-port",
            hint="leave it out, and free ports are found; `ss -ltnp` shows who listens",
        )
    return Ports(wanted, [lock for lock in locks.values() if lock is not None])


def _any(count: int, lowest: int, highest: int) -> Ports:
    numbers: list[int] = []
    locks: list[PortLock] = []
    generator = random.SystemRandom()
    for _ in range(_TRIES):
        if len(numbers) == count:
            return Ports(numbers, locks)
        port = generator.randrange(lowest, highest)
        lock = _take(port) if port not in numbers else None
        if lock is not None:
            numbers.append(port)
            locks.append(lock)
    for lock in locks:
        lock.close()
    raise EngineError(f"no {count} free ports were found between {lowest} and {highest}", hint="end other programs")


def _bounds() -> tuple[int, int]:
    """Return the range of ports to search: below those of outgoing connections if there are enough."""
    with contextlib.suppress(OSError, ValueError):
        first = int(_RANGE.read_text(encoding="ascii").split()[0])
        if first - _LOWEST > _TRIES:
            return _LOWEST, min(first, _HIGHEST)
    return _LOWEST, _HIGHEST


def _all_of(wanted: Iterable[int]) -> list[PortLock] | None:
    """Return locks of all, or none at all."""
    locks: list[PortLock] = []
    for port in wanted:
        lock = _take(port)
        if lock is None:
            for held in locks:
                held.close()
            return None
        locks.append(lock)
    return locks


def _take(port: int) -> PortLock | None:
    """Return the lock of a port that is free, None if the port or its lock is somebody's."""
    lock = lock_port(port)
    if lock is not None and not _free(port):
        lock.close()
        return None
    return lock


def _free(port: int) -> bool:
    """Whether a server could listen on this port of every address of this machine."""
    families = [(socket.AF_INET, "0.0.0.0")]  # noqa: S104 - that is what TensorFlow's server binds
    if socket.has_ipv6:
        families.append((socket.AF_INET6, "::"))
    return all(_bindable(family, address, port) for family, address in families)


def _bindable(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family is socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
            probe.listen(1)
    except OSError as error:
        # A machine without this kind of address has nobody on it either.
        return error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
    return True
