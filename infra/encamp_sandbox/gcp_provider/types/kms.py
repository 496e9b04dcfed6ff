"""Keys of Cloud KMS, which Google keeps when Pulumi forgets them.

Source: hashicorp/terraform-provider-google-beta google-beta/services/kms.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, ResourceType

if TYPE_CHECKING:
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties


class _Rings(ResourceType):
    """Key rings cannot be deleted."""

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Forget the ring."""


KEY_RING: Final = _Rings(
    "gcp:kms/keyRing:KeyRing",
    "cloudkms/v1",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/locations/{inputs['location']}/keyRings",
    TypeMapping(own=frozenset({"project", "name", "location"})),
    prepare=lambda body, inputs, _context: (body, {"keyRingId": str(inputs["name"])}),
    show=lambda answer, _inputs, _context: {
        "name": str(answer["name"]).rpartition("/")[2],
        "location": str(answer["name"]).split("/")[3],
    },
)


class _Keys(ResourceType):
    """Keys: their versions are destroyed, their names stay."""

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Stop the rotation and destroy every version."""
        path = self.path(resource_id)
        if await context.rest.find(path, context.patience) is None:
            return
        if inputs.get("rotationPeriod"):
            query = {"updateMask": "rotationPeriod,nextRotationTime"}
            await context.rest.call("PATCH", path, context.patience, body={}, query=query)
        found = await context.rest.call("GET", f"{path}/cryptoKeyVersions", context.patience)
        for version in found.get("cryptoKeyVersions", ()):
            await context.rest.call("POST", f"{self.path(version['name'])}:destroy", context.patience, body={})

    async def send(self, name: str, body: Body, fields: list[str], outputs: Properties, context: Context) -> None:
        """Change the key; with its rotation goes the time of the next one."""
        if "rotationPeriod" in fields:
            body, fields = {**body, **_next_rotation(body)}, [*fields, "nextRotationTime"]
        await super().send(name, body, fields, outputs, context)


def _next_rotation(body: Body) -> Body:
    period = str(body.get("rotationPeriod") or "").removesuffix("s")
    if not period.isdecimal():
        return {}
    return {"nextRotationTime": (datetime.now(UTC) + timedelta(seconds=int(period))).isoformat()}


def _draft(body: Body, inputs: Properties, _context: Context) -> tuple[Body, dict[str, str]]:
    skipped = str(bool(inputs.get("skipInitialVersionCreation"))).lower()
    query = {"cryptoKeyId": str(inputs["name"]), "skipInitialVersionCreation": skipped}
    return {**body, **_next_rotation(body)}, query


def _show(answer: Body, _inputs: Properties, _context: Context) -> Body:
    ring, _, name = str(answer["name"]).rpartition("/cryptoKeys/")
    primary = answer.get("primary") or {}
    shown = {key: primary[key] for key in ("name", "state") if primary.get(key)}
    return {"name": name, "keyRing": ring, "primaries": [shown] if shown else []}


def _rotation(inputs: Properties) -> list[tuple[str, str]]:
    """Refuse what the provider does not send: a period that is none, or is shorter than a day."""
    period = inputs.get("rotationPeriod")
    if not isinstance(period, str):
        return []
    seconds = period.removesuffix("s").partition(".")[0]
    if not period.endswith("s") or not seconds.isdecimal():
        return [("rotationPeriod", f"Invalid rotation period format: {period}")]
    if int(seconds) < 86400:  # noqa: PLR2004 - a day
        return [("rotationPeriod", "rotation period must be greater than or equal to 86400s")]
    return []


CRYPTO_KEY: Final = _Keys(
    "gcp:kms/cryptoKey:CryptoKey",
    "cloudkms/v1",
    lambda inputs, _context: f"{inputs['keyRing']}/cryptoKeys",
    TypeMapping(own=frozenset({"deletionPolicy", "name", "keyRing", "skipInitialVersionCreation"})),
    prepare=_draft,
    show=_show,
    change=Change.MASK,
    labels="labels",
    checks=_rotation,
)

KMS_TYPES: Final = (KEY_RING, CRYPTO_KEY)
