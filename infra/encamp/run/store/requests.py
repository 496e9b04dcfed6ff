"""Requests to a driver through the record: to cancel its job, or to let go of it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from encamp.run.periodic import Periodic
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.run.store.records import CancelRequest, Lease, Records

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 1.0


class RequestWatch(Periodic):
    """Looks into the record once a second, whatever the driver's main thread waits for.

    Args:
        cancel: called once, with the request, when somebody wants the job cancelled.
        lost: called once when another driver has taken the job; a driver that was stopped for a while learns of it so.
    """

    def __init__(
        self,
        records: Records,
        lease: Lease,
        *,
        cancel: Callable[[CancelRequest], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__("requests", _POLL_SECONDS)
        self._records = records
        self._lease = lease
        self._cancel = cancel
        self._lost = lost
        self._told = False

    def step(self) -> bool:
        """Look once; False when the job is another driver's."""
        try:
            if not self._records.holds(self._lease):
                self._lost()
                return False
            request = None if self._told else self._records.cancel_requested(self._lease.job_id)
        except RecordError as error:
            _LOG.warning("the record cannot be read: %s", error.what)
            return True
        if request is not None:
            self._told = True
            self._cancel(request)
        return True
