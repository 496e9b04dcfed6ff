"""Keeps a lease while its driver works, whatever the driver's main thread waits for."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from encamp.run.periodic import Periodic
from encamp.run.store.records import LEASE_SECONDS, Lease, RecordError, Records

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class LeaseKeeper(Periodic):
    """Renews a lease every third of its time, and lets go of it at the end of the context.

    Args:
        lost: called once if another driver has taken the job.
    """

    def __init__(self, records: Records, lease: Lease, lost: Callable[[], None]) -> None:
        super().__init__("lease", LEASE_SECONDS / 3)
        self._records = records
        self._lease = lease
        self._lost = lost

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        try:
            self._records.release(self._lease)
        except RecordError as error:
            # It runs out by itself.
            _LOG.warning("the lease could not be given back: %s", error.what)

    def step(self) -> bool:
        """Renew the lease; False when it is another driver's."""
        try:
            if not self._records.renew(self._lease):
                self._lost()
                return False
        except RecordError as error:
            _LOG.warning("the lease could not be renewed: %s", error.what)
        return True
