"""A process group over TCP: the replicas of CLUSTER_SPEC in a ring, and sums over all of them.

Any framework can be started this way: rank, size and the first replica's address are all that
``torch.distributed.init_process_group`` wants, for one.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time

import numpy as np


class Group:
    """This replica among the others. The master has rank 0, worker n has rank n + 1.

    Attributes:
        rank: this replica's number.
        size: how many replicas there are.
    """

    def __init__(self, patience_seconds: float = 300.0) -> None:
        """Join the ring; without CLUSTER_SPEC this process is alone.

        Raises:
            TimeoutError: a neighbour did not come within ``patience_seconds``.
        """
        spec = json.loads(os.environ.get("CLUSTER_SPEC", '{"cluster": {"master": [""]}}'))
        task = spec.get("task", {"type": "master", "index": 0})
        addresses = [*spec["cluster"]["master"], *spec["cluster"].get("worker", [])]
        self.size = len(addresses)
        self.rank = 0 if task["type"] == "master" else int(task["index"]) + 1
        self._next = self._previous = None
        if self.size > 1:
            deadline = time.monotonic() + patience_seconds
            port = int(addresses[self.rank].rpartition(":")[2])
            with socket.create_server(("", port)) as server:
                self._next = _connect(addresses[(self.rank + 1) % self.size], deadline)
                server.settimeout(max(deadline - time.monotonic(), 1))
                self._previous, _ = server.accept()
            for neighbour in (self._next, self._previous):
                neighbour.settimeout(patience_seconds)

    def close(self) -> None:
        """Leave the ring."""
        for neighbour in (self._next, self._previous):
            if neighbour is not None:
                neighbour.close()

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over all replicas of float64 arrays of one shape; the same on each, to the last bit.

        Each replica sends 2 (size - 1) pieces of 1 / size of the array, however many replicas there are.
        """
        if self.size == 1:
            return values
        pieces = np.array_split(values.astype(np.float64).ravel(), self.size)
        for turn in range(self.size - 1):  # afterwards piece rank + 1 is complete here
            there, here = (self.rank - turn) % self.size, (self.rank - turn - 1) % self.size
            pieces[here] = pieces[here] + self._exchange(pieces[there], len(pieces[here]))
        for turn in range(self.size - 1):
            there, here = (self.rank - turn + 1) % self.size, (self.rank - turn) % self.size
            pieces[here] = self._exchange(pieces[there], len(pieces[here]))
        return np.concatenate(pieces).reshape(values.shape)

    def _exchange(self, piece: np.ndarray, count: int) -> np.ndarray:
        """Send to the next replica while the previous one's ``count`` numbers come in."""
        sending = threading.Thread(target=self._next.sendall, args=(piece.tobytes(),))
        sending.start()
        content = bytearray()
        while len(content) < count * 8:
            received = self._previous.recv(count * 8 - len(content))
            if not received:
                raise ConnectionError(f"rank {self.rank}: the replica before this one is gone")
            content += received
        sending.join()
        return np.frombuffer(bytes(content), np.float64)


def _connect(address: str, deadline: float) -> socket.socket:
    """A connection to a replica that may not be up yet, or not even have a name."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=5)
        except OSError as error:  # noqa: PERF203 - trying again is the point
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address} did not come: {error}") from error
            time.sleep(0.2)
