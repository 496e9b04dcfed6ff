"""Endpoints of Google's services: googleapis.com, or gcloud's endpoint override of the service."""

from __future__ import annotations

import ipaddress
import os
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


class Service(StrEnum):
    """The services that encamp asks, each by the name of gcloud's ``api_endpoint_overrides/`` property."""

    STORAGE = "storage"
    CONTAINER = "container"
    IAM = "iam"
    RESOURCE_MANAGER = "cloudresourcemanager"
    LOGGING = "logging"
    COMPUTE = "compute"
    SERVICE_USAGE = "serviceusage"
    BILLING = "cloudbilling"
    KMS = "cloudkms"
    QUOTAS = "cloudquotas"
    OAUTH2 = "oauth2"
    SECRET_MANAGER = "secretmanager"  # noqa: S105 - a service's name


def endpoint(service: Service, environ: Mapping[str, str] | None = None) -> str:
    """Return the root URL of a service, without a final slash.

    ``CLOUDSDK_API_ENDPOINT_OVERRIDES_<SERVICE>`` goes first, for storage ``API_ENDPOINT_OVERRIDE`` second, which is
    google-cloud-storage's own. gcloud's override of storage ends with ``/storage/v1/``, that of compute with
    ``/compute/v1/``, those of the others at the root; both forms are understood.
    """
    variables = os.environ if environ is None else environ
    override = variables.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}")
    if not override and service is Service.STORAGE:
        override = variables.get("API_ENDPOINT_OVERRIDE")
    if not override:
        return f"https://{service}.googleapis.com"
    if "://" not in override:
        override = f"http://{override}"
    override = override.rstrip("/")
    if service is Service.COMPUTE and override.endswith("/compute/v1"):
        return override.removesuffix("/compute/v1")
    return override.removesuffix("/v1").removesuffix("/storage/v1").removesuffix("/storage")


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine, where no proxy stands in between."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
