"""The part of Cloud Logging that gcloud streams a job's logs by: entries:list over the record and the logs.

The lower bound of a stream is the last entry that was seen, so nothing is ever added before an entry that was given
out: lines are in the order in which they came, and a job's end is told after its last line. Who streams looks at the
job now and then, and stops when it has ended; so that the last lines of a job that was quiet are not lost, it is not
told the end before it has read them (see ``unread``).
"""

from __future__ import annotations

import heapq
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from encamp.api.errors import ApiError
from encamp.api.log_entry import key_of, line_entry, service_entries
from encamp.api.log_request import LogRequest, page_token
from encamp.errors import EncampError
from encamp.run.history.log_source import LogsMovedError
from encamp.run.logs.log_lines import last_time, lines
from encamp.run.times import micros, read_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from encamp.api.access import Access, JobGrants
    from encamp.api.caller import Caller
    from encamp.api.index import Index
    from encamp.run.history.log_source import FoundTexts
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records

_PERMISSION: Final = "ml.jobs.get"
#: Number of newest jobs that are looked at for a filter that names no job.
_NEWEST: Final = 20
#: Bytes that are read for one answer, and the largest answer.
_READ_BYTES: Final = 64 * 1024 * 1024
_ANSWER_BYTES: Final = 8 * 1024 * 1024
_OF_AN_ENTRY: Final = 600
_LOOKS, _LOOK_SECONDS = 5, 0.2
_STREAMS_KEPT: Final = 10_000
#: gcloud's longest interval in use is minutes; who asked for nothing for so long streams no more.
_FORGET_SECONDS, _LONGEST_SECONDS = 3600.0, 900.0
_STREAMER: Final = re.compile(
    r"\bgcloud\.(?:\w+\.)?(?:ai-platform|ml-engine)\.jobs\.(?:stream-logs|submit\.training)\b"
)


class LoggedJobs(Protocol):
    """The jobs of the project."""

    def record(self, job_id: str) -> RunRecord | None:
        """Return a job's record, None if there is no such job."""
        ...

    def grants(self, job_id: str) -> JobGrants | None:
        """Return the grants of a job, None if there is no such job."""
        ...

    def newest(self) -> Iterable[str]:
        """Return ids, the newest job's first."""
        ...


class RecordedJobs:
    """The jobs of one environment, as index and record know them."""

    def __init__(self, records: Records, index: Index) -> None:
        self._records = records
        self._index = index

    def record(self, job_id: str) -> RunRecord | None:
        """Return a job's record, None if the environment has no such job."""
        return self._records.record(job_id) if self._index.job(job_id) is not None else None

    def grants(self, job_id: str) -> JobGrants | None:
        """Return the grants of a job, None if there is no such job."""
        self._index.refresh()
        known = self._index.job(job_id)
        return self._index.grants(known) if known is not None else None

    def newest(self) -> Iterator[str]:
        """Return ids, the newest job's first."""
        self._index.refresh()
        return (known.job_id for known in self._index.newest_first())


class Logs(Protocol):
    """A source of jobs' logs."""

    def look(self, record: RunRecord) -> FoundTexts:
        """Return a job's logs as they are now."""
        ...


@dataclass(frozen=True)
class _Stream:
    """A client that streams a job's entries.

    Attributes:
        at: when they asked last.
        to_the_end: whether they had the last entry then.
        kept_back: since when the job's end is kept back from them.
    """

    at: float
    to_the_end: bool
    kept_back: float | None = None


class LogEntries:
    """Answers entries:list.

    Args:
        clock: seconds that only grow.
    """

    def __init__(
        self,
        project: str,
        jobs: LoggedJobs,
        logs: Logs,
        access: Access,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._project = project
        self._jobs = jobs
        self._logs = logs
        self._access = access
        self._clock = clock
        self._lock = threading.Lock()
        self._streams: OrderedDict[tuple[str, str], _Stream] = OrderedDict()

    def list(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Works on disk and network: for worker threads.

        Raises:
            ApiError: INVALID_ARGUMENT for what cannot be read, PERMISSION_DENIED for another project or for a job that
                the caller may not get, UNAVAILABLE where the logs cannot be read now.
        """
        request = LogRequest.of(self._project, body)
        allowed = self._allowed(caller, request)
        for _ in range(_LOOKS):
            try:
                return self._answer(caller, request, allowed)
            except LogsMovedError:
                time.sleep(_LOOK_SECONDS)
            except EncampError as error:
                raise ApiError("UNAVAILABLE", f"The logs cannot be read now: {error.what}.") from error
        raise ApiError("UNAVAILABLE", "The logs are being moved to the bucket; ask again.")

    def unread(self, caller: Caller, job_id: str, user_agent: str) -> bool:
        """Whether a job's ``endTime`` is to be kept back from who asks.

        So it is for gcloud that streams its logs from here and has not had the last entry: it would stop without.
        """
        if not _STREAMER.search(user_agent):
            return False
        now = self._clock()
        with self._lock:
            stream = self._streams.get((caller.email, job_id))
            if stream is None or stream.to_the_end or now - stream.at > _FORGET_SECONDS:
                return False
            since = now if stream.kept_back is None else stream.kept_back
            self._streams[caller.email, job_id] = replace(stream, kept_back=since)
        # If nobody seals its logs, there is no last entry.
        return now - since < _LONGEST_SECONDS

    def _allowed(self, caller: Caller, request: LogRequest) -> Sequence[str]:
        """Return ids of the jobs whose entries the answer may hold."""
        if request.jobs is None:
            found: list[str] = []
            for job_id in self._jobs.newest():
                if _PERMISSION in self._access.permissions(caller, self._jobs.grants(job_id)):
                    found.append(job_id)
                if len(found) == _NEWEST:
                    break
            return found
        for job_id in request.jobs:
            resource = f"projects/{self._project}/jobs/{job_id}"
            self._access.require(caller, _PERMISSION, resource, self._jobs.grants(job_id))
        return request.jobs

    def _answer(self, caller: Caller, request: LogRequest, allowed: Sequence[str]) -> dict[str, Any]:
        ends: dict[str, int | None] = {}
        records = filter(None, map(self._jobs.record, allowed))
        found = [self._entries(record, request, ends) for record in records]
        entries = heapq.merge(*found, key=key_of, reverse=request.newest_first)
        page, following = _page(request, entries)
        if request.jobs is not None and not request.newest_first:
            for job_id, end in ends.items():
                read = end is not None and following is None and request.high >= end
                self._note(caller, job_id, to_the_end=read)
        answer: dict[str, Any] = {"entries": page} if page else {}
        return {**answer, "nextPageToken": following} if following is not None else answer

    def _entries(self, record: RunRecord, request: LogRequest, ends: dict[str, int | None]) -> Iterator[dict[str, Any]]:
        """Return every entry of a job between the times, in order.

        ``ends`` gets the time of its last, None before its end.
        """
        found = self._logs.look(record)
        over = found.whole and record.state.ended
        ended = micros(record.times[record.state]) if over else 0
        last = last_time(found.texts, ended) if over else None
        service = list(service_entries(self._project, record, last))
        ends[record.job_id] = max(last or 0, *(read_micros(entry["timestamp"]) for entry in service)) if over else None
        if request.newest_first:
            service.reverse()
        texts = lines(found.texts, request.low, request.high, ended=ended, newest_first=request.newest_first)
        written = (line_entry(self._project, record.job_id, line) for line in texts)
        return heapq.merge(service, written, key=key_of, reverse=request.newest_first)

    def _note(self, caller: Caller, job_id: str, *, to_the_end: bool) -> None:
        with self._lock:
            before = self._streams.get((caller.email, job_id))
            kept_back = before.kept_back if before is not None else None
            self._streams[caller.email, job_id] = _Stream(self._clock(), to_the_end, kept_back)
            self._streams.move_to_end((caller.email, job_id))
            while len(self._streams) > _STREAMS_KEPT:
                self._streams.popitem(last=False)


def _page(request: LogRequest, entries: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
    """Return the entries of one page, and the token of the next where there may be more."""
    page: list[dict[str, Any]] = []
    answered = read = 0
    key = None
    for entry in entries:
        if key is not None and (len(page) == request.page_size or answered >= _ANSWER_BYTES or read >= _READ_BYTES):
            return page, page_token(key)
        place = key_of(entry)
        if not request.follows(place):
            # Entries of the page before, at the same time as its last.
            continue
        key = place
        size = len(entry.get("textPayload") or "") + _OF_AN_ENTRY
        read += size
        if request.filter.matches(entry):
            page.append(entry)
            answered += size
    return page, None
