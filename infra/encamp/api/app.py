"""The service as an ASGI app: what is done for each call, and in which order.

Method, caller, project, body, work, audit entry, answer. Nothing of a caller's credential is kept or written. A bug is
told as such, with nothing of its traceback.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import Mount

from encamp.api.audit import AuditedCall
from encamp.api.errors import ApiError
from encamp.api.jobs import Call
from encamp.api.limits import json_object, read_body
from encamp.api.methods import AuditKind
from encamp.api.parameters import Asked, asked
from encamp.api.partial import part
from encamp.api.routing import WrongVerbError, route
from encamp.run.transactions import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from encamp.api.audit import AuditLog
    from encamp.api.caller import Authenticator, Caller
    from encamp.api.jobs import Answer, Jobs
    from encamp.api.methods import Method
    from encamp.api.policies import Policies
    from encamp.api.project import Locations, Project
    from encamp.api.routing import Route

_LOG = logging.getLogger(__name__)
_JSON: Final = b"application/json; charset=UTF-8"
#: How long a create may take to be judged, and how many are at once.
PLAN_SECONDS: Final = 45.0
_PLANNERS: Final = 8

#: Answers a call that is no method of ours: caller and body.
Extra = Any


@dataclass(frozen=True)
class Parts:
    """What the service is made of.

    Attributes:
        extras: other methods by verb and path, such as ``("POST", "v2/entries:list")``; each gets caller and body, and
            answers with JSON data. Called in a thread.
        routes: what needs no credential.
        plan_seconds: how long a create may take to be judged.
    """

    project: Project
    jobs: Jobs
    policies: Policies
    locations: Locations
    authenticator: Authenticator
    audit: AuditLog
    extras: Mapping[tuple[str, str], Callable[[Caller, Mapping[str, Any]], Mapping[str, Any]]] = field(
        default_factory=dict
    )
    routes: Sequence[BaseRoute] = ()
    plan_seconds: float = PLAN_SECONDS


def make_app(parts: Parts) -> ASGIApp:
    """The service."""
    return Starlette(routes=[*parts.routes, Mount("", app=_Service(parts))])


@dataclass
class _Request:
    """What is known of a request so far, for its audit entry."""

    at: datetime
    arrived: float
    headers: Headers
    client: str
    route: Route | None = None
    caller: Caller | None = None
    sent: Mapping[str, Any] | None = None
    granted: bool | None = None
    created: str | None = None


@dataclass(frozen=True)
class _Reply:
    """An answer on its way."""

    code: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class _Service:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # A cloud that does not answer must not take the threads of those who only read.
        self._planners = ThreadPoolExecutor(_PLANNERS, thread_name_prefix="plan")
        jobs, policies, project = parts.jobs, parts.policies, parts.project
        self._handlers: Mapping[str, Callable[[Call], Answer]] = {
            "projects.jobs.get": jobs.get,
            "projects.jobs.list": jobs.list,
            "projects.jobs.patch": jobs.patch,
            "projects.jobs.cancel": jobs.cancel,
            "projects.jobs.getIamPolicy": policies.get,
            "projects.jobs.setIamPolicy": policies.set,
            "projects.jobs.testIamPermissions": policies.test,
            "projects.getConfig": lambda call: jobs.allowed(call, "ml.projects.getConfig") or project.config(),
            "projects.locations.list": lambda call: (
                jobs.allowed(call, "ml.locations.list") or parts.locations.page(call.query)
            ),
            "projects.locations.get": lambda call: (
                jobs.allowed(call, "ml.locations.get") or parts.locations.location(call.values["location"])
            ),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("", 0))[0]
        request = _Request(datetime.now(UTC), time.monotonic(), headers, client)
        try:
            reply = await self._reply(scope, receive, request)
        except ConnectionError:
            # Nobody waits for an answer, and nothing was done.
            return
        told = False
        try:
            await _send(send, reply)
            told = reply.code < _SERVER_ERROR
        finally:
            if request.created is not None:
                await asyncio.shield(asyncio.to_thread(self._answered, request.created, told=told))

    def _answered(self, job_id: str, *, told: bool) -> None:
        try:
            self._parts.jobs.answered(job_id, told=told)
        except RecordError as error:
            # Whoever asks again is told of the job all the same, once this process has ended.
            _LOG.warning("that %s was answered is not on record: %s", job_id, error.what)

    async def _reply(self, scope: Scope, receive: Receive, request: _Request) -> _Reply:
        answer: Answer = None
        error: ApiError | None = None
        wish: Asked | None = None
        try:
            answer, wish = await self._answer(scope, receive, request)
        except ApiError as refused:
            error = refused
        except RecordError as trouble:
            _LOG.error("%s", trouble)
            error = ApiError("UNAVAILABLE", "The job records cannot be used at the moment.")
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - the one edge where a bug becomes an answer
            _LOG.exception("a request failed: %s", request.route.method.id if request.route else scope["method"])
            error = ApiError("INTERNAL", "Internal error encountered.")
        await self._audit(request, answer, error)
        return _refusal(error) if error is not None else _Reply(200, _text(answer, wish))

    async def _answer(self, scope: Scope, receive: Receive, request: _Request) -> tuple[Answer, Asked]:
        wish = await asked(scope, request.headers, receive)
        extra = self._parts.extras.get((wish.verb, wish.path.removeprefix("/")))
        if extra is None:
            request.route = route(wish.verb, wish.path)
        request.caller = await self._parts.authenticator.caller(request.headers.get("authorization"))
        if extra is not None:
            body = await self._body(receive, request.headers)
            return await asyncio.to_thread(extra, request.caller, body), wish
        found = request.route
        if found is None:
            raise AssertionError(wish.path)
        self._check_project(found.values["project"])
        parameters = wish.parameters(found.method)
        body = await self._body(receive, request.headers) if found.method.request is not None else {}
        request.sent = body or parameters
        agent = request.headers.get("user-agent", "")
        call = Call(request.caller, found.values, parameters, body, request.arrived, agent)
        self._parts.audit.check(found.method)
        return await self._work(found.method, call, request), wish

    async def _body(self, receive: Receive, headers: Headers) -> dict[str, Any]:
        body = await read_body(receive, headers.get("content-length"))
        return json_object(body, headers.get("content-type"))

    def _check_project(self, name: str) -> None:
        """Source: what Google answers of a project that is another's, or that there is not."""
        if not self._parts.project.is_meant(name):
            message = f"Permission denied on resource project {name[:_LONGEST]}: this service is of another project."
            raise ApiError("PERMISSION_DENIED", message)

    async def _work(self, method: Method, call: Call, request: _Request) -> Answer:
        if method.id == "projects.jobs.create":
            return await self._create(call, request)
        handler = self._handlers[method.id]
        reads = method.kind is AuditKind.DATA_ACCESS
        if reads and not call.query.get("filter") and self._parts.jobs.is_current():
            # All of it is in memory: a thread would take longer than the work.
            answer = handler(call)
        else:
            answer = await asyncio.to_thread(handler, call)
        request.granted = True
        return answer

    async def _create(self, call: Call, request: _Request) -> Answer:
        """Judge in one thread, which may be given up, then write in another, which is waited for."""
        loop = asyncio.get_running_loop()
        judging = loop.run_in_executor(self._planners, self._parts.jobs.checked, call)
        try:
            async with asyncio.timeout(self._parts.plan_seconds):
                read, plan = await judging
        except TimeoutError:
            message = "The job could not be judged in time, and was not created; try again."
            raise ApiError("DEADLINE_EXCEEDED", message) from None
        request.granted = True
        # From here on a client that goes away, or a server that ends, changes nothing any more.
        answer = await asyncio.shield(asyncio.to_thread(self._parts.jobs.create, call, read, plan))
        request.created = read.job_id
        return answer

    async def _audit(self, request: _Request, answer: Answer, error: ApiError | None) -> None:
        if request.route is None:
            return
        found = request.route
        method = found.method
        writes = method.kind is AuditKind.ADMIN_ACTIVITY
        noted = AuditedCall(
            at=request.at,
            insert_id=uuid.uuid4().hex,
            method=method,
            project=self._parts.project.id,
            resource=_resource(self._parts.project.id, found.values),
            caller=request.caller,
            client_ip=request.client,
            user_agent=request.headers.get("user-agent", ""),
            request=request.sent,
            response=_data(answer) if writes and error is None else None,
            granted=False if error is not None and error.status == "PERMISSION_DENIED" else request.granted,
            code=error.code if error is not None else 200,
            message=error.message if error is not None else "",
            status=error.status if error is not None else "",
        )
        if writes:
            await asyncio.shield(asyncio.to_thread(self._parts.audit.note, noted))
        else:
            self._parts.audit.note(noted)


_SERVER_ERROR: Final = 500
_LONGEST: Final = 200


def _resource(project: str, values: Mapping[str, str]) -> str:
    named = [(kind, values[kind]) for kind in ("job", "location") if kind in values]
    return "/".join([f"projects/{project}", *(f"{kind}s/{name[:_LONGEST]}" for kind, name in named)])


def _data(answer: Answer) -> Any:
    return json.loads(answer) if isinstance(answer, bytes) else answer


def _text(answer: Answer, wish: Asked | None) -> bytes:
    """The JSON of an answer, as it is asked for."""
    if wish is not None and (wish.fields or wish.pretty):
        data = part(_data(answer), wish.fields) if wish.fields else _data(answer)
        return json.dumps(data, indent=2 if wish.pretty else None).encode() + (b"\n" if wish.pretty else b"")
    return answer if isinstance(answer, bytes) else json.dumps(answer, separators=(",", ":")).encode()


def _refusal(error: ApiError) -> _Reply:
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, WrongVerbError):
        headers.append((b"allow", error.allowed.encode()))
    if error.status == "UNAUTHENTICATED":
        headers.append((b"www-authenticate", b'Bearer realm="encamp"'))
    return _Reply(error.code, json.dumps(error.body(), indent=2).encode() + b"\n", tuple(headers))


async def _send(send: Send, reply: _Reply) -> None:
    headers = [
        (b"content-type", _JSON),
        (b"content-length", str(len(reply.body)).encode()),
        (b"cache-control", b"private"),
        (b"x-content-type-options", b"nosniff"),
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.code, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
