"""Checks of the engine's backend: where it keeps a stack's state, and what encrypts its secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from encamp.backend import pulumi_credentials
from encamp.cloud.buckets import CREATE, DELETE, LIST, READ
from encamp.findings import Finding, Grade
from encamp.plan.access.permissions import SECRETS_KEY, roles_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from encamp.cloud.buckets import Buckets
    from encamp.cloud.projects import Projects
    from encamp.doctor.stack import Stack

_KMS = "gcpkms://"


def backend(url: str | None, stack: Stack, buckets: Buckets, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the state can be written where it is to be, and is not lost there."""
    if url is None:
        advice = "`pulumi login gs://BUCKET`, or set PULUMI_BACKEND_URL"
        yield Finding("state", Grade.BAD, "no backend is chosen: the engine would ask for one", advice)
        return
    parts = urlsplit(url)
    if parts.scheme == "gs":
        yield from _bucket(parts.netloc, buckets)
    elif parts.scheme == "file":
        yield _folder(url, stack)
    elif parts.scheme == "https":
        yield _service(url, environ)
    else:
        yield Finding("state", Grade.NOTE, f"{url}: backends of this kind are not looked at")


def _bucket(name: str, buckets: Buckets) -> Iterator[Finding]:
    found = buckets.find(name)
    if found is None:
        advice = f"gcloud storage buckets create gs://{name} --uniform-bucket-level-access --public-access-prevention"
        yield Finding("state", Grade.BAD, f"there is no bucket gs://{name}", advice)
        return
    wanted = (CREATE, READ, LIST, DELETE)
    missing = sorted(set(wanted) - buckets.allowed(name, wanted))
    if missing:
        text = f"on gs://{name} you may not {', '.join(missing)}"
        yield Finding("state", Grade.BAD, text, "ask for roles/storage.objectAdmin on it")
    else:
        yield Finding("state", Grade.OK, f"gs://{name} can be read and written")
    if found and not (found.get("versioning") or {}).get("enabled"):
        text = f"gs://{name} keeps no older versions: a state that is damaged is lost"
        yield Finding("state", Grade.NOTE, text, f"gcloud storage buckets update gs://{name} --versioning")
    access = found.get("iamConfiguration") or {}
    if found and access.get("publicAccessPrevention") != "enforced":
        advice = f"gcloud storage buckets update gs://{name} --public-access-prevention"
        yield Finding("state", Grade.NOTE, f"gs://{name} may be made public, and a state holds secrets", advice)


def _folder(url: str, stack: Stack) -> Finding:
    path = unquote(url.removeprefix("file://"))
    folder = Path(path).expanduser() if path.startswith(("/", "~")) else Path.cwd() / path
    place = next(each for each in (folder, *folder.parents) if each.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        return Finding(
            "state", Grade.BAD, f"{folder} cannot be written", "choose another backend by PULUMI_BACKEND_URL"
        )
    if stack.spec.is_sandbox:
        return Finding("state", Grade.OK, f"{folder} can be written")
    text = f"{folder} is on this machine: whoever works elsewhere does not know what exists"
    return Finding("state", Grade.NOTE, text, "`pulumi login gs://BUCKET`")


def _service(url: str, environ: Mapping[str, str]) -> Finding:
    known = (pulumi_credentials(environ).get("accessTokens") or {}).get(url.rstrip("/"))
    if environ.get("PULUMI_ACCESS_TOKEN") or known:
        return Finding("state", Grade.OK, f"{url}, and there is a token for it")
    return Finding("state", Grade.BAD, f"there is no token for {url}", f"`pulumi login {url}`")


def record(stack: Stack, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether others see the jobs that are started here."""
    url = environ.get("ENCAMP_RECORD_URL") or "sqlite:"
    if not url.startswith("sqlite"):
        yield Finding("record", Grade.OK, f"a {url.partition(':')[0].partition('+')[0]} database that a team shares")
    elif stack.spec.is_sandbox:
        yield Finding("record", Grade.OK, "a file of this machine, as the sandbox is")
    else:
        text = "the record of jobs is a file of this machine: others can neither follow nor cancel what it starts"
        yield Finding("record", Grade.NOTE, text, "set ENCAMP_RECORD_URL to a PostgreSQL database")


def secrets(stack: Stack, projects: Projects, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the stack's secrets can be encrypted and read again."""
    provider = stack.secrets_provider
    if provider is not None and provider.startswith(_KMS):
        yield from key("secrets", provider.removeprefix(_KMS), projects)
    elif provider is not None and provider not in {"passphrase", "default"}:
        yield Finding("secrets", Grade.NOTE, f"{provider}: providers of this kind are not looked at")
    elif stack.has_salt or provider == "passphrase":
        yield _passphrase(stack, environ)
    else:
        yield Finding("secrets", Grade.OK, "the backend's own provider, or none")


def _passphrase(stack: Stack, environ: Mapping[str, str]) -> Finding:
    file = environ.get("PULUMI_CONFIG_PASSPHRASE_FILE")
    if file and not Path(file).is_file():
        return Finding("secrets", Grade.BAD, f"there is no file {file}", "correct PULUMI_CONFIG_PASSPHRASE_FILE")
    if not file and "PULUMI_CONFIG_PASSPHRASE" not in environ:
        text = "the stack's secrets have a passphrase, and none is set"
        return Finding("secrets", Grade.BAD, text, "set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE")
    if stack.spec.is_sandbox:
        return Finding("secrets", Grade.OK, "a passphrase is set")
    text = "a passphrase is set; whoever has it can read every secret, and nobody sees who did"
    advice = "pulumi stack change-secrets-provider gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K"
    return Finding("secrets", Grade.NOTE, text, advice)


def key(subject: str, name: str, projects: Projects) -> Iterator[Finding]:
    """Whether a key is there, on, and may be used by the caller."""
    found = projects.key(name)
    if found is None:
        ring, _, short = name.partition("/cryptoKeys/")
        advice = f"gcloud kms keys create {short} --keyring={ring} --purpose=encryption"
        yield Finding(subject, Grade.BAD, f"there is no key {name}", advice)
        return
    state = (found.get("primary") or {}).get("state", "none")
    if found.get("purpose", "ENCRYPT_DECRYPT") != "ENCRYPT_DECRYPT":
        yield Finding(subject, Grade.BAD, f"{name} is for {found['purpose']}", "name a key for encryption")
    elif state != "ENABLED":
        yield Finding(subject, Grade.BAD, f"the primary version of {name} is {state}", "enable or restore it")
    else:
        needed = roles_of(SECRETS_KEY)
        missing = sorted(set(needed) - projects.permitted_on_key(name, list(needed)).given)
        if missing:
            text = f"with {name} you may not {', '.join(missing)}"
            yield Finding(subject, Grade.BAD, text, f"ask for {', '.join(SECRETS_KEY)} on it")
        else:
            yield Finding(subject, Grade.OK, f"{name} is on and may be used")
