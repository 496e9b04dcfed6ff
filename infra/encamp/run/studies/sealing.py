"""Storing of ended trials' logs while others run, so that they survive the driver.

What is stored so far is told by a list of its own, since a job's manifest tells that all of the job's logs are there.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from encamp.run.logs.manifest import PARTIAL
from encamp.run.logs.seal import seal_logs, stored_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from encamp.cloud.storage import Storage
    from encamp.run.logs.seal import Stored
    from encamp.run.logs.spool import ReplicaLog


class TrialSeals:
    """The sealed logs of one job's trials.

    Args:
        prefix: ``jobs/<jobId>/`` of ``bucket``.
        log_of: the spool of a replica.
    """

    def __init__(self, storage: Storage, bucket: str, prefix: str, log_of: Callable[[str], ReplicaLog]) -> None:
        self._storage = storage
        self._bucket = bucket
        self._prefix = prefix
        self._log_of = log_of
        self._lock = threading.Lock()
        self._stored: Stored | None = None

    def seal(self, replicas: Sequence[str]) -> None:
        """Store the logs of replicas that have ended; what cannot be stored is, or is said to be not, at the end."""
        with self._lock:
            stored = self._stored or stored_logs(self._storage, self._bucket, self._prefix)
            beside = [entry for name, entry in stored.entries.items() if name not in replicas]
            seal = seal_logs(
                self._storage,
                self._bucket,
                self._prefix,
                replicas,
                self._log_of,
                before=stored,
                beside=beside,
                manifest=PARTIAL,
            )
            entries = {entry["replica"]: entry for entry in seal.manifest["replicas"]}
            self._stored = replace(
                stored, entries=entries, sizes={name: one["size"] for name, one in entries.items() if one["object"]}
            )
