"""The logs of a running job as its cluster gives them, for machines without its driver's files.

They are read into a folder as the driver reads them into its spool, so the text is the same. What a dead driver left
here is the beginning; nothing of it is changed.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from encamp.cloud.leftovers import JOB_LABEL
from encamp.run.logs.replicas import Replica, read_replica
from encamp.run.logs.stream import LogStreams
from encamp.run.times import read_micros
from encamp.spec.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from encamp.cloud.kubernetes import Cluster
    from encamp.run.history.log_view import Stamps

_SNAPSHOT_SECONDS, _SILENT_SECONDS = 3600.0, 60.0


class LiveJob:
    """The pods of one job.

    Args:
        name: the job's cloud name.
        spool: what a driver left on this machine, which need not be there; None for what the cluster has alone.
    """

    def __init__(self, cluster: Cluster, namespace: str, name: str, spool: Path | None = None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._spool = spool

    def replicas(self) -> list[Replica]:
        """Return its pods by age, none once it is gone.

        Raises:
            EngineError: the API server gives no answer.
        """
        pods = self._cluster.list("pods", self._namespace, f"{JOB_LABEL}={self._name}")
        pods.sort(key=lambda pod: pod["metadata"].get("creationTimestamp") or "")
        return [replica for replica in map(read_replica, pods) if replica is not None]

    @contextmanager
    def streams(self, *, follow: bool, show: Callable[[str, str], None] = lambda *_: None) -> Iterator[LogStreams]:
        """Yield streams into a temporary folder of their own; ``show`` gets a replica's name and each line."""
        with TemporaryDirectory(prefix="encamp-logs-") as name:
            folder = Path(name) / "logs"
            if self._spool is not None:
                with suppress(FileNotFoundError):
                    shutil.copytree(self._spool, folder)
            streams = LogStreams(self._cluster, self._namespace, folder, show, follow=follow)
            try:
                yield streams
            finally:
                streams.close()

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Path, dict[str, Stamps]]]:
        """Yield the present logs: their folder, and Kubernetes' times of their text by replica."""
        with self.streams(follow=False) as streams:
            replicas = self.replicas()
            streams.follow(replicas)
            streams.drain(_SILENT_SECONDS, _SNAPSHOT_SECONDS)
            names = dict.fromkeys(replica.name for replica in sorted(replicas, key=_place))
            yield streams.folder, {name: _stamps(streams.log(name).seconds) for name in names}


def _stamps(seconds: Sequence[tuple[int, str]]) -> Stamps:
    """Return Kubernetes' times in microseconds; what has none is left out."""
    found: Stamps = []
    for end, second in seconds:
        with suppress(ValueError):
            found.append((end, read_micros(f"{second}+00:00")))
    return found


def _place(replica: Replica) -> tuple[int, bool, str, int]:
    """Return the master comes first, as in a job's record, and trials by their numbers."""
    return replica.trial or 0, replica.role != Role.MASTER, replica.role, replica.index
