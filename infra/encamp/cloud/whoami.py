"""The caller's identity at Google, from this machine's credentials: no request is made, and no key is read out."""

from __future__ import annotations

import configparser
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_CREDENTIALS = "application_default_credentials.json"
_IMPERSONATED = "/serviceAccounts/"


def google_account(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the e-mail of application default credentials; None if no file of them has it.

    That of a person is what gcloud has as its account, where the credentials do not name it themselves. Source:
    cloud.google.com/docs/authentication/application-default-credentials.
    """
    environ = os.environ if environ is None else environ
    config = Path(environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud")
    given = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    found = _read(Path(given) if given else config / _DEFAULT_CREDENTIALS)
    if found is None:
        return None
    impersonated = str(found.get("service_account_impersonation_url") or "")
    if _IMPERSONATED in impersonated:
        return impersonated.partition(_IMPERSONATED)[2].partition(":")[0]
    email = found.get("client_email") or found.get("account")
    if email is None and found.get("type") == "authorized_user":
        email = _gcloud_account(config, environ)
    return str(email) if email else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _gcloud_account(config: Path, environ: Mapping[str, str]) -> str | None:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        name = environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or (config / "active_config").read_text().strip()
        parser.read_string((config / "configurations" / f"config_{name}").read_text())
    except (OSError, ValueError, configparser.Error):
        return None
    return parser.get("core", "account", fallback=None)
