"""What others want of a driver, as the record says it: that its job be cancelled, or that it let go of it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Self

from encamp.run.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.run.records import CancelRequest, Lease, Records

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 1.0


class RequestWatch:
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
        self._records = records
        self._lease = lease
        self._cancel = cancel
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="requests", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        told = False
        while not self._stop.wait(_POLL_SECONDS):
            try:
                if not self._records.holds(self._lease):
                    self._lost()
                    return
                request = None if told else self._records.cancel_requested(self._lease.job_id)
            except RecordError as error:
                _LOG.warning("the record cannot be read: %s", error.what)
                continue
            if request is not None:
                told = True
                self._cancel(request)
