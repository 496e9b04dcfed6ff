"""The environment in which programs meet the sandbox instead of Google Cloud; the same for shells and for tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from encamp_sandbox.layout import OFFICIAL, OURS, ROOT_VARIABLE
from encamp_sandbox.outbound.owner import OWN_PROXY, OWNER_PROXY, owner_proxy
from encamp_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from encamp_sandbox.layout import Layout

#: gcloud's name of each API to its first path segment on the front; storage's paths carry their own.
_OVERRIDES = {
    "STORAGE": "storage/v1/",
    "CONTAINER": "container/",
    "IAM": "iam/",
    "CLOUDRESOURCEMANAGER": "cloudresourcemanager/",
    "LOGGING": "logging/",
    "COMPUTE": "compute/",
    "SERVICEUSAGE": "serviceusage/",
    "CLOUDBILLING": "cloudbilling/",
    "CLOUDKMS": "cloudkms/",
    "CLOUDQUOTAS": "cloudquotas/",
    "OAUTH2": "oauth2/",
}

#: The official gcp plugin's name of each API to its path on the front, with the version that the plugin speaks.
_ENDPOINTS = {
    "ARTIFACT_REGISTRY": "artifactregistry/v1/",
    "BILLING_BUDGETS": "billingbudgets/v1/",
    "CLOUD_BILLING": "cloudbilling/v1/",
    "COMPUTE": "compute/beta/",
    "CONTAINER": "container/v1beta1/",
    "IAM_BETA": "iam/v1/",
    "IAM_CREDENTIALS": "iamcredentials/v1/",
    "KMS": "cloudkms/v1/",
    "LOGGING": "logging/v2/",
    "MONITORING": "monitoring/",
    "RESOURCE_MANAGER": "cloudresourcemanager/v1/",
    "RESOURCE_MANAGER_V3": "cloudresourcemanager/v3/",
    "SERVICE_USAGE": "serviceusage/v1beta1/",
    "STORAGE": "storage/v1/",
}


def variables(layout: Layout) -> dict[str, str]:
    """Return every variable; a backend that the user set already stays theirs."""
    front = f"http://{LOOPBACK}:{layout.ports.front}"
    proxy = f"http://{LOOPBACK}:{layout.ports.proxy}"
    ports = {"gcp": layout.ports.gcp_provider, "kubernetes": layout.ports.kubernetes_provider}
    providers = {package: port for package, port in ports.items() if layout.config.provider(package) == OURS}
    own = str(layout.bin)
    path = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part != own]
    return {
        ROOT_VARIABLE: str(layout.root),
        "PATH": os.pathsep.join([own, *path]),
        "PULUMI_BACKEND_URL": os.environ.get("PULUMI_BACKEND_URL") or f"file://{layout.pulumi_backend}",
        "PULUMI_HOME": str(layout.pulumi_home),
        # The committed stacks of the sandbox carry the salt of the empty passphrase.
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DEBUG_PROVIDERS": ",".join(f"{name}:{port}" for name, port in providers.items()),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "KUBECONFIG": str(layout.kubeconfig),
        # Of the cluster's DNS endpoint, whose certificate Google's own public authority signs elsewhere.
        **({"SSL_CERT_FILE": str(layout.bundle)} if layout.config.installs_controllers else {}),
        "GOOGLE_CLOUD_PROJECT": layout.project,
        "GOOGLE_APPLICATION_CREDENTIALS": str(layout.google_credentials),
        # google-cloud-storage's own; with STORAGE_EMULATOR_HOST it would come without credentials.
        "API_ENDPOINT_OVERRIDE": front,
        "CLOUDSDK_CONFIG": str(layout.gcloud),
        "CLOUDSDK_CORE_PROJECT": layout.project,
        # Its service account keys lead to Google's own token service, whatever they say.
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(layout.access_token),
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        # The gsutil of the Cloud SDK is given these authorities over those of its own config.
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(layout.bundle),
        "BOTO_CONFIG": str(layout.boto_config),
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}": f"{front}/{path}" for api, path in _OVERRIDES.items()},
        # Some clients ask Google beside the addresses that they are given, with the sandbox's token: google-auth looks
        # for a regional access boundary in the background. Through the proxy Google's hosts are the sandbox.
        **dict.fromkeys(("https_proxy", "HTTPS_PROXY", OWN_PROXY), proxy),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), _not_by_proxy()),
        OWNER_PROXY: owner_proxy(os.environ),
        "REQUESTS_CA_BUNDLE": str(layout.bundle),
        **(_official(layout, front) if layout.config.gcp_provider == OFFICIAL else {}),
    }


def served_project() -> str | None:
    """Return the project of the sandbox that the variables of this process lead to; None if they lead to none."""
    return os.environ.get("GOOGLE_CLOUD_PROJECT") if os.environ.get(OWN_PROXY) else None


def _not_by_proxy() -> str:
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    return ",".join(dict.fromkeys([*filter(None, given.split(",")), LOOPBACK, "localhost", "::1"]))


def _official(layout: Layout, front: str) -> dict[str, str]:
    """Return the variables that lead the official gcp plugin here; it would ask Google for the list of regions."""
    return {
        "GOOGLE_OAUTH_ACCESS_TOKEN": layout.token,
        "PULUMI_GCP_SKIP_REGION_VALIDATION": "true",
        **{f"GOOGLE_{service}_CUSTOM_ENDPOINT": f"{front}/{path}" for service, path in _ENDPOINTS.items()},
    }


def trainer_variables(layout: Layout) -> dict[str, str]:
    """Return the variables that TensorFlow needs outside a pod to reach gs:// of the sandbox unmodified."""
    return {
        "CURL_CA_BUNDLE": str(layout.bundle),
        # TensorFlow asks for a metadata server before it looks for a key file.
        "NO_GCE_CHECK": "true",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
