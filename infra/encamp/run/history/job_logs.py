"""A job's logs, wherever they are at that moment, and while they grow.

Once a job has ended they are in the bucket. Before that they are in its driver's files if it is of this machine, else
the cluster gives them; a job whose driver keeps a record of its own is found by its name there.
"""

from __future__ import annotations

import itertools
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from encamp.errors import EncampError, UsageError
from encamp.plan.names import former_name, short_name
from encamp.run.history.following import waits
from encamp.run.history.live import LiveJob
from encamp.run.history.log_view import LogView, merged, reader
from encamp.run.history.sealed import FoundLog, chosen, find_logs, read_log, replica_names, spooled_logs
from encamp.run.logs.log_times import TIMES, Frames
from encamp.run.logs.manifest import MANIFEST
from encamp.run.logs.tails import Tails
from encamp.run.times import micros
from encamp.spec.job_id import is_job_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from encamp.cloud.storage import Storage
    from encamp.run.history.catalogue import Catalogue, KnownJob
    from encamp.run.history.context import Context
    from encamp.run.history.log_view import Stamps
    from encamp.run.logs.stream import LogStreams
    from encamp.run.store.records import Records

_LOOK_SECONDS = 0.5
#: At every such look the job itself is looked at too.
_LOOKS = 6
_DRAIN_SECONDS = 5.0


class JobLogs:
    """The logs of one job.

    Args:
        environment: name of its environment's stack; ``project`` is that environment's.
    """

    def __init__(
        self,
        job_id: str,
        catalogue: Catalogue,
        records: Records,
        storage: Storage,
        context: Context,
        *,
        environment: str,
        project: str,
    ) -> None:
        self._job = job_id
        self._catalogue = catalogue
        self._records = records
        self._storage = storage
        self._context = context
        self._environment = environment
        self._project = project

    @contextmanager
    def now(self) -> Iterator[list[FoundLog]]:
        """Yield all logs that exist at this moment.

        Raises:
            UsageError: the job is unknown, or its logs are elsewhere; says where they may be.
            RestError: the bucket cannot be read.
        """
        with self._now() as (found, _, _):
            yield found

    @contextmanager
    def views(self) -> Iterator[list[LogView]]:
        """Yield views of the same logs, with the times of lines; nothing is read before it is asked for.

        Raises:
            UsageError, RestError: as ``now``.
        """
        with self._now() as (found, frames, seconds):
            known, _ = self._known()
            ended = known.ended if known is not None else None
            rest = max(frames.last, micros(ended or datetime.now(UTC)))
            yield [
                LogView(
                    log,
                    *reader(log, self._storage),
                    merged(frames.stamps(log.replica), seconds.get(log.replica, [])),
                    rest,
                )
                for log in found
            ]

    @contextmanager
    def _now(self) -> Iterator[tuple[list[FoundLog], Frames, Mapping[str, Stamps]]]:
        """Yield the logs, the recorded times of their text, and Kubernetes' times if only the cluster has them."""
        known, unknown = self._known()
        if known is not None:
            _refuse_unbegun(known)
        ended = known is not None and self._ended(known)
        if known is not None and not ended and self._is_driven_here(known):
            yield spooled_logs(self._spool(known), self._names(known)), _frames(self._spool(known)), {}
            return
        if not ended:
            with self._live(known) as live:
                if live is not None:
                    with live.snapshot() as (folder, seconds):
                        names = self._names(known) or tuple(seconds)
                        yield spooled_logs(folder, names), _frames(folder), seconds
                    return
        if known is None:
            raise unknown
        found = find_logs(known, self._storage, self._spool(known))
        frames = _frames(self._spool(known))
        if any(isinstance(log.source, dict) for log in found):
            text = self._storage.read(known.bucket, f"{known.prefix}logs/{TIMES}")
            if text is not None:
                frames = Frames()
                frames.feed(text)
        yield found, frames, {}

    def follow(
        self, replica: str | None, write: Callable[[str, bytes], None], positions: Mapping[str, int] | None = None
    ) -> list[FoundLog]:
        """Pass each replica's lines to ``write`` as they come, or one replica's, until the job has ended.

        ``positions`` are the offsets from which on they are wanted; a log has the same bytes in every place.

        Returns the logs as they are then, with what they lack; none if nobody here can tell.

        Raises:
            UsageError, RestError: as ``now``.
        """
        tails = Tails(write, positions)
        known, unknown = self._known()
        if known is not None:
            _refuse_unbegun(known)
        if known is not None and self._is_driven_here(known):
            known = self._follow_files(known, replica, tails)
        if known is None or not self._ended(known):
            with self._live(known) as live:
                if live is not None:
                    self._follow_pods(live, replica, tails)
                elif known is None:
                    raise unknown
            known, _ = self._known()
        if known is None:
            return []
        found = find_logs(known, self._storage, self._spool(known))
        found = found if replica is None else [chosen(found, replica)]
        for log in found:
            tails.rest(log.replica, read_log(log, self._storage))
        return found

    def _follow_files(self, job: KnownJob, replica: str | None, tails: Tails) -> KnownJob:
        """Follow the files until the job has ended or its driver is gone; return the job as it is then."""
        for look in itertools.count(1):
            tails.look(self._spool(job), _wanted(self._names(job), replica))
            if look % _LOOKS == 0:
                job = self._catalogue.job(self._job)
                if self._ended(job) or not self._is_driven_here(job):
                    break
            time.sleep(_LOOK_SECONDS)
        return job

    def _follow_pods(self, live: LiveJob, replica: str | None, tails: Tails) -> None:
        with live.streams(follow=True) as streams:
            for look in itertools.count():
                over = look % _LOOKS == 0 and self._over(live, streams)
                tails.look(streams.folder, _wanted(streams.logs, replica))
                if over:
                    return
                time.sleep(_LOOK_SECONDS)

    def _over(self, live: LiveJob, streams: LogStreams) -> bool:
        """Start following new replicas, and return whether nothing more is to come."""
        try:
            replicas = live.replicas()
        except EncampError:
            return False
        streams.follow(replicas)
        known, _ = self._known()
        ended = known is not None and self._ended(known)
        # Between two trials there may be no pod.
        tunes = known is not None and known.intent is not None and known.intent.study is not None
        over = ended or (not replicas and not tunes)
        if over:
            streams.drain(_DRAIN_SECONDS)
        return over

    def _known(self) -> tuple[KnownJob | None, UsageError]:
        """Return the job as the catalogue knows it, else why it does not.

        Its driver may be elsewhere with another record.
        """
        try:
            return self._catalogue.job(self._job), UsageError("no such job", where=self._job)
        except UsageError as error:
            return None, error

    def _ended(self, job: KnownJob) -> bool:
        if job.recorded or job.receipt is not None:
            return job.sealed or job.torn_down
        return self._storage.stat(job.bucket, f"{job.prefix}{MANIFEST}") is not None

    def _is_driven_here(self, job: KnownJob) -> bool:
        held = self._records.last_hold(job.job_id) if job.driver is not None else None
        return held is not None and held.host == socket.gethostname()

    def _names(self, job: KnownJob | None) -> tuple[str, ...]:
        return replica_names(job, self._spool(job)) if job is not None else ()

    def _spool(self, job: KnownJob) -> Path:
        return self._context.job_folder(job.name or job.job_id) / "logs"

    @contextmanager
    def _live(self, known: KnownJob | None) -> Iterator[LiveJob | None]:
        """Yield the job's pods; None if the cluster has none of it, or cannot be asked."""
        if not is_job_id(self._job):
            yield None
            return
        names = [known.name] if known is not None and known.name else []
        if not names:
            whose = (self._project, self._environment, self._job)
            names = [short_name(*whose), former_name(*whose)]
        try:
            environment = self._context.environment(self._environment)
            cluster = self._context.cluster(environment)
        except EncampError:
            yield None
            return
        try:
            found = (
                LiveJob(cluster, environment.namespace, name, self._context.job_folder(name) / "logs") for name in names
            )
            yield next(filter(_is_there, found), None)
        finally:
            cluster.close()


def _frames(folder: Path) -> Frames:
    frames = Frames()
    frames.look(folder)
    return frames


def _refuse_unbegun(job: KnownJob) -> None:
    """Refuse a job that was never begun: it has no logs."""
    if job.submitted is None or job.intent is not None:
        return
    if job.waiting:
        hint = f"`encamp logs --follow {job.job_id}` waits for it"
        raise UsageError(f"this job {waits(job.position)}; it has written nothing", where=job.job_id, hint=hint)
    if job.torn_down:
        why = f": {job.message}" if job.message else ""
        raise UsageError(f"this job is {job.state} and never started, so it has no logs{why}", where=job.job_id)


def _is_there(live: LiveJob) -> bool:
    try:
        return bool(live.replicas())
    except EncampError:
        return False


def _wanted(replicas: Iterable[str], replica: str | None) -> list[str]:
    return [name for name in replicas if replica in (None, name)]
