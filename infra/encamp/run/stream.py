"""One log stream a replica: follows its pod's log into the spool until the container has ended."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import httpx

from encamp.cloud.kubernetes import LogUnavailableError
from encamp.errors import EncampError
from encamp.run.replicas import CONTAINER, Replica, read_replica
from encamp.run.spool import ReplicaLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster

_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 0.5
_NO_LOG = "the API server has no log"
#: How often a log that cannot be read of a pod that has ended is asked for again.
_ATTEMPTS_AT_END = 5


class LogStreams:
    """The logs of all replicas of a job.

    Args:
        folder: of the spool.
        show: gets a replica's name and a line of its log.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, show: Callable[[str, str], None]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._folder = folder
        self._show = show
        self._stop = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._order: dict[str, threading.Thread] = {}
        self.logs: dict[str, ReplicaLog] = {}

    def follow(self, replicas: Iterable[Replica]) -> None:
        """Begin the stream of every replica that has started and has none yet."""
        for replica in replicas:
            if not replica.started or replica.uid in self._threads:
                continue
            log = self.log(replica.name)
            # A restarted replica's stream waits for that of the pod before it.
            before = self._order.get(replica.name)
            thread = threading.Thread(target=self._pump, args=(replica, log, before), name=replica.name, daemon=True)
            self._threads[replica.uid] = self._order[replica.name] = thread
            thread.start()

    def log(self, replica: str) -> ReplicaLog:
        """The spool of a replica."""
        if replica not in self.logs:
            self.logs[replica] = ReplicaLog(self._folder, replica, self._show)
        return self.logs[replica]

    def drain(self, seconds: float) -> None:
        """Wait until every stream has come to its end, and stop those that have not after ``seconds``."""
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        self._stop.set()

    def close(self) -> None:
        """Stop all streams and close the spool; what a stream still waits for is not taken any more."""
        self.drain(_CLOSE_SECONDS)
        for log in self.logs.values():
            log.close()

    def _pump(self, replica: Replica, log: ReplicaLog, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        log.begin(replica)
        misses = 0
        ended_well = False
        while not self._stop.is_set():
            trouble = self._read(replica, log, follow=True)
            ended_well = not trouble or (ended_well and trouble.startswith(_NO_LOG))
            now = self._look(replica)
            if now is None:
                # The end of the stream is the end of the log, unless the connection broke before.
                log.end(None, complete=ended_well, reason="" if ended_well else f"the pod is gone; {trouble}")
                return
            if now.exit_code is not None or now.phase in {"Succeeded", "Failed"}:
                # Once a stream has ended by itself there is no more, whatever became of the pod's node since.
                trouble = "" if ended_well else self._read(replica, log, follow=False)
                misses += bool(trouble)
                if not trouble or misses >= _ATTEMPTS_AT_END:
                    log.end(now, complete=not trouble, reason=trouble)
                    return
            self._stop.wait(_RETRY_SECONDS)
        log.end(None, complete=False, reason="its end had not come when the logs were sealed")

    def _read(self, replica: Replica, log: ReplicaLog, *, follow: bool) -> str:
        """Read what there is; returns why it may be short of something, empty when nothing is missing."""
        since = log.reconnect()
        try:
            for data in self._cluster.log(self._namespace, replica.pod, CONTAINER, follow=follow, since=since):
                log.feed(data)
                if self._stop.is_set():
                    return "the reading was stopped"
        except LogUnavailableError as error:
            return f"{_NO_LOG} ({error})"
        except (httpx.HTTPError, EncampError, RuntimeError) as error:
            return f"the connection broke ({type(error).__name__})"
        return ""

    def _look(self, replica: Replica) -> Replica | None:
        """The pod as it is now; None where it is gone."""
        try:
            pod = self._cluster.get("pods", self._namespace, replica.pod)
        except EncampError:
            return replica
        if pod is None or pod["metadata"]["uid"] != replica.uid:
            return None
        return read_replica(pod)
