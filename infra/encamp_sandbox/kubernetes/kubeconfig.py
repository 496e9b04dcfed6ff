"""Reader of a kubeconfig's cluster and user, with the answers of the user's exec plugin.

Source: kubernetes.io/docs/reference/config-api/kubeconfig.v1 and client-authentication.v1.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from encamp_sandbox.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_SECONDS: Final = 60.0


@dataclass(frozen=True)
class ExecPlugin:
    """A command that gives a credential."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    version: str
    hint: str


@dataclass(frozen=True)
class Credential:
    """A credential: a bearer token, or a client certificate and its key in PEM; ``expires`` is an aware time."""

    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    expires: datetime | None = None


@dataclass(frozen=True)
class ClusterAccess:
    """One context of a kubeconfig: the API server's address, its CA, and the user's credential."""

    server: str
    namespace: str
    authority: bytes | None = None
    server_name: str | None = None
    insecure: bool = False
    credential: Credential = field(default_factory=Credential, repr=False)
    token_file: str | None = None
    basic: tuple[str, str] | None = field(default=None, repr=False)
    plugin: ExecPlugin | None = None


def load(text: str | None, context: str | None, cluster: str | None) -> ClusterAccess:
    """Read a kubeconfig.

    Args:
        text: its content or its path; None takes the first file of ``KUBECONFIG``, else ``~/.kube/config``.
        context: name of the context; None takes the current one.
        cluster: name of the cluster to take instead of the context's.

    Raises:
        ProviderError: there is none, or it does not say what is needed.
    """
    data, folder = _content(text)
    name = context or data.get("current-context")
    if not name:
        raise ProviderError("the kubeconfig has no current context", hint="name one: the provider's context")
    chosen = _named(data, "contexts", "context", name)
    where = _named(data, "clusters", "cluster", cluster or chosen.get("cluster", ""))
    user = _named(data, "users", "user", chosen["user"]) if chosen.get("user") else {}
    if not where.get("server"):
        raise ProviderError("the kubeconfig's cluster has no server", where=f"context {name}")
    return ClusterAccess(
        server=str(where["server"]).rstrip("/"),
        namespace=chosen.get("namespace") or "",
        authority=_bytes(where, "certificate-authority", folder),
        server_name=where.get("tls-server-name"),
        insecure=bool(where.get("insecure-skip-tls-verify")),
        credential=Credential(
            token=user.get("token"),
            certificate=_bytes(user, "client-certificate", folder),
            key=_bytes(user, "client-key", folder),
        ),
        token_file=str(folder / user["tokenFile"]) if user.get("tokenFile") else None,
        basic=(user["username"], user.get("password", "")) if user.get("username") else None,
        plugin=_plugin(user["exec"], folder) if user.get("exec") else None,
    )


def _content(text: str | None) -> tuple[dict[str, Any], Path]:
    if text is None:
        paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
        text = paths[0] if paths else str(Path.home() / ".kube" / "config")
    folder = Path.cwd()
    if "\n" not in text and not text.lstrip().startswith("{"):
        path = Path(text).expanduser()
        try:
            text, folder = path.read_text(encoding="utf-8"), path.absolute().parent
        except OSError as error:
            raise ProviderError(f"the kubeconfig cannot be read: {error.strerror}", where=str(path)) from error
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProviderError(f"the kubeconfig is no YAML: {error}") from error
    if not isinstance(data, dict):
        raise ProviderError("the kubeconfig is no mapping")
    return data, folder


def _named(data: Mapping[str, Any], group: str, kind: str, name: str) -> dict[str, Any]:
    for entry in data.get(group) or []:
        if entry.get("name") == name:
            return entry.get(kind) or {}
    raise ProviderError(f"the kubeconfig has no {kind} named {name!r}")


def _bytes(data: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    if data.get(f"{key}-data"):
        return base64.b64decode(data[f"{key}-data"])
    if not data.get(key):
        return None
    path = folder / data[key]
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProviderError(f"the kubeconfig's {key} cannot be read: {error.strerror}", where=str(path)) from error


def _plugin(spec: Mapping[str, Any], folder: Path) -> ExecPlugin:
    command = str(spec.get("command", ""))
    # As client-go: a bare name is looked up on PATH, a relative path starts at the kubeconfig's folder.
    if os.sep in command and not os.path.isabs(command):  # noqa: PTH117  the text is what matters here
        command = str(folder / command)
    version = str(spec.get("apiVersion", ""))
    if version not in EXEC_VERSIONS:
        raise ProviderError(f"the kubeconfig's exec plugin speaks {version or 'no version'}", where=command)
    return ExecPlugin(
        command=command,
        args=tuple(str(item) for item in spec.get("args") or ()),
        env={item["name"]: item["value"] for item in spec.get("env") or ()},
        version=version,
        hint=str(spec.get("installHint") or ""),
    )


async def ask(plugin: ExecPlugin) -> Credential:
    """Run an exec plugin.

    Raises:
        ProviderError: it is missing, fails, or answers something else than a credential.
    """
    info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.args, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        raise ProviderError(
            f"the exec plugin cannot be run: {error.strerror}", where=plugin.command, hint=plugin.hint or None
        ) from error
    try:
        async with asyncio.timeout(EXEC_SECONDS):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise ProviderError(f"the exec plugin took over {EXEC_SECONDS:.0f} s", where=plugin.command) from error
    if process.returncode != 0:
        said = complaint.decode(errors="replace").strip()
        raise ProviderError(f"the exec plugin failed with {process.returncode}: {said}", where=plugin.command)
    return _answer(output, plugin)


def _answer(output: bytes, plugin: ExecPlugin) -> Credential:
    try:
        status = json.loads(output)["status"]
        expires = status.get("expirationTimestamp")
        return Credential(
            token=status.get("token"),
            certificate=status["clientCertificateData"].encode() if status.get("clientCertificateData") else None,
            key=status["clientKeyData"].encode() if status.get("clientKeyData") else None,
            expires=datetime.fromisoformat(expires) if expires else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProviderError("the exec plugin answered no ExecCredential", where=plugin.command) from error
