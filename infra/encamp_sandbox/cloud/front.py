"""The REST front: one ASGI application that stands for every Google API the sandbox has.

A service is told by the Host header (``container.googleapis.com``) or, on loopback, by the first path segment
(``/container/v1/…``); storage's own paths work without one. Every call needs a bearer token but ``/healthz`` and
the token endpoints. Refuses every project but the sandbox's own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from encamp_sandbox.cloud.calls import Call
from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.faults import FaultError
from encamp_sandbox.cloud.striking import perform
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

    from encamp_sandbox.cloud.faults import Asked
    from encamp_sandbox.cloud.striking import FaultSource
    from encamp_sandbox.cloud.tokens import Tokens

logger = logging.getLogger(__name__)

_DOMAIN = ".googleapis.com"
_STORAGE_ROOTS = ("storage", "upload", "download", "resumable")
_STORAGE_PATHS = (("storage", "v1"), ("upload", "storage"), ("download", "storage"), ("resumable", "upload"))
_TOKEN_PATHS = (("token",), ("oauth2", "v4", "token"), ("o", "oauth2", "token"), ("oauth2", "token"))
_INFO_PATHS = (("tokeninfo",), ("oauth2", "tokeninfo"), ("oauth2", "v3", "tokeninfo"))
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


#: Header of a refusal: the belief that it follows (docs/beliefs.md).
BELIEF_HEADER = "x-encamp-belief"


class Handler(Protocol):
    """One service behind the front."""

    async def __call__(self, call: Call) -> Response:
        """Answer one call."""
        ...

    async def asked(self, call: Call) -> Asked | None:
        """Return the operation that a call requests, in the words of faults; None if no fault can strike it."""
        ...

    def failed(self, asked: Asked, error: FaultError) -> Response | None:
        """Return the answer to a call that is accepted and fails later; None if a fault refuses it at once."""
        ...


class Front:
    """Tells calls apart, finds out who calls, hands over to a service, words refusals.

    Args:
        project: the only project there is.
        tokens: who a token stands for.
        services: handler of each service, by host name without ``.googleapis.com``; ``encamp`` is the admin's.
        faults: what shall go wrong.
    """

    def __init__(self, project: str, tokens: Tokens, services: Mapping[str, Handler], faults: FaultSource) -> None:
        self._project = project
        self._tokens = tokens
        self._services = services
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except GoogleError as error:
            head = request.method == "HEAD"
            response = Response(status_code=error.code) if head else JSONResponse(error.body(), error.code)
            if error.belief:
                response.headers[BELIEF_HEADER] = error.belief
            if error.code == 401:  # noqa: PLR2004 - HTTP's own number
                response.headers["www-authenticate"] = 'Bearer realm="https://accounts.google.com/"'
        except ClientDisconnect:
            return
        except Exception:
            logger.exception("%s %s", request.method, request.url.path)
            response = JSONResponse(GoogleError(500, "Internal error encountered.").body(), 500)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        raw = request.scope.get("raw_path", request.url.path.encode()).split(b"?")[0].decode("latin-1")
        path = tuple(unquote(part) for part in raw.removeprefix("/").split("/"))
        if path == ("healthz",):
            return JSONResponse({"status": "ok"})
        if path in _TOKEN_PATHS:
            return await self._token(request)
        if path in _INFO_PATHS:
            return await self._info(request)
        service, rest, prefix = self._service(request, path)
        handler = self._services.get(service)
        if handler is None:
            raise GoogleError(404, f"The sandbox does not serve {service}{_DOMAIN}.")
        call = Call(
            request=request,
            service=service,
            method=request.headers.get("x-http-method-override", request.method),
            path=rest,
            principal=self._tokens.principal(request.headers.get("authorization")),
            base=f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}{prefix}",
            query=dict(request.query_params),
        )
        self._check_project(call)
        asked = await handler.asked(call)
        return await handler(call) if asked is None else await self._struck(call, handler, asked)

    async def _struck(self, call: Call, handler: Handler, asked: Asked) -> Response:
        """Answer a call with the faults that were set for it; an answer that is lost is closed."""
        answers: list[Response] = []

        async def work() -> Response:
            answers.append(await handler(call))
            return answers[0]

        try:
            return await perform(self._faults, asked, work, hang=lambda: _gone(call.request))
        except FaultError as error:
            for answer in answers:
                if answer.background is not None:
                    await answer.background()
            if (failed := handler.failed(asked, error)) is not None:
                return failed
            raise

    def _service(self, request: Request, path: tuple[str, ...]) -> tuple[str, tuple[str, ...], str]:
        """Return the service, its own path, and the path prefix that was cut off."""
        host = request.headers.get("host", "").partition(":")[0].lower()
        if host.endswith(_DOMAIN):
            name = host.removesuffix(_DOMAIN)
            if name == "www":
                return ("storage" if path[0] in _STORAGE_ROOTS else path[0]), path, ""
            if name.endswith(".storage"):
                return "storage", (name.removesuffix(".storage"), *path), ""
            return name, path, ""
        if path[:2] in _STORAGE_PATHS:
            return "storage", path, ""
        if path[0] in self._services:
            return path[0], path[1:], f"/{path[0]}"
        return "storage", path, ""

    def _check_project(self, call: Call) -> None:
        """Refuse a call that names another project; ``_`` and ``-`` stand for any."""
        if call.service == "storage" or "projects" not in call.plain:
            return
        place = call.plain.index("projects") + 1
        project = call.plain[place] if place < len(call.plain) else ""
        if project and project not in (self._project, project_number(self._project), "-", "_"):
            message = f"The sandbox serves the project {self._project} only, not {project}."
            raise GoogleError(403, message, reason="forbidden")

    async def _token(self, request: Request) -> Response:
        """Serve OAuth 2: an access token for a signed assertion."""
        form = dict(parse_qsl((await request.body()).decode("latin-1")))
        if form.get("grant_type") != _GRANT:
            return JSONResponse({"error": "unsupported_grant_type", "error_description": "Invalid grant_type"}, 400)
        try:
            answer: dict[str, Any] = self._tokens.exchange(form.get("assertion", ""))
        except GoogleError as error:
            return JSONResponse({"error": error.reason, "error_description": error.message}, error.code)
        return JSONResponse(answer)

    async def _info(self, request: Request) -> Response:
        """Return the token's information; the token is in the query, a form, or the header."""
        form = parse_qsl((await request.body()).decode("latin-1"))
        header = request.headers.get("authorization", "").partition(" ")[2].strip()
        given = {"access_token": header} | dict(form) | dict(request.query_params)
        try:
            return JSONResponse(self._tokens.info(given["access_token"]))
        except GoogleError as error:
            return JSONResponse({"error": error.reason, "error_description": error.message}, error.code)


async def _gone(request: Request) -> None:
    """Return when the caller waits no longer."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
