"""HTTP clients of the API server that a kubeconfig names.

One run of a credential plugin serves all threads until its token ends or is refused.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from encamp.cloud.endpoints import is_loopback
from encamp.cloud.kubeconfig import Credential, CredentialError, KubeconfigError, ask, parse, ssl_context
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from encamp.cloud.kubeconfig import ClusterAccess, ExecPlugin

#: A token is renewed this long before it ends.
_MARGIN = timedelta(minutes=1)
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32)
_UNAUTHORIZED = 401
_HINT = "run `pulumi up` of the environment's stack"


def api_client(kubeconfig: str) -> httpx.Client:
    """Return a client of the API server of the kubeconfig's current context.

    Raises:
        EngineError: the text is no kubeconfig, or its certificates cannot be read.
    """
    return httpx.Client(**_options(kubeconfig))


def async_api_client(kubeconfig: str) -> httpx.AsyncClient:
    """Return a client like ``api_client``'s, for one event loop."""
    return httpx.AsyncClient(**_options(kubeconfig))


def _options(kubeconfig: str) -> dict[str, Any]:
    try:
        access = parse(kubeconfig, Path.cwd())
    except KubeconfigError as error:
        raise EngineError(error.what, where=error.where or "kubeconfig", hint=_HINT) from None
    try:
        verify = ssl_context(access, Credential())
    except (OSError, ValueError):
        # Without the cause: it may quote a key.
        raise EngineError("the kubeconfig's certificates cannot be read", where="kubeconfig", hint=_HINT) from None
    return {
        "base_url": access.server,
        "verify": verify,
        "auth": _auth(access),
        "timeout": _TIMEOUT,
        "limits": _LIMITS,
        "trust_env": not is_loopback(access.server),
    }


class _Bearer(httpx.Auth):
    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = self._header
        yield request


class _TokenFile(httpx.Auth):
    """A token from a file that another process renews, as the kubelet renews that of a pod's account."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        try:
            token = self._file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise EngineError("the token of the kubeconfig cannot be read", where=str(self._file)) from error
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


class _PluginAuth(httpx.Auth):
    """Tokens of an exec plugin such as gke-gcloud-auth-plugin."""

    def __init__(self, plugin: ExecPlugin) -> None:
        self._plugin = plugin
        self._lock = threading.Lock()
        self._token: str | None = None
        self._until: datetime | None = None

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send with the token at hand; after a 401 once more with a new one."""
        token = self._current(refused=None)
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code == _UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {self._current(refused=token)}"
            yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Authenticate as ``auth_flow`` does; the plugin runs beside the event loop."""
        token = await asyncio.to_thread(self._current, None)
        request.headers["Authorization"] = f"Bearer {token}"
        answer = yield request
        if answer.status_code == _UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await asyncio.to_thread(self._current, token)}"
            yield request

    def _current(self, refused: str | None) -> str:
        with self._lock:
            ended = self._until is not None and datetime.now(UTC) > self._until - _MARGIN
            if self._token is None or ended or self._token == refused:
                credential = ask(self._plugin)
                if not credential.token:
                    raise CredentialError("the credential plugin gave no token", where=self._plugin.command)
                self._token, self._until = credential.token, credential.expires
            return self._token


def _auth(access: ClusterAccess) -> httpx.Auth | None:
    if access.plugin:
        return _PluginAuth(access.plugin)
    if access.credential.token:
        return _Bearer(access.credential.token)
    if access.token_file:
        return _TokenFile(access.token_file)
    return httpx.BasicAuth(*access.basic) if access.basic else None
