"""An HTTP client for one API server: signs in as the kubeconfig says and turns refusals into ``ApiError``.

Only what the provider needs: JSON requests on REST paths. Watching is left out, since an object whose state is
waited for is read again instead: nothing is lost when a connection or the server's history ends.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from encamp_sandbox.kubernetes.kubeconfig import Credential, ask
from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp_sandbox.kubernetes.kubeconfig import ClusterAccess

REQUEST_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 10.0
EXPIRES_EARLY: Final = timedelta(seconds=30)
APPLY: Final = "application/apply-patch+yaml"
JSON_PATCH: Final = "application/json-patch+json"
UNAUTHORIZED: Final = 401
THROTTLED: Final = 429
ERRORS_FROM: Final = 400
THROTTLE_TRIES: Final = 5


class ApiError(ProviderError):
    """The API server refused: ``status`` is HTTP's, ``reason`` the Status object's (``AlreadyExists``, …)."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = details


class UnreachableError(ProviderError):
    """The API server gives no answer, or there is no way to sign in."""


class Client:
    """Speaks to one API server; to be closed. An error in place of access is raised at the first request."""

    def __init__(self, access: ClusterAccess | ProviderError) -> None:
        self._given = access
        self._http: httpx.AsyncClient | None = None
        self._credential: Credential | None = None
        self._signing_in = asyncio.Lock()

    @property
    def access(self) -> ClusterAccess:
        """The API server, and the identity to sign in with.

        Raises:
            UnreachableError: there is no usable kubeconfig.
        """
        if isinstance(self._given, ProviderError):
            raise UnreachableError(self._given.what, where=self._given.where, hint=self._given.hint)
        return self._given

    def _extensions(self) -> dict[str, str]:
        return {"sni_hostname": self.access.server_name} if self.access.server_name else {}

    async def close(self) -> None:
        """Drop the connections."""
        if self._http:
            await self._http.aclose()
            self._http = None

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Read; see ``request``."""
        return await self.request("GET", path, query=query)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Send one request and return the parsed answer.

        Raises:
            ApiError: the server refused.
            UnreachableError: there was no answer.
        """
        response = await self._send(method, path, query, body, content_type)
        if response.status_code == UNAUTHORIZED and (self.access.plugin or self.access.token_file):
            self._credential = None
            await self.close()
            response = await self._send(method, path, query, body, content_type)
        for attempt in range(THROTTLE_TRIES):
            if response.status_code != THROTTLED:
                break
            await asyncio.sleep(float(response.headers.get("Retry-After", 2**attempt)))
            response = await self._send(method, path, query, body, content_type)
        if response.status_code >= ERRORS_FROM:
            raise _refusal(response)
        return response.json() if response.content else None

    async def _send(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str
    ) -> httpx.Response:
        http = await self._connected()
        headers = {"Accept": "application/json", "User-Agent": "encamp-sandbox-kubernetes"}
        if self._credential and self._credential.token:
            headers["Authorization"] = f"Bearer {self._credential.token}"
        content = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = json.dumps(body).encode()
        try:
            return await http.request(
                method, path, params=query, content=content, headers=headers, extensions=self._extensions()
            )
        except (httpx.HTTPError, OSError) as error:
            said = str(error) or type(error).__name__
            raise UnreachableError(f"the API server does not answer: {said}", where=self.access.server) from error

    async def _connected(self) -> httpx.AsyncClient:
        async with self._signing_in:
            credential = self._credential
            if credential is None or _expired(credential):
                self._credential = await self._sign_in()
                if credential and credential.certificate != self._credential.certificate:
                    await self.close()
            if self._http is None:
                self._http = httpx.AsyncClient(
                    base_url=self.access.server,
                    verify=await asyncio.to_thread(_trust, self.access, self._credential or Credential()),
                    auth=self.access.basic,
                    timeout=httpx.Timeout(REQUEST_SECONDS, connect=CONNECT_SECONDS),
                    limits=httpx.Limits(max_connections=64),
                    trust_env=False,
                )
            return self._http

    async def _sign_in(self) -> Credential:
        access = self.access
        if access.plugin:
            try:
                return await ask(access.plugin)
            except ProviderError as error:
                raise UnreachableError(error.what, where=error.where, hint=error.hint) from error
        if access.token_file:
            return Credential(token=(await asyncio.to_thread(Path(access.token_file).read_text)).strip())
        return access.credential


def _expired(credential: Credential) -> bool:
    return credential.expires is not None and datetime.now(UTC) > credential.expires - EXPIRES_EARLY


def _trust(access: ClusterAccess, credential: Credential) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = credential.certificate or access.credential.certificate
    key = credential.key or access.credential.key
    if certificate and key:
        # The ssl module loads a certificate from a file only; the file is private and lives for this call.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _refusal(response: httpx.Response) -> ApiError:
    status: dict[str, Any] = {}
    try:
        status = response.json()
        reason, message = str(status["reason"]), str(status["message"])
    except (ValueError, KeyError, TypeError):
        reason, message = "", response.text.strip() or f"HTTP {response.status_code}"
    details = status.get("details") if isinstance(status, dict) else None
    return ApiError(response.status_code, reason, message, details or {})
