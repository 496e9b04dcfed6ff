"""One call with a known caller: carried out in a thread, audited, and formed into an answer.

What changes something is done and put on record in one thread that nobody gives up, whatever becomes of the client or
of the server's loop. A bug is told as such, with nothing of its traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from encamp.api.addresses import Addresses
from encamp.api.answering import Reply, refusal, reply_of, told
from encamp.api.errors import ApiError
from encamp.api.index import NotInMemoryError
from encamp.api.jobs import Call
from encamp.api.limits import json_object
from encamp.api.places import Places
from encamp.api.routing import route
from encamp.run.store.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.routing import BaseRoute

    from encamp.api.answering import Answer
    from encamp.api.audit import AuditLog
    from encamp.api.caller import Authenticator, Caller
    from encamp.api.jobs import Jobs
    from encamp.api.methods import Method
    from encamp.api.parameters import Asked, Head
    from encamp.api.policies import Policies
    from encamp.api.project import Locations, Project
    from encamp.api.request import Request

    Handler = Callable[[Call], Answer]
    Extra = Callable[[Caller, Mapping[str, Any]], Mapping[str, Any]]

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
#: Seconds for checking a create.
PLAN_SECONDS: Final = 45.0
#: Numbers of calls at work in threads: checks of creates, methods of other services, and all others.
_PLANNERS, _EXTRAS, _WORKERS = 8, 16, 16
CREATE: Final = "projects.jobs.create"
#: Methods whose answers may be in memory.
_QUICK: Final = frozenset(
    {
        "projects.jobs.get",
        "projects.jobs.list",
        "projects.getConfig",
        "projects.locations.list",
        "projects.locations.get",
    }
)
_LONGEST: Final = 200
#: Longer bodies are read as JSON in a thread: a megabyte takes the loop 10 ms.
_QUICK_BODY: Final = 16 * 1024


@dataclass(frozen=True)
class Parts:
    """The parts of the service.

    Attributes:
        extras: methods of other services; each gets caller and body, and answers with JSON data. Called in a thread.
        routes: what needs no credential.
        plan_seconds: how long a create may take to be judged.
        places: of requests at work.
        addresses: tells where a request comes from.
    """

    project: Project
    jobs: Jobs
    policies: Policies
    locations: Locations
    authenticator: Authenticator
    audit: AuditLog
    extras: Mapping[Method, Extra] = field(default_factory=dict)
    routes: Sequence[BaseRoute] = ()
    plan_seconds: float = PLAN_SECONDS
    places: Places = field(default_factory=Places)
    addresses: Addresses = field(default_factory=Addresses)


class Calls:
    """Carries out calls; for one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # A cloud that does not answer must not take the threads of those who only read.
        self._planners = ThreadPoolExecutor(_PLANNERS, thread_name_prefix="plan")
        self._extras = ThreadPoolExecutor(_EXTRAS, thread_name_prefix="extra")
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="call")
        self._handlers = _handlers(parts)
        self._others = {(method.verb, method.path): method for method in parts.extras}

    def method(self, request: Request, head: Head) -> Method:
        """Return the method that the head of a request means; noted in the request with what the path names.

        Raises:
            ApiError: it means none.
        """
        request.method = self._others.get((head.verb, head.path.removeprefix("/")))
        if request.method is None:
            found = route(head.verb, head.path)
            request.method, request.named = found.method, found.values
        return request.method

    async def reply(self, request: Request, method: Method, caller: Caller, asked: Asked, body: bytes) -> Reply:
        """Return the answer to a request, after its work is done and on record.

        Raises:
            ApiError: it is refused before its work, and not on record yet.
        """
        sent = await self._read(body, request) if method.request is not None else {}
        if method in self._parts.extras:
            request.sent = sent
            self._parts.audit.check(method)
            extra = self._parts.extras[method]
            call = Call(caller, body=sent)
            work = partial(self._work, lambda call: extra(call.caller, call.body), call, request, asked)
            return await asyncio.get_running_loop().run_in_executor(self._extras, work)
        self._check_project(request.named["project"])
        query = asked.parameters(method)
        request.sent = sent or query
        call = Call(caller, request.named, query, sent, request.arrived, request.headers.get("user-agent", ""))
        self._parts.audit.check(method)
        handler = await self._judged(call, request) if method.id == CREATE else self._handlers[method.id]
        if self._is_quick(method, call, asked):
            with contextlib.suppress(NotInMemoryError):
                return self._work(handler, replace(call, fresh=True), request, asked)
        return await asyncio.shield(self._thread(self._work, handler, call, request, asked))

    async def refused(self, request: Request, error: ApiError) -> Reply:
        """Return the answer to a request that is refused before its work, once that is on record."""
        stranger = request.caller is None
        # Unknown callers take none of the working threads, nor a line each of the log.
        if request.method is None or (stranger and not self._parts.audit.lists_stranger(request.client)):
            return refusal(error)
        await asyncio.shield(self._thread(self._note, request, None, error))
        return refusal(error)

    async def sent(self, request: Request, *, answered: bool) -> None:
        """Note of a create whether its answer was sent."""
        if request.written is not None:
            await asyncio.shield(self._thread(self._note_answered, request.written, answered))

    async def _read(self, body: bytes, request: Request) -> dict[str, Any]:
        kind = request.headers.get("content-type")
        if len(body) <= _QUICK_BODY:
            return json_object(body, kind)
        return await self._thread(json_object, body, kind)

    def _check_project(self, name: str) -> None:
        """Refuse another project, as Google does."""
        if not self._parts.project.is_meant(name):
            message = f"Permission denied on resource project {name[:_LONGEST]}: this service is of another project."
            raise ApiError("PERMISSION_DENIED", message)

    def _is_quick(self, method: Method, call: Call, asked: Asked) -> bool:
        """Whether an answer may be in memory as it is sent, so that a thread would take longer than the work."""
        plain = not call.query.get("filter") and not asked.pretty and not asked.fields
        return method.id in _QUICK and plain and self._parts.jobs.is_current()

    async def _judged(self, call: Call, request: Request) -> Handler:
        """Check a create in a thread that may be given up, and return the handler that writes it down."""
        judging = asyncio.get_running_loop().run_in_executor(self._planners, self._parts.jobs.checked, call)
        try:
            async with asyncio.timeout(self._parts.plan_seconds):
                read, plan = await judging
        except TimeoutError:
            message = "The job could not be judged in time, and was not created; try again."
            raise ApiError("DEADLINE_EXCEEDED", message) from None
        request.named = {**call.values, "job": read.job_id}

        def create(call: Call) -> Answer:
            try:
                answer = self._parts.jobs.create(call, read, plan)
            except ApiError:
                raise
            except Exception:
                # It may be on record all the same: whoever asks again is to find their own job.
                request.written = read.job_id
                raise
            request.written = read.job_id
            return answer

        return create

    def _work(self, handler: Handler, call: Call, request: Request, asked: Asked) -> Reply:
        """Carry out the call, audit it and form the answer.

        Raises:
            NotInMemoryError: nothing was done, since the answer was wanted from memory and is not there.
        """
        answer: Answer = None
        error: ApiError | None = None
        try:
            answer = handler(call)
            request.granted = True
        except NotInMemoryError:
            raise
        except Exception as trouble:  # noqa: BLE001 - the edge where a bug becomes an answer
            error = told(trouble, request.method.id if request.method is not None else "a call")
        self._note(request, answer, error)
        return refusal(error) if error is not None else reply_of(answer, asked)

    def _note(self, request: Request, answer: Answer, error: ApiError | None) -> None:
        """Write the audit entry of a call."""
        entry = request.audited(self._parts.project, answer, error)
        if entry is not None:
            self._parts.audit.note(entry)

    def _note_answered(self, job_id: str, answered: bool) -> None:
        try:
            self._parts.jobs.answered(job_id, told=answered)
        except RecordError as error:
            # A retry gets the job all the same, once this process has ended.
            _LOG.warning("that the create of %s was answered is not on record: %s", job_id, error.what)

    def _thread(self, work: Callable[..., _T], *words: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._workers, work, *words)


def _handlers(parts: Parts) -> Mapping[str, Handler]:
    """Return the handler of each method but create."""
    jobs, policies, project, locations = parts.jobs, parts.policies, parts.project, parts.locations
    return {
        "projects.jobs.get": jobs.get,
        "projects.jobs.list": jobs.list,
        "projects.jobs.patch": jobs.patch,
        "projects.jobs.cancel": jobs.cancel,
        "projects.jobs.getIamPolicy": policies.get,
        "projects.jobs.setIamPolicy": policies.set,
        "projects.jobs.testIamPermissions": policies.test,
        "projects.getConfig": lambda call: jobs.allowed(call, "ml.projects.getConfig") or project.config(),
        "projects.locations.list": lambda call: jobs.allowed(call, "ml.locations.list") or locations.page(call.query),
        "projects.locations.get": lambda call: (
            jobs.allowed(call, "ml.locations.get") or locations.location(call.values["location"])
        ),
    }
