"""Keeps a lease while its driver works, whatever the driver's main thread waits for."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from encamp.run.records import LEASE_SECONDS, Lease, RecordError, Records

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews a lease every third of its time, and lets go of it at the end of the context.

    Args:
        lost: called once if another driver has taken the job.
    """

    def __init__(self, records: Records, lease: Lease, lost: Callable[[], None]) -> None:
        self._records = records
        self._lease = lease
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._records.release(self._lease)
        except RecordError as error:
            # It runs out by itself.
            _LOG.warning("the lease could not be given back: %s", error.what)

    def _keep(self) -> None:
        while not self._stop.wait(LEASE_SECONDS / 3):
            try:
                if not self._records.renew(self._lease):
                    self._lost()
                    return
            except RecordError as error:
                _LOG.warning("the lease could not be renewed: %s", error.what)
