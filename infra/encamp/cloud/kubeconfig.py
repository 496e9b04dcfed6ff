"""Reader of kubeconfigs: cluster, trust, credential of the user, and the answers of the user's exec plugin.

No error quotes a kubeconfig: it may hold credentials.
Source: kubernetes.io/docs/reference/config-api/kubeconfig.v1 and client-authentication.v1.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import yaml

from encamp.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
EXEC_SECONDS: Final = 60.0
_PLUGIN_HINT: Final = (
    '`gcloud components install gke-gcloud-auth-plugin`; for the sandbox, `eval "$(encamp sandbox env)"`'
)


class KubeconfigError(EngineError):
    """A kubeconfig is missing, or does not say what is needed."""


class CredentialError(EngineError):
    """The credential plugin gave no credential this time."""


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


def load(text: str | None, context: str | None = None, cluster: str | None = None) -> ClusterAccess:
    """Read a kubeconfig.

    Args:
        text: its content or its path; None takes the first file of ``KUBECONFIG``, else ``~/.kube/config``.
        context: name of the context; None takes the current one.
        cluster: name of the cluster to take instead of the context's.

    Raises:
        KubeconfigError: there is none, or it does not say what is needed.
    """
    if text is None:
        paths = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
        text = paths[0] if paths else str(Path.home() / ".kube" / "config")
    if "\n" in text or text.lstrip().startswith("{"):
        return parse(text, Path.cwd(), context, cluster)
    path = Path(text).expanduser()
    try:
        return parse(path.read_text(encoding="utf-8"), path.absolute().parent, context, cluster)
    except (OSError, UnicodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise KubeconfigError(f"the kubeconfig cannot be read: {said}", where=str(path)) from None


def parse(text: str, folder: Path, context: str | None = None, cluster: str | None = None) -> ClusterAccess:
    """Read the content of a kubeconfig; its relative paths start at a folder. See ``load``.

    Raises:
        KubeconfigError: it does not say what is needed.
    """
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise KubeconfigError("the kubeconfig is no YAML") from None
    if not isinstance(data, dict):
        raise KubeconfigError("the kubeconfig is no mapping")
    try:
        return _access(data, folder, context, cluster)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise KubeconfigError(f"the kubeconfig cannot be read: {type(error).__name__}") from None


def ssl_context(access: ClusterAccess, credential: Credential) -> ssl.SSLContext:
    """Return whom to trust, and the client certificate of a credential; it reads files.

    Raises:
        ValueError, OSError: a certificate or a key cannot be read.
    """
    if access.authority is not None:
        context = ssl.create_default_context(cadata=access.authority.decode())
    else:
        context = httpx.create_ssl_context()
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


def _access(data: Mapping[str, Any], folder: Path, context: str | None, cluster: str | None) -> ClusterAccess:
    name = context or data.get("current-context")
    if not name:
        raise KubeconfigError("the kubeconfig has no current context", hint="name one: the provider's context")
    chosen = _named(data, "contexts", "context", name)
    where = _named(data, "clusters", "cluster", cluster or chosen.get("cluster", ""))
    user = _named(data, "users", "user", chosen["user"]) if chosen.get("user") else {}
    if not where.get("server"):
        raise KubeconfigError("the kubeconfig's cluster has no server", where=f"context {name}")
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


def _named(data: Mapping[str, Any], group: str, kind: str, name: str) -> dict[str, Any]:
    for entry in data.get(group) or []:
        if entry.get("name") == name:
            return entry.get(kind) or {}
    raise KubeconfigError(f"the kubeconfig has no {kind} named {name!r}")


def _bytes(data: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    if data.get(f"{key}-data"):
        return base64.b64decode(data[f"{key}-data"])
    if not data.get(key):
        return None
    path = folder / data[key]
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(f"the kubeconfig's {key} cannot be read: {error.strerror}", where=str(path)) from error


def _plugin(spec: Mapping[str, Any], folder: Path) -> ExecPlugin:
    command = str(spec.get("command", ""))
    # As client-go: a bare name is looked up on PATH, a relative path starts at the kubeconfig's folder.
    if os.sep in command and not os.path.isabs(command):  # noqa: PTH117  the text is what matters here
        command = str(folder / command)
    version = str(spec.get("apiVersion", ""))
    if version not in EXEC_VERSIONS:
        raise KubeconfigError(f"the kubeconfig's exec plugin speaks {version or 'no version'}", where=command)
    return ExecPlugin(
        command=command,
        args=tuple(str(item) for item in spec.get("args") or ()),
        env={item["name"]: item["value"] for item in spec.get("env") or ()},
        version=version,
        hint=str(spec.get("installHint") or ""),
    )


def ask(plugin: ExecPlugin) -> Credential:
    """Run an exec plugin.

    Raises:
        EngineError: it is not there.
        CredentialError: it fails, or answers something else than a credential.
    """
    info = {"apiVersion": plugin.version, "kind": "ExecCredential", "spec": {"interactive": False}}
    try:
        answer = subprocess.run(
            [plugin.command, *plugin.args],
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXEC_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise EngineError(
            "the credential plugin of the kubeconfig is not on PATH",
            where=plugin.command,
            hint=plugin.hint or _PLUGIN_HINT,
        ) from error
    except OSError as error:
        raise CredentialError(f"the credential plugin cannot be run: {error.strerror}", where=plugin.command) from error
    except subprocess.TimeoutExpired:
        raise CredentialError(f"the credential plugin took over {EXEC_SECONDS:.0f} s", where=plugin.command) from None
    if answer.returncode != 0:
        said = answer.stderr.decode(errors="replace").strip()[-300:]
        raise CredentialError(
            f"the credential plugin failed with {answer.returncode}: {said}",
            where=plugin.command,
            hint="renew the credentials with `gcloud auth login`",
        )
    return _answer(answer.stdout, plugin)


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
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialError("the credential plugin answered no ExecCredential", where=plugin.command) from None
