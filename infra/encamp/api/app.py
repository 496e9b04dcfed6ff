"""The service as an ASGI app: what is done for each call, and in which order.

Method, caller, project, body, work, audit entry, answer. Nothing of a caller's credential is kept or written. A bug is
told as such, with nothing of its traceback. What changes something is done and put on record in one thread that nobody
gives up, whatever becomes of the client or of the server's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match

from encamp.api.answering import refusal, reply_of, told
from encamp.api.errors import ApiError
from encamp.api.jobs import Call
from encamp.api.limits import ClientGoneError, json_object, read_body
from encamp.api.methods import AuditKind
from encamp.api.parameters import asked
from encamp.api.request import Request
from encamp.api.routing import route
from encamp.run.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from encamp.api.answering import Answer, Reply
    from encamp.api.audit import AuditLog
    from encamp.api.caller import Authenticator, Caller
    from encamp.api.jobs import Jobs
    from encamp.api.methods import Method
    from encamp.api.parameters import Asked
    from encamp.api.policies import Policies
    from encamp.api.project import Locations, Project

    Handler = Callable[[Call], Answer]
    Extra = Callable[[Caller, Mapping[str, Any]], Mapping[str, Any]]

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
#: How long a create may take to be judged.
PLAN_SECONDS: Final = 45.0
#: How many calls are at once at work in threads: judging, on what is no method of ours, and all others.
_PLANNERS, _EXTRAS, _WORKERS = 8, 16, 16
_CREATE: Final = "projects.jobs.create"
_LONGEST: Final = 200


@dataclass(frozen=True)
class Parts:
    """What the service is made of.

    Attributes:
        extras: methods of other services; each gets caller and body, and answers with JSON data. Called in a thread.
        routes: what needs no credential.
        plan_seconds: how long a create may take to be judged.
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


def make_app(parts: Parts) -> ASGIApp:
    """The service."""
    return Starlette(routes=[*parts.routes, _Everything(_Service(parts))])


class _Everything(BaseRoute):
    """Every path that is no other route's; those of ``Mount`` have no line breaks in them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """All of it, and nothing is named."""
        del scope
        return Match.FULL, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the service answer."""
        await self._app(scope, receive, send)


class _Service:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # A cloud that does not answer must not take the threads of those who only read.
        self._planners = ThreadPoolExecutor(_PLANNERS, thread_name_prefix="plan")
        self._extras = ThreadPoolExecutor(_EXTRAS, thread_name_prefix="extra")
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="call")
        self._handlers = _handlers(parts)
        self._others = {(method.verb, method.path): (method, extra) for method, extra in parts.extras.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        client = (scope.get("client") or ("", 0))[0]
        request = Request(datetime.now(UTC), time.monotonic(), Headers(scope=scope), client)
        try:
            reply = await self._reply(scope, receive, request)
        except ClientGoneError:
            # Nobody waits for an answer, and nothing was done.
            return
        answered = False
        try:
            await reply.send(send)
            answered = reply.is_told
        finally:
            if request.written is not None and (answered or not reply.is_told):
                await asyncio.shield(self._thread(self._note_answered, request.written, answered))

    async def _reply(self, scope: Scope, receive: Receive, request: Request) -> Reply:
        try:
            wish = await asked(scope, request.headers, receive)
            work = await self._prepared(wish, receive, request)
        except ClientGoneError:
            raise
        except Exception as trouble:  # noqa: BLE001 - the edge where a bug becomes an answer
            error = told(trouble, f"{scope['method']} before its work")
            if request.method is None:
                # Its query could not even be read; what was meant is on record all the same.
                with contextlib.suppress(ApiError):
                    meant = route(scope["method"], scope["path"])
                    request.method, request.named = meant.method, meant.values
            await asyncio.shield(self._thread(self._note, request, None, error))
            return refusal(error)
        answer, refused = await work
        return refusal(refused) if refused is not None else reply_of(answer, wish)

    async def _prepared(
        self, wish: Asked, receive: Receive, request: Request
    ) -> asyncio.Future[tuple[Answer, ApiError | None]]:
        """The work that a request asks for, begun."""
        other = self._others.get((wish.verb, wish.path.removeprefix("/")))
        if other is not None:
            return await self._prepared_other(*other, receive, request)
        found = route(wish.verb, wish.path)
        request.method, request.named = found.method, found.values
        request.caller = await self._parts.authenticator.caller(request.headers.get("authorization"))
        self._check_project(found.values["project"])
        query = wish.parameters(found.method)
        body = await _body(receive, request.headers) if found.method.request is not None else {}
        request.sent = body or query
        call = Call(request.caller, found.values, query, body, request.arrived, request.headers.get("user-agent", ""))
        self._parts.audit.check(found.method)
        handler = await self._judged(call, request) if found.method.id == _CREATE else self._handlers[found.method.id]
        if self._is_quick(found.method, call):
            done = asyncio.get_running_loop().create_future()
            done.set_result(self._work(handler, replace(call, fresh=True), request))
            return done
        return asyncio.shield(self._thread(self._work, handler, call, request))

    async def _prepared_other(
        self, method: Method, extra: Extra, receive: Receive, request: Request
    ) -> asyncio.Future[tuple[Answer, ApiError | None]]:
        """The work of a method of another service, begun."""
        request.method = method
        caller = request.caller = await self._parts.authenticator.caller(request.headers.get("authorization"))
        body = request.sent = await _body(receive, request.headers)
        self._parts.audit.check(method)
        work = partial(self._work, lambda call: extra(call.caller, call.body), Call(caller, body=body), request)
        return asyncio.get_running_loop().run_in_executor(self._extras, work)

    def _check_project(self, name: str) -> None:
        """Source: what Google answers of a project that is another's, or that there is not."""
        if not self._parts.project.is_meant(name):
            message = f"Permission denied on resource project {name[:_LONGEST]}: this service is of another project."
            raise ApiError("PERMISSION_DENIED", message)

    def _is_quick(self, method: Method, call: Call) -> bool:
        """Whether all of an answer is in memory, so that a thread would take longer than the work."""
        return method.kind is AuditKind.DATA_ACCESS and not call.query.get("filter") and self._parts.jobs.is_current()

    async def _judged(self, call: Call, request: Request) -> Handler:
        """What writes a create down that was judged, in a thread that may be given up."""
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

    def _work(self, handler: Handler, call: Call, request: Request) -> tuple[Answer, ApiError | None]:
        """Do the work and put it on record; never raises."""
        answer: Answer = None
        error: ApiError | None = None
        try:
            answer = handler(call)
            request.granted = True
        except Exception as trouble:  # noqa: BLE001 - the edge where a bug becomes an answer
            error = told(trouble, request.method.id if request.method is not None else "a call")
        self._note(request, answer, error)
        return answer, error

    def _note(self, request: Request, answer: Answer, error: ApiError | None) -> None:
        """Write the audit entry of a call."""
        entry = request.audited(self._parts.project, answer, error)
        if entry is not None:
            self._parts.audit.note(entry)

    def _note_answered(self, job_id: str, answered: bool) -> None:
        try:
            self._parts.jobs.answered(job_id, told=answered)
        except RecordError as error:
            # Who asks again is told of the job all the same, once this process has ended.
            _LOG.warning("that the create of %s was answered is not on record: %s", job_id, error.what)

    def _thread(self, work: Callable[..., _T], *words: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._workers, work, *words)


def _handlers(parts: Parts) -> Mapping[str, Handler]:
    """What does the work of each method but create."""
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


async def _body(receive: Receive, headers: Headers) -> dict[str, Any]:
    return json_object(await read_body(receive, headers.get("content-length")), headers.get("content-type"))
