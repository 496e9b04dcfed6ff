"""Reads and seals a job's logs as its driver does, in a process of its own that can be measured.

Reads JSON from stdin: ``kubeconfig``, ``environ`` and ``headers`` (of the storage), ``folder``, ``bucket`` and
``prefix``. Writes JSON: seconds of reading and of sealing, memory (RSS) before and at its peak in KiB, the most threads
at once, and the sealed replicas with what they lack.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path

import requests

from encamp.cloud.kubernetes import Cluster
from encamp.cloud.rest import GoogleClient
from encamp.cloud.storage import Storage
from encamp.run.logs.replicas import read_replica
from encamp.run.logs.seal import seal_logs
from encamp.run.logs.stream import LogStreams

_LONGEST_SECONDS = 1800.0


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Do it once."""
    given = json.load(sys.stdin)
    most = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            most[0] = max(most[0], threading.active_count())

    with requests.Session() as session:
        session.trust_env = False
        session.headers.update(given.get("headers", {}))
        storage = Storage(GoogleClient(session, environ=given["environ"]))
        storage.bucket(given["bucket"])
        cluster = Cluster(given["kubeconfig"])
        replicas = [one for one in map(read_replica, cluster.list("pods", "n")) if one is not None]
        streams = LogStreams(cluster, "n", Path(given["folder"]), lambda *_: None)
        before = _peak()
        threading.Thread(target=watch, daemon=True).start()
        begun = time.perf_counter()
        streams.follow(replicas)
        streams.drain(_LONGEST_SECONDS)
        read = time.perf_counter()
        names = [replica.name for replica in replicas]
        seal = seal_logs(storage, given["bucket"], given["prefix"], names, streams.log)
        sealed = time.perf_counter()
        over.set()
        streams.close()
        cluster.close()
    entries = seal.manifest["replicas"]
    json.dump(
        {
            "reading": read - begun,
            "sealing": sealed - read,
            "before": before,
            "peak": _peak(),
            "threads": most[0] - 1,
            "stored": seal.stored,
            "problems": seal.problems[:10],
            "sizes": {entry["replica"]: entry["size"] for entry in entries},
            "digests": {entry["replica"]: entry["sha256"] for entry in entries},
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
