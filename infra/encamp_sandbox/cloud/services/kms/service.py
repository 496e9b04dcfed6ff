"""Cloud KMS: rings and keys cannot be deleted; a key's versions are destroyed, and its name stays taken.

Sources: cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings,
cloud.google.com/kms/docs/destroy-restore, cloud.google.com/kms/docs/key-rotation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.api import Api
from encamp_sandbox.cloud.rest.collection import Collection, Update, named_in_query
from encamp_sandbox.cloud.rest.routes import Route
from encamp_sandbox.cloud.rest.rules import Rule, choice, labels, name_pattern
from encamp_sandbox.cloud.rest.styles import Plain
from encamp_sandbox.cloud.rest.values import default

if TYPE_CHECKING:
    from encamp_sandbox.cloud.cloud import Cloud
    from encamp_sandbox.cloud.rest.routes import Ask
    from encamp_sandbox.cloud.rest.rules import Change, Problem
    from encamp_sandbox.cloud.store import CloudResource

_NAME = r"[a-zA-Z0-9_-]{1,63}"
_NAME_PROBLEM = '"name" ("{value}") must be 1 to 63 letters, digits, _ and -'
_SHORTEST_ROTATION_SECONDS = 86400
_PURPOSES = (
    "ENCRYPT_DECRYPT", "ASYMMETRIC_SIGN", "ASYMMETRIC_DECRYPT", "MAC", "RAW_ENCRYPT_DECRYPT", "KEY_ENCAPSULATION",
)  # fmt: skip
_ALGORITHM = "GOOGLE_SYMMETRIC_ENCRYPTION"


def _never(resource: CloudResource, cloud: Cloud) -> None:
    del cloud
    raise GoogleError(404, f"{resource.name} cannot be deleted.", belief="kms-names-stay")


def _rotation(change: Change) -> Problem:
    period = change.at("rotationPeriod")
    if period is None:
        return None
    found = re.fullmatch(r"(\d+)(\.\d+)?s", str(period))
    if found is None:
        return f'"rotation_period" ("{period}") must be seconds with an s, such as 7776000s'
    if int(found[1]) < _SHORTEST_ROTATION_SECONDS:
        return f"rotation period must be greater than or equal to {_SHORTEST_ROTATION_SECONDS}s"
    if change.at("purpose") not in (None, "ENCRYPT_DECRYPT"):
        return "a rotation period can be set on keys of the purpose ENCRYPT_DECRYPT only"
    return None


def _fill(change: Change) -> None:
    default(
        change.body,
        {
            "purpose": "ENCRYPT_DECRYPT",
            "versionTemplate": {"protectionLevel": "SOFTWARE", "algorithm": _ALGORITHM},
            "destroyScheduledDuration": "2592000s",
        },
    )


def version_of(key: CloudResource) -> dict[str, Any]:
    """Return the one version of a key."""
    return {
        "name": f"{key.name}/cryptoKeyVersions/1",
        "state": "DESTROY_SCHEDULED" if key.body.get("_destroyed") else "ENABLED",
        "protectionLevel": "SOFTWARE",
        "algorithm": _ALGORITHM,
        "createTime": key.created,
    }


def _show_key(key: CloudResource, cloud: Cloud) -> dict[str, Any]:
    del cloud
    return {"createTime": key.created, "primary": version_of(key)}


KEY_RINGS: Final = Collection(
    kind="keyRing",
    path="projects/{project}/locations/{location}/keyRings",
    style=Plain(),
    permission="cloudkms.keyRings",
    identify=named_in_query("keyRingId"),
    rules=(name_pattern("kms-names", _NAME, _NAME_PROBLEM),),
    show=lambda ring, _cloud: {"createTime": ring.created},
    policy=True,
    deleted=_never,
)

CRYPTO_KEYS: Final = Collection(
    kind="cryptoKey",
    path="projects/{project}/locations/{location}/keyRings/{keyRing}/cryptoKeys",
    style=Plain(),
    permission="cloudkms.cryptoKeys",
    identify=named_in_query("cryptoKeyId"),
    rules=(
        name_pattern("kms-names", _NAME, _NAME_PROBLEM),
        labels(),
        choice("kms-purposes", "purpose", _PURPOSES),
        Rule("kms-rotation", _rotation),
    ),
    needs=lambda change: (change.parent,),
    fill=_fill,
    show=_show_key,
    update=Update.MASK,
    fixed=("purpose", "importOnly", "destroyScheduledDuration"),
    policy=True,
    deleted=_never,
)


async def _versions(ask: Ask) -> dict[str, Any]:
    ask.require("cloudkms.cryptoKeyVersions.list", ask.parent)
    return {"cryptoKeyVersions": [version_of(CRYPTO_KEYS.find(ask.parent, ask.cloud))], "totalSize": 1}


async def _destroy(ask: Ask) -> dict[str, Any]:
    key = CRYPTO_KEYS.find(ask.name.rsplit("/", 2)[0], ask.cloud)
    ask.require("cloudkms.cryptoKeyVersions.destroy", key.name)
    return version_of(ask.cloud.store.merge(key.name, {"_destroyed": True}))


def kms(cloud: Cloud) -> Api:
    """Serve cloudkms.googleapis.com."""
    versions = "projects/{project}/locations/{location}/keyRings/{keyRing}/cryptoKeys/{cryptoKey}/cryptoKeyVersions"
    methods = (
        Route(versions, ("GET",), _versions),
        Route(f"{versions}/{{version}}", ("POST",), _destroy, verb="destroy", operation="delete"),
    )
    return Api(cloud, "cloudkms", ("v1",), (KEY_RINGS, CRYPTO_KEYS), methods)
