"""Adoption of jobs that were begun on a command line and whose driver is gone: a driver is started that ends them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from encamp.run.history.detached import DRIVER_LOG, start_adopter

if TYPE_CHECKING:
    from subprocess import Popen

    from encamp.run.history.context import Context
    from encamp.run.store.records import Records

_LOG = logging.getLogger(__name__)


class Adopter:
    """Starts a driver for a job of an environment that nobody drives."""

    def __init__(self, records: Records, context: Context, environment: str) -> None:
        self._records = records
        self._context = context
        self._environment = environment
        self._started: list[Popen[bytes]] = []

    def __call__(self, job_id: str) -> None:
        """See to it that a begun job has a living driver. What fails is in the log: the request stays on record."""
        record = self._records.record(job_id)
        if record is None or self._records.holder_of(job_id) is not None:
            return
        # Asked after, those that have ended leave no zombies.
        self._started = [process for process in self._started if process.poll() is None]
        log = self._context.job_folder(record.name) / DRIVER_LOG
        try:
            self._started.append(start_adopter(job_id, self._environment, log))
        except OSError as error:
            _LOG.warning("no driver could be started for %s: %s", job_id, error.strerror)
