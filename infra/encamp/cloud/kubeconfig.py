"""A kubeconfig string as an HTTP client: server, trust, and the credentials of its user.

The exec plugin protocol (kubernetes.io, "Authenticating", client-go credential plugins) is spoken here, in v1 and
v1beta1: one plugin run serves all threads until the token ends or is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml

from encamp.cloud.endpoints import is_loopback
from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from lightkube.config.models import User, UserExec

#: A token is renewed this long before it ends.
_MARGIN = timedelta(minutes=1)
_PLUGIN_SECONDS = 60
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32)
_UNAUTHORIZED = 401


class CredentialError(EngineError):
    """The credential plugin gave no token this time."""


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
    from lightkube import KubeConfig  # noqa: PLC0415 - half a second of models, wanted only here
    from lightkube.config.client_adapter import verify_cluster  # noqa: PLC0415
    from lightkube.core.exceptions import ConfigError  # noqa: PLC0415

    try:
        config = KubeConfig.from_dict(yaml.safe_load(kubeconfig)).get()
        if config is None or config.user is None:
            raise EngineError("the kubeconfig has no current context with a user", where="kubeconfig")
        verify = verify_cluster(config.cluster, config.user, config.abs_file)
    except (ConfigError, AttributeError, OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        # Without the cause: what a parser quotes of the text may be a credential.
        raise EngineError(
            f"the cluster's kubeconfig cannot be read: {type(error).__name__}",
            where="kubeconfig",
            hint="run `pulumi up` of the environment's stack",
        ) from None
    return {
        "base_url": config.cluster.server,
        "verify": verify,
        "auth": _auth(config.user),
        "timeout": _TIMEOUT,
        "limits": _LIMITS,
        "trust_env": not is_loopback(config.cluster.server),
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


class ExecPlugin(httpx.Auth):
    """Tokens of an exec plugin such as gke-gcloud-auth-plugin."""

    def __init__(self, plugin: UserExec) -> None:
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
                self._token, self._until = _run(self._plugin)
            return self._token


def _run(plugin: UserExec) -> tuple[str, datetime | None]:
    given = {variable.name: variable.value for variable in plugin.env or []}
    info = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        answer = subprocess.run(
            [plugin.command, *(plugin.args or [])],
            env={**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PLUGIN_SECONDS,
            check=True,
            text=True,
        )
        status = json.loads(answer.stdout)["status"]
        end = status.get("expirationTimestamp")
        return str(status["token"]), datetime.fromisoformat(end) if end else None
    except FileNotFoundError as error:
        raise EngineError(
            "the credential plugin of the kubeconfig is not on PATH",
            where=plugin.command,
            hint='`gcloud components install gke-gcloud-auth-plugin`; for the sandbox, `eval "$(encamp sandbox env)"`',
        ) from error
    except subprocess.CalledProcessError as error:
        raise CredentialError(
            f"the credential plugin failed: {error.stderr.strip()[-300:]}",
            where=plugin.command,
            hint="renew the credentials with `gcloud auth login`",
        ) from error
    except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise CredentialError("the credential plugin gave no token", where=plugin.command) from error


def _auth(user: User) -> httpx.Auth | None:
    if user.exec:
        return ExecPlugin(user.exec)
    if user.token:
        return _Bearer(user.token)
    if user.token_file:
        return _TokenFile(user.token_file)
    if user.username and user.password:
        return httpx.BasicAuth(user.username, user.password)
    return None
