"""The logs of all replicas of a job: each is followed into the spool until its container has ended.

One thread reads them all, a connection each; what is held of a log is a piece of some kilobytes, however long it is
and however many there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import threading
import time
from typing import TYPE_CHECKING

import httpx

from encamp.cloud.pod_logs import LogUnavailableError, PodLogs
from encamp.errors import EncampError
from encamp.run.logs.log_times import GATHER_SECONDS, TIMES, LogTimes
from encamp.run.logs.replicas import CONTAINER, Replica, read_replica
from encamp.run.logs.shown import ShownLines
from encamp.run.logs.spool import ReplicaLog, unwritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from encamp.cloud.kubernetes import Cluster

_RETRY_SECONDS = 1.0
_CLOSE_SECONDS = 0.5
_STOP_SECONDS = 10.0
_NO_LOG = "the API server has no log"
#: Number of retries for an unreadable log of an ended pod.
_ATTEMPTS_AT_END = 5
#: Number of pods that are looked at in parallel.
_LOOKS = 16
#: Files and connections of the process beside the streams.
_OTHER_FILES = 256


class LogStreams:
    """The logs of all replicas of a job.

    Args:
        folder: of the spool.
        show: gets a replica's name and a line of its log; whoever is slow to read gets fewer, see ``shown``.
        follow: read until the containers end, not only what there is now.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        folder: Path,
        show: Callable[[str, str], None],
        *,
        follow: bool = True,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._follows = follow
        self.folder = folder
        self._shown = ShownLines(show)
        self._times = LogTimes(folder)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pods: PodLogs
        self._looks = asyncio.Semaphore(_LOOKS)
        self._stopped = False
        self._streams: dict[str, _Stream] = {}
        self._order: dict[str, _Stream] = {}
        self._came = 0
        self.logs: dict[str, ReplicaLog] = {}

    def follow(self, replicas: Iterable[Replica]) -> None:
        """Start the stream of every replica that has started and has none yet."""
        for replica in replicas:
            if not replica.started or replica.uid in self._streams or self._stopped:
                continue
            loop = self._running()
            # A restarted replica's stream waits for that of the pod before it.
            stream = _Stream(replica, self.log(replica.name), self._order.get(replica.name))
            self._streams[replica.uid] = self._order[replica.name] = stream
            _make_room(len(self._streams))
            loop.call_soon_threadsafe(self._start, stream)

    def log(self, replica: str) -> ReplicaLog:
        """Return the spool of a replica."""
        if replica not in self.logs:
            self.logs[replica] = ReplicaLog(self.folder, replica, self._shown.put, self._times.grown)
            self.logs[replica].note_seconds = not self._follows
        return self.logs[replica]

    def times(self) -> Path:
        """Return the file that tells when the logs' text came, up to now; it may not be there."""
        self._times.flush()
        return self.folder / TIMES

    def over(self, replica: str) -> bool:
        """Whether nothing of a replica's log is being read any more, be it whole or not."""
        stream = self._order.get(replica)
        return stream is None or stream.done.is_set()

    def reading(self) -> list[str]:
        """Return the names of the replicas whose log has not come to its end."""
        return [stream.replica.name for stream in list(self._streams.values()) if not stream.done.is_set()]

    def drain(self, seconds: float, longest: float | None = None) -> None:
        """Wait until every stream has come to its end, and stop those that have not.

        They are stopped after ``seconds``; where ``longest`` is given, only when nothing has come for ``seconds``, or
        after ``longest``.
        """
        begun = quiet = time.monotonic()
        came = self._came
        for stream in list(self._streams.values()):
            while not stream.done.wait(0.05):
                now = time.monotonic()
                if longest is not None and self._came != came:
                    came, quiet = self._came, now
                if now - quiet >= seconds or (longest is not None and now - begun >= longest):
                    break
            else:
                continue
            break
        self._stop()
        self._times.flush()
        self._shown.flush()

    def close(self) -> None:
        """Stop all streams and close the spool; what a stream still waits for is not taken any more."""
        self.drain(_CLOSE_SECONDS)
        self._shown.close()
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_SECONDS)
        for log in self.logs.values():
            log.close()
        self._times.flush()

    def _running(self) -> asyncio.AbstractEventLoop:
        """Return the event loop, in its thread."""
        if self._loop is None:
            self._pods = self._cluster.logs()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name="log streams", daemon=True)
            self._thread.start()
        return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.call_soon(self._note, loop)
        try:
            loop.run_forever()
            loop.run_until_complete(self._pods.close())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()

    def _note(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write down when what came did, again and again."""
        self._times.flush(paced=True)
        loop.call_later(GATHER_SECONDS, self._note, loop)

    def _start(self, stream: _Stream) -> None:
        stream.task = asyncio.get_running_loop().create_task(self._pump(stream))
        stream.task.add_done_callback(stream.finish)

    def _stop(self) -> None:
        """Stop every stream and wait until each has noted where it stands."""
        self._stopped = True
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        for stream in self._streams.values():
            if not stream.done.is_set():
                self._loop.call_soon_threadsafe(_cancel, stream)
        deadline = time.monotonic() + _STOP_SECONDS
        for stream in self._streams.values():
            stream.done.wait(max(0.0, deadline - time.monotonic()))

    async def _pump(self, stream: _Stream) -> None:
        log = stream.log
        try:
            if stream.before is not None:
                await stream.before.over.wait()
            await (self._follow if self._follows else self._take)(stream.replica, log)
        except asyncio.CancelledError:
            log.end(None, complete=False, reason="its end had not come when the logs were sealed")
        except Exception as error:
            log.end(None, complete=False, reason=f"encamp itself failed to read it ({type(error).__name__})")
            raise

    async def _follow(self, replica: Replica, log: ReplicaLog) -> None:
        misses = 0
        ended_well = False
        while True:
            trouble = await self._read(replica, log, follow=True)
            if trouble is None:
                return
            ended_well = not trouble or (ended_well and trouble.startswith(_NO_LOG))
            now = await self._look(replica)
            if now is None:
                # The end of the stream is the end of the log, unless the connection broke before.
                log.end(None, complete=ended_well, reason="" if ended_well else f"the pod is gone; {trouble}")
                return
            if now.exit_code is not None or now.phase in {"Succeeded", "Failed"}:
                # Once a stream has ended by itself there is no more, whatever became of the pod's node since.
                trouble = "" if ended_well else await self._read(replica, log, follow=False)
                misses += bool(trouble)
                if not trouble or misses >= _ATTEMPTS_AT_END:
                    log.end(now, complete=not trouble, reason=trouble or "")
                    return
            await asyncio.sleep(_RETRY_SECONDS)

    async def _take(self, replica: Replica, log: ReplicaLog) -> None:
        """Read what there is now; of a replica that has ended that is all."""
        for _ in range(_ATTEMPTS_AT_END):
            trouble = await self._read(replica, log, follow=False)
            if not trouble:
                break
            await asyncio.sleep(_RETRY_SECONDS)
        if trouble is not None:
            whole = not trouble and replica.exit_code is not None
            log.end(replica, complete=whole, reason=trouble or "the replica still runs")

    async def _read(self, replica: Replica, log: ReplicaLog, *, follow: bool) -> str | None:
        """Read what there is; returns why it may be short of something, empty when nothing is missing.

        None if the log was whole before.
        """
        try:
            if not log.begin(replica):
                return None
            since = log.reconnect()
            read = self._pods.read(self._namespace, replica.pod, CONTAINER, follow=follow, since=since)
            async with contextlib.aclosing(read) as pieces:
                async for piece in pieces:
                    self._came += 1
                    log.feed(piece)
        except LogUnavailableError as error:
            return f"{_NO_LOG} ({error})"
        except (httpx.HTTPError, EncampError, RuntimeError) as error:
            return f"the connection broke ({type(error).__name__})"
        except OSError as error:
            return unwritten(error)
        return ""

    async def _look(self, replica: Replica) -> Replica | None:
        """Return the pod as it is now; None if it is gone."""
        try:
            async with self._looks:
                pod = await self._pods.pod(self._namespace, replica.pod)
        except EncampError:
            return replica
        if pod is None or pod["metadata"]["uid"] != replica.uid:
            return None
        return read_replica(pod)


class _Stream:
    """One pod's log while it is read: ``over`` within the event loop, ``done`` for other threads."""

    def __init__(self, replica: Replica, log: ReplicaLog, before: _Stream | None) -> None:
        self.replica = replica
        self.log = log
        self.before = before
        self.over = asyncio.Event()
        self.done = threading.Event()
        self.task: asyncio.Task[None] | None = None

    def finish(self, _: asyncio.Task[None]) -> None:
        """Notify everybody, also if it was stopped before it had begun."""
        self.over.set()
        self.done.set()


def _cancel(stream: _Stream) -> None:
    if stream.task is not None:
        stream.task.cancel()


def _make_room(streams: int) -> None:
    """Raise the process' limit of open files for a connection to each stream, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * streams + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
