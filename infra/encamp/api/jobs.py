"""The methods of ``projects.jobs``: each does its work at once and is called in whatever thread there is.

Whoever may not see a job learns nothing of it. What a job is, the record alone says: nothing is kept here that a server
which dies would lose.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from encamp.api import paging
from encamp.api.errors import ApiError, wrong_fields
from encamp.api.filters import parse_filter
from encamp.api.planning import already_there
from encamp.api.queue_limits import Queue
from encamp.api.resource import etag, job_resource
from encamp.api.updating import asked_labels
from encamp.duration import seconds_of
from encamp.errors import Problem
from encamp.run.store.records import ChangedError
from encamp.run.store.submissions import Again, AlreadyUsedError, NameUsedError, Submission
from encamp.spec.training import Scheduling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.api.access import Access
    from encamp.api.answering import Answer
    from encamp.api.caller import Caller
    from encamp.api.index import Index, KnownJob
    from encamp.api.planning import Planner, ReadJob
    from encamp.api.project import Project
    from encamp.api.queue_limits import QueueLimits
    from encamp.plan.model import JobPlan
    from encamp.run.store.journal import RunRecord
    from encamp.run.store.records import Records
    from encamp.run.store.submissions import Submissions


@dataclass(frozen=True)
class Call:
    """A request with a known caller.

    Attributes:
        values: what the path names: ``project``, ``job``, ``location``.
        query: parameters by name.
        body: the JSON object of the body, empty without one.
        arrived: when it came, by ``time.monotonic``.
        fresh: whether memory was found to be what the record says since it came.
        user_agent: what program calls.
    """

    caller: Caller
    values: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    arrived: float = field(default_factory=time.monotonic)
    user_agent: str = ""
    fresh: bool = False


class Jobs:
    """The jobs of one environment.

    Args:
        environment: name of its stack.
        wake: tells the dispatcher that there is something to do.
        adopt: sees to it that a job that no dispatcher looks after has a living driver.
        keeps_end: whether a caller (then job and user agent) is not told yet that a job has ended: who reads its
            log to the end would stop before.
        queue: how many jobs may wait.
    """

    def __init__(
        self,
        project: Project,
        environment: str,
        *,
        records: Records,
        submissions: Submissions,
        index: Index,
        planner: Planner,
        access: Access,
        wake: Callable[[], None],
        adopt: Callable[[str], None],
        keeps_end: Callable[[Caller, str, str], bool] = lambda caller, job_id, user_agent: False,  # noqa: ARG005
        queue: QueueLimits | None = None,
    ) -> None:
        self._project = project
        self._environment = environment
        self._records = records
        self._submissions = submissions
        self._index = index
        self._planner = planner
        self._access = access
        self._wake = wake
        self._adopt = adopt
        self._keeps_end = keeps_end
        self._queue = Queue(index, queue)

    def is_current(self) -> bool:
        """Whether memory is as new as the record, so that no query is needed."""
        return self._index.current()

    def checked(self, call: Call) -> tuple[ReadJob, JobPlan | None]:
        """Return the job that a create asks for; without a plan where its id is used. Writes nothing; may take seconds.

        Raises:
            ApiError: it may not be created.
        """
        self.allowed(call, "ml.jobs.create")
        read = self._planner.read(call.body)
        account = read.job.training_input.service_account
        if account is not None:
            self._access.require_act_as(call.caller, account)
        self._index.refresh()
        if self._index.used(read.job_id):
            return read, None
        self._queue.check(call.caller.email)
        return read, self._planner.plan(read)

    def create(self, call: Call, read: ReadJob, plan: JobPlan | None) -> Answer:
        """Create what ``checked`` found.

        Raises:
            ApiError: ALREADY_EXISTS; UNAVAILABLE where another server is about to answer the same create;
                RESOURCE_EXHAUSTED where too many jobs wait.
        """
        scheduling = read.job.training_input.scheduling
        submission = Submission(
            job_id=read.job_id,
            name=read.name,
            environment=self._environment,
            job=read.data,
            by=call.caller.email,
            priority=(scheduling or Scheduling()).or_default("priority"),
            wait_seconds=seconds_of(plan.limits.max_wait_time) if plan is not None else None,
            warnings=plan.warnings if plan is not None else (),
        )
        try:
            # Jobs from before wait already, whatever becomes of this.
            with self._queue.room(submission.by) if plan is not None else contextlib.nullcontext():
                record = self._submissions.submit(submission, arrived=call.arrived)
        except AlreadyUsedError as error:
            return self._again(error)
        except NameUsedError as error:
            wrong = wrong_fields([Problem("job.jobId", None, None, error.what, error.hint)])
            raise ApiError("ALREADY_EXISTS", wrong.message, details=wrong.details) from None
        self._wake()
        return job_resource(record)

    def answered(self, job_id: str, *, told: bool) -> None:
        """Note whether the answer to a create was sent."""
        self._submissions.acknowledge(job_id, told=told)

    def get(self, call: Call) -> Answer:
        """Return the Job."""
        known = self.found(call, "ml.jobs.get")
        text = self._index.text(known, in_memory=call.fresh)
        if known.state.ended and self._keeps_end(call.caller, known.job_id, call.user_agent):
            return {key: value for key, value in json.loads(text).items() if key != "endTime"}
        return text

    def list(self, call: Call) -> Answer:
        """Return one page of jobs, newest first."""
        self.allowed(call, "ml.jobs.list")
        text = call.query.get("filter", "")
        matches = parse_filter(text)
        page = paging.asked(call.query, text)
        if not call.fresh:
            self._index.refresh()
        found: list[bytes] = []
        size = 0
        last: tuple[float, str] | None = None
        until = time.monotonic() + _LONGEST_LOOK_SECONDS
        for job, shown in self._index.shown(self._index.newest_first(page.after), in_memory=call.fresh):
            full = len(found) == page.size or (found and size + len(shown) > LARGEST_PAGE_BYTES)
            if last is not None and (full or time.monotonic() > until):
                return _page(found, paging.token(last, text))
            last = job.place
            if not text or matches(json.loads(shown)):
                found.append(shown)
                size += len(shown)
        return _page(found, None)

    def patch(self, call: Call) -> Answer:
        """Return the Job with other labels."""
        record = self.recorded(call, "ml.jobs.update")
        labels, sent = asked_labels(call.query.get("updateMask"), call.body)
        if sent is not None and sent != etag(record.job_id, record.label_changes):
            raise changed()
        if labels is not None:
            try:
                changes = record.label_changes if sent is not None else None
                self._records.set_labels(record.job_id, labels, changes)
            except ChangedError:
                raise changed() from None
        return self._index.text(self.found(call, "ml.jobs.update"))

    def cancel(self, call: Call) -> Answer:
        """Request cancellation; the answer is empty."""
        record = self.recorded(call, "ml.jobs.cancel")
        if call.body:
            name = str(next(iter(call.body)))[:_LONGEST]
            raise wrong_fields([Problem(name, None, None, "is no field of this request", "send {}")])
        job_id, by = record.job_id, call.caller.email
        if record.waiting and self._submissions.cancel(job_id, by):
            self._wake()
            return _NOTHING
        record = self.recorded(call, "ml.jobs.cancel")
        if record.state.ended:
            raise ApiError("FAILED_PRECONDITION", f"The job {job_id} has ended: it is {record.state}.")
        self._records.request_cancel(job_id, by)
        if record.submitted is not None:
            self._wake()
        else:
            self._adopt(job_id)
        return _NOTHING

    def allowed(self, call: Call, permission: str) -> None:
        """Raise unless a caller has a permission on the project.

        Raises:
            ApiError: PERMISSION_DENIED.
        """
        self._access.require(call.caller, permission, self._project.resource)

    def found(self, call: Call, permission: str) -> KnownJob:
        """Return the job that a call is about.

        Raises:
            ApiError: there is no such job, or the caller may not do this to it.
        """
        if not call.fresh:
            self._index.refresh()
        name = call.values["job"]
        resource = f"{self._project.resource}/jobs/{name[:_LONGEST]}"
        known = self._index.job(name)
        if known is None:
            raise self._access.missing(call.caller, permission, resource)
        self._access.require(call.caller, permission, resource, self._index.grants(known, in_memory=call.fresh))
        return known

    def recorded(self, call: Call, permission: str) -> RunRecord:
        """Return the record of the job that a call is about, read now; raises as ``found``."""
        name = self.found(call, permission).job_id
        record = self._index.record(name)
        if record is None:
            raise self._access.missing(call.caller, permission, f"{self._project.resource}/jobs/{name[:_LONGEST]}")
        return record

    def _again(self, error: AlreadyUsedError) -> Answer:
        """Return the answer to a create of a used id."""
        self._index.refresh()
        known = self._index.job(error.job_id)
        if error.again is Again.SAME and known is not None:
            return self._index.text(known)
        if error.again is Again.PENDING:
            raise ApiError("UNAVAILABLE", "Another server is at work on the same request; ask again.")
        raise already_there()


#: Bytes of a page, unless a single job has more; and how long one is looked for by a filter. A page that is cut short
#: has a token, so that whoever asks goes on. Source: google.aip.dev/158.
LARGEST_PAGE_BYTES: Final = 4 * 2**20
_LONGEST_LOOK_SECONDS: Final = 10.0
_LONGEST: Final = 200
_NOTHING: Final = b"{}"


def changed() -> ApiError:
    """Return the error for a resource that somebody else changed since the caller read it."""
    return ApiError("ABORTED", "The etag is not the present one: somebody has changed it since. Read it and try again.")


def _page(jobs: list[bytes], token: str | None) -> bytes:
    """Return a ListJobsResponse; an empty one is ``{}``."""
    parts = [b'"jobs":[' + b",".join(jobs) + b"]"] if jobs else []
    if token is not None:
        parts.append(b'"nextPageToken":"' + token.encode() + b'"')
    return b"{" + b",".join(parts) + b"}"
