"""Access for clients: kubeconfigs, the Google service account key, and the executables first on the PATH.

Written at every ``up``, since ports may have changed; keys and the token stay. Two kubeconfigs: one for people, as on
GKE, whose token comes from ``gke-gcloud-auth-plugin``, and one for the sandbox's own processes with the administrator's
certificate.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from encamp.resources import PACKAGE
from encamp_sandbox.layout import ROOT_VARIABLE, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from encamp_sandbox.layout import Layout

AUTH_PLUGIN = "gke-gcloud-auth-plugin"
LANGUAGE_HOST = "pulumi-language-python"
COMMAND = "encamp"
#: User name that google-auth and the API server give the person at this machine.
_ACCOUNT = "encamp-admin"
_EXECUTABLE = 0o700
#: gsutil has authorities and credentials of its own. It takes a refused certificate for a fault that passes, and by
#: default retries for ten minutes.
_BOTO_CONFIG = """\
[Boto]
ca_certificates_file = {layout.bundle}
num_retries = 3
max_retry_delay = 4

[Credentials]
gs_service_key_file = {layout.google_credentials}

[GSUtil]
default_project_id = {layout.project}
state_dir = {layout.root}/gsutil
check_hashes = always
software_update_check_period = 0
"""
_EXEC_API = "client.authentication.k8s.io"


def write_access(layout: Layout, tools: dict[str, Path], *, path: str) -> None:
    """Write every file of this module.

    Args:
        layout: the sandbox.
        tools: name to binary of the built tools that people call themselves: ``pulumi`` and ``kubectl``.
        path: the PATH without the sandbox's own ``bin``; an official language host on it is left to work.
    """
    _write_kubeconfigs(layout)
    _write_token_file(layout)
    _write_google_credentials(layout)
    write_private(layout.access_token, layout.token)
    write_private(layout.boto_config, _BOTO_CONFIG.format(layout=layout))
    _write_executables(layout, tools, path)


def account_email(project: str) -> str:
    """Return the service account that the sandbox's key file belongs to; it owns the project."""
    return f"{_ACCOUNT}@{project}.iam.gserviceaccount.com"


def kubeconfig_for(layout: Layout, certificate: str) -> dict[str, Any]:
    """Return a kubeconfig that signs in with the certificate ``pki/<certificate>.crt``."""
    user = {
        "client-certificate": str(layout.pki / f"{certificate}.crt"),
        "client-key": str(layout.pki / f"{certificate}.key"),
    }
    return _kubeconfig(layout, user)


def _write_kubeconfigs(layout: Layout) -> None:
    exec_user = {
        "exec": {
            "apiVersion": f"{_EXEC_API}/v1beta1",
            "command": str(layout.bin / AUTH_PLUGIN),
            "installHint": "encamp sandbox up",
            "provideClusterInfo": False,
            "interactiveMode": "Never",
        }
    }
    _write_json(layout.kubeconfig, _kubeconfig(layout, exec_user))
    _write_json(layout.admin_kubeconfig, kubeconfig_for(layout, "admin"))
    for name in ("controller-manager", "scheduler"):
        _write_json(layout.run / f"{name}.kubeconfig", kubeconfig_for(layout, name))


def _kubeconfig(layout: Layout, user: dict[str, Any]) -> dict[str, Any]:
    authority = base64.b64encode(layout.ca_certificate.read_bytes()).decode()
    server = f"https://127.0.0.1:{layout.ports.apiserver}"
    name = "encamp-sandbox"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def _write_token_file(layout: Layout) -> None:
    # Columns: token, user, uid, groups (kubernetes.io/docs/reference/access-authn-authz/authentication).
    user = account_email(layout.project)
    write_private(layout.pki / "tokens.csv", f'{layout.token},{user},{user},"system:masters"\n')


def _write_google_credentials(layout: Layout) -> None:
    front = f"http://127.0.0.1:{layout.ports.front}"
    email = account_email(layout.project)
    key = _existing_key(layout.google_credentials) or {
        "private_key_id": secrets.token_hex(20),
        "private_key": rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode(),
    }
    _write_json(
        layout.google_credentials,
        {
            "type": "service_account",
            "project_id": layout.project,
            **key,
            "client_email": email,
            "client_id": str(int(key["private_key_id"][:16], 16)),
            "auth_uri": f"{front}/auth",
            "token_uri": f"{front}/token",
            "universe_domain": "googleapis.com",
        },
    )


def _existing_key(path: Path) -> dict[str, str] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {name: data[name] for name in ("private_key_id", "private_key")}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_executables(layout: Layout, tools: dict[str, Path], path: str) -> None:
    _write_script(layout.bin / AUTH_PLUGIN, _auth_plugin(layout.token))
    host = layout.bin / LANGUAGE_HOST
    if shutil.which(LANGUAGE_HOST, path=path):
        host.unlink(missing_ok=True)
    else:
        _write_script(host, _python(layout, "-m encamp_sandbox.language_host"))
    # A shell that has the sandbox's variables has the command too, whatever environment it was installed in.
    _write_script(layout.bin / COMMAND, _python(layout, "-c 'from encamp.cli.main import main; main()'"))
    for name, binary in tools.items():
        _place(binary, layout.bin / name)


def _python(layout: Layout, what: str) -> str:
    """Return a script that runs this very package with this very interpreter."""
    package = shlex.quote(str(PACKAGE.parent))
    return (
        "#!/bin/sh\n"
        f"{ROOT_VARIABLE}={shlex.quote(str(layout.root))}; export {ROOT_VARIABLE}\n"
        f'PYTHONPATH={package}"${{PYTHONPATH:+:$PYTHONPATH}}"; export PYTHONPATH\n'
        f'exec {shlex.quote(sys.executable)} {what} "$@"\n'
    )


def _place(binary: Path, target: Path) -> None:
    """Put a tool into the folder itself: the engine warns of a language host that does not lie beside its own file."""
    with contextlib.suppress(OSError):
        found, wanted = target.stat(follow_symlinks=False), binary.stat()
        if (found.st_size, int(found.st_mtime)) == (wanted.st_size, int(wanted.st_mtime)):
            return
    temporary = target.with_name(f".{target.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        temporary.hardlink_to(binary)
    except OSError:
        # The cache lies on another file system, or the system allows no links to it.
        shutil.copy2(binary, temporary)
    temporary.replace(target)


def _auth_plugin(token: str) -> str:
    """Return a stand-in for Google's plugin that answers in the version that client-go asks for."""
    status = json.dumps({"token": token})
    return (
        "#!/bin/sh\n"
        f"version={_EXEC_API}/v1beta1\n"
        'case "$KUBERNETES_EXEC_INFO" in\n'
        f'    *{_EXEC_API}/v1\\"*) version={_EXEC_API}/v1 ;;\n'
        "esac\n"
        f"""printf '{{"kind":"ExecCredential","apiVersion":"%s","spec":{{}},"status":%s}}\\n' """
        f"\"$version\" '{status}'\n"
    )


def _write_script(path: Path, text: str) -> None:
    write_private(path, text, mode=_EXECUTABLE)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    write_private(path, json.dumps(data, indent=2) + "\n")
