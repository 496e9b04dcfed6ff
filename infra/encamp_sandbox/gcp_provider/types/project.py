"""Services, service accounts, custom roles, audit configs, the agents of Google's services.

Source: hashicorp/terraform-provider-google-beta google-beta/services/resourcemanager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.gcp_provider.mapping import TypeMapping
from encamp_sandbox.gcp_provider.model import Change, Context, Made, ResourceType
from encamp_sandbox.gcp_provider.types.members import PROJECT_POLICY

if TYPE_CHECKING:
    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_OWN = frozenset({"project", "deletionPolicy"})
_CONFLICT = 409
_ROLE_FIELDS = ("title", "description", "stage", "permissions")


def _service_name(inputs: Properties) -> list[tuple[str, str]]:
    service = inputs.get("service")
    if not isinstance(service, str) or "." in service:
        return []
    return [("service", f"{service} is no name of a service, such as container.googleapis.com")]


class _Services(ResourceType):
    """Enabled services: one that is enabled already is taken over, and stays enabled unless told otherwise."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Enable the service."""
        project, service = context.project_of(inputs), str(inputs["service"])
        path = f"/serviceusage/v1/projects/{project}/services/{service}:enable"
        await self.finish(await context.rest.call("POST", path, context.patience, body={}), "", context)
        return self._made(inputs, context)

    def _made(self, inputs: Properties, context: Context) -> Made:
        project = context.project_of(inputs)
        outputs = {"project": project, "disableOnDestroy": False, **inputs}
        return Made(f"{project}/{inputs['service']}", outputs)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the service if it is enabled."""
        project, service = resource_id.split("/")[-2:]
        path = f"/serviceusage/v1/projects/{project}/services/{service}"
        found = await context.rest.call("GET", path, context.patience)
        if found["state"] != "ENABLED":
            return None
        return self._made(inputs or {"project": project, "service": service}, context)

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Keep what is the provider's alone."""
        del made, changed
        return self._made(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Disable the service, if that was asked for."""
        if inputs.get("disableOnDestroy"):
            project, service = resource_id.split("/")[-2:]
            path = f"/serviceusage/v1/projects/{project}/services/{service}:disable"
            await self.finish(await context.rest.call("POST", path, context.patience, body={}), "", context)


SERVICE: Final = _Services(
    "gcp:projects/service:Service", "serviceusage/v1", lambda _inputs, context: f"projects/{context.project}/services",
    short_name=lambda inputs: str(inputs["service"]), wait=True, checks=_service_name,
)  # fmt: skip


class _Identities(ResourceType):
    """The agents of Google's services: asking for one makes it, asking again answers with the same, none is deleted."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Ask for the agent of an enabled service."""
        project, service = context.project_of(inputs), str(inputs["service"])
        path = f"/serviceusage/v1beta1/projects/{project}/services/{service}:generateServiceIdentity"
        answer = await context.rest.call("POST", path, context.patience, body={})
        path = f"/serviceusage/v1beta1/{answer['name']}"
        done = await context.rest.finished(answer, path, context.patience)
        email = str(done["response"]["email"])
        outputs = {**inputs, "project": project, "email": email, "member": f"serviceAccount:{email}"}
        return Made(f"projects/{project}/services/{service}", outputs)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Return the agent by asking for it again: it cannot be read."""
        project, _, service = resource_id.split("/")[-3:]
        return await self.create(inputs or {"project": project, "service": service}, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Leave it: Google has no such call."""


IDENTITY: Final = _Identities(
    "gcp:projects/serviceIdentity:ServiceIdentity",
    "serviceusage/v1beta1",
    lambda _inputs, context: f"projects/{context.project}/services",
    short_name=lambda inputs: str(inputs["service"]),
    checks=_service_name,
)


class _Accounts(ResourceType):
    """Service accounts: one that exists may be taken over."""

    def name(self, inputs: Properties, context: Context) -> str:
        """Return the full name, which ends in the e-mail."""
        project = context.project_of(inputs)
        return f"projects/{project}/serviceAccounts/{inputs['accountId']}@{project}.iam.gserviceaccount.com"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the account, or take over one that exists if that was asked for."""
        try:
            made = await super().create(inputs, context)
        except GoogleError as error:
            if error.code != _CONFLICT or not inputs.get("createIgnoreAlreadyExists"):
                raise
            return await self.found(self.name(inputs, context), inputs, context)
        if inputs.get("disabled"):
            await context.rest.call("POST", f"{self.path(made.resource_id)}:disable", context.patience, body={})
            return await self.found(made.resource_id, inputs, context)
        return made

    async def send(self, name: str, body: Body, fields: list[str], outputs: Properties, context: Context) -> None:
        """Switch the account on or off, and change its texts."""
        del outputs
        if "disabled" in fields:
            verb = "disable" if body.get("disabled") else "enable"
            await context.rest.call("POST", f"{self.path(name)}:{verb}", context.patience, body={})
        texts = [field for field in fields if field in ("displayName", "description")]
        if texts:
            patch = {"serviceAccount": {field: body.get(field) or "" for field in texts}, "updateMask": ",".join(texts)}
            await context.rest.call("PATCH", self.path(name), context.patience, body=patch)


def _account_body(body: Body, inputs: Properties, _context: Context) -> tuple[Body, dict[str, str]]:
    texts = {key: body[key] for key in ("displayName", "description") if body.get(key)}
    return {"accountId": inputs["accountId"], "serviceAccount": texts}, {}


def _show_account(answer: Body, inputs: Properties, _context: Context) -> Body:
    return {
        "accountId": str(answer["email"]).partition("@")[0],
        "member": f"serviceAccount:{answer['email']}",
        "disabled": bool(answer.get("disabled")),
        "displayName": answer.get("displayName", ""),
        "description": answer.get("description", ""),
        "createIgnoreAlreadyExists": inputs.get("createIgnoreAlreadyExists"),
    }


ACCOUNT: Final = _Accounts(
    "gcp:serviceaccount/account:Account",
    "iam/v1",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/serviceAccounts",
    TypeMapping(own=_OWN | {"createIgnoreAlreadyExists"}),
    short_name=lambda inputs: str(inputs["accountId"]),
    prepare=_account_body,
    show=_show_account,
    change=Change.MASK,
)


class _Roles(ResourceType):
    """Custom roles: a deleted one keeps its id for weeks, and is taken back."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make the role, or take a deleted one back and give it what is asked for."""
        name = self.name(inputs, context)
        present = await context.rest.find(self.path(name), context.patience)
        if present is None:
            return await super().create(inputs, context)
        if not present.get("deleted"):
            raise GoogleError(409, f"Custom project role {name} already exists and must be imported. Already exists.")
        await context.rest.call("POST", f"{self.path(name)}:undelete", context.patience, body={"etag": present["etag"]})
        back = await self.found(name, inputs, context)
        return await self.update(back, inputs, {(name,) for name in _ROLE_FIELDS}, context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the role, unless it is deleted."""
        found = await super().read(resource_id, inputs, context)
        return None if found is None or found.outputs.get("deleted") else found


ROLE: Final = _Roles(
    "gcp:projects/iAMCustomRole:IAMCustomRole",
    "iam/v1",
    lambda inputs, context: f"projects/{context.project_of(inputs)}/roles",
    TypeMapping(names={"permissions": "includedPermissions"}, own=_OWN | {"roleId"}),
    short_name=lambda inputs: str(inputs["roleId"]),
    prepare=lambda body, inputs, _context: ({"roleId": inputs["roleId"], "role": body}, {}),
    show=lambda answer, _inputs, _context: {
        "deleted": bool(answer.get("deleted")), "roleId": str(answer["name"]).rpartition("/")[2],
    },
    change=Change.MASK,
)  # fmt: skip


class _Audits(ResourceType):
    """Audit configs of one service: entries of the project's policy."""

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Set the entry of the service."""
        wanted = {"service": inputs["service"], "auditLogConfigs": inputs["auditLogConfigs"]}
        policy = await PROJECT_POLICY.change(lambda now: _audited(now, str(inputs["service"]), wanted), inputs, context)
        return self._made(policy, inputs)

    def _made(self, policy: Body, inputs: Properties) -> Made:
        identifier = f"{inputs['project']}/audit_config/{inputs['service']}"
        return Made(identifier, {**inputs, "etag": policy["etag"]})

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the entry."""
        project, service = resource_id.split("/audit_config/")
        asked = {**inputs, "project": project, "service": service}
        policy = await PROJECT_POLICY.read(asked, context)
        for one in policy.get("auditConfigs") or ():
            if one["service"] == service:
                return self._made(policy, {**asked, "auditLogConfigs": one["auditLogConfigs"]})
        return None

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Replace the entry."""
        del made, changed
        return await self.create(inputs, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Take the entry away."""
        project, service = resource_id.split("/audit_config/")
        await PROJECT_POLICY.change(lambda now: _audited(now, service, None), {**inputs, "project": project}, context)


def _audited(policy: Body, service: str, wanted: Body | None) -> Body:
    others = [one for one in policy.get("auditConfigs") or () if one["service"] != service]
    return {**policy, "auditConfigs": [*others, wanted] if wanted else others}


def _check_audits(inputs: Properties) -> list[tuple[str, str]]:
    kinds = [one.get("logType") for one in inputs.get("auditLogConfigs") or () if isinstance(one, dict)]
    doubled = next((kind for kind in kinds if kinds.count(kind) > 1), None)
    return [] if doubled is None else [("auditLogConfigs", f"{doubled} is configured {kinds.count(doubled)} times")]


AUDIT: Final = _Audits(
    "gcp:projects/iAMAuditConfig:IAMAuditConfig",
    "cloudresourcemanager/v1",
    lambda inputs, _context: f"projects/{inputs['project']}",
    short_name=lambda inputs: str(inputs["service"]),
    checks=_check_audits,
)

PROJECT_TYPES: Final = (SERVICE, IDENTITY, ACCOUNT, ROLE, AUDIT)
