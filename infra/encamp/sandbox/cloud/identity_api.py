"""Service accounts, tokens for them, and IAM policies: iam v1, iamcredentials v1, cloudresourcemanager v1 and v3.

Sources: cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts,
cloud.google.com/iam/docs/reference/credentials/rest, cloud.google.com/resource-manager/reference/rest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from encamp.sandbox.cloud.calls import no_such_method, page
from encamp.sandbox.cloud.errors import GoogleError
from encamp.sandbox.cloud.policies import Binding
from encamp.sandbox.cloud.tokens import LIFETIME_SECONDS
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from encamp.sandbox.cloud.access import Access
    from encamp.sandbox.cloud.calls import Call
    from encamp.sandbox.cloud.policies import Policies
    from encamp.sandbox.cloud.store import CloudResource, CloudStore
    from encamp.sandbox.cloud.tokens import Tokens


def service_account(resource: CloudResource) -> dict[str, Any]:
    """A ServiceAccount as the API shows it."""
    inputs, facts = resource.body["inputs"], resource.body["facts"]
    shown = {
        "name": resource.name,
        "projectId": resource.name.split("/")[1],
        "uniqueId": facts["uniqueId"],
        "email": facts["email"],
        "displayName": inputs.get("displayName"),
        "description": inputs.get("description"),
        "disabled": inputs.get("disabled"),
        "oauth2ClientId": facts["uniqueId"],
        "etag": resource.etag,
    }
    return {key: value for key, value in shown.items() if value}


class IdentityApi:
    """Serves iam, iamcredentials and cloudresourcemanager."""

    def __init__(self, store: CloudStore, policies: Policies, access: Access, tokens: Tokens) -> None:
        self._store = store
        self._policies = policies
        self._access = access
        self._tokens = tokens

    async def iam(self, call: Call) -> Response:
        """Answer a call of the IAM API."""
        match call.plain:
            case ("v1", "projects", project, "serviceAccounts") if call.method == "GET":
                self._access.require(call.principal, "iam.serviceAccounts.list")
                found = [service_account(item) for item in self._store.all_of("serviceAccount", f"projects/{project}")]
                shown, following = page(found, call.query)
                answer = {"accounts": shown} if shown else {}
                return JSONResponse({**answer, "nextPageToken": following} if following else answer)
            case ("v1", "projects", _, "serviceAccounts", email):
                name = self._account(email)
                if call.verb:
                    return await self._policy(call, name, "iam.serviceAccounts")
                if call.method == "GET":
                    self._access.require(call.principal, "iam.serviceAccounts.get", resource=name)
                    return JSONResponse(service_account(self._store.get(name)))
                if call.method == "DELETE":
                    self._access.require(call.principal, "iam.serviceAccounts.delete", resource=name)
                    delete_account(self._store, self._policies, name)
                    return JSONResponse({})
        raise no_such_method(call)

    async def credentials(self, call: Call) -> Response:
        """Give an access token for a service account; administrators only, and no delegation."""
        match call.plain:
            case ("v1", "projects", _, "serviceAccounts", email) if call.verb == "generateAccessToken":
                account = self._store.get(self._account(email))
                resource = account.name
                if not call.principal.admin:
                    self._access.require(call.principal, "iam.serviceAccounts.getAccessToken", resource=resource)
                asked = await call.json()
                lifetime, scopes = _seconds(asked.get("lifetime")), " ".join(map(str, asked.get("scope") or ()))
                token, expires = self._tokens.issue(account.body["facts"]["email"], lifetime, scopes)
                return JSONResponse({"accessToken": token, "expireTime": rfc3339(expires)})
        raise no_such_method(call)

    async def projects(self, call: Call) -> Response:
        """Answer a call of the Resource Manager API."""
        match call.plain:
            case ("v1" | "v3" as version, "projects", _):
                # A project goes by its id or its number.
                name = f"projects/{self._access.project}"
                if call.verb:
                    return await self._policy(call, name, "resourcemanager.projects")
                if call.method == "GET":
                    self._access.require(call.principal, "resourcemanager.projects.get")
                    return JSONResponse(self._project(version))
        raise no_such_method(call)

    def _project(self, version: str) -> dict[str, Any]:
        project, number = self._access.project, project_number(self._access.project)
        if version == "v3":
            return {"name": f"projects/{number}", "projectId": project, "displayName": project, "state": "ACTIVE"}
        return {"projectNumber": number, "projectId": project, "name": project, "lifecycleState": "ACTIVE"}

    def _account(self, email: str) -> str:
        """The full name of an account that is named by its e-mail or its unique id."""
        if not email.isdigit():
            return f"projects/{self._access.project}/serviceAccounts/{email}"
        for found in self._store.all_of("serviceAccount"):
            if found.body["facts"]["uniqueId"] == email:
                return found.name
        raise GoogleError(404, f"Unknown service account: {email}.")

    def _audit_configs(self, resource: str) -> dict[str, Any]:
        """What of a project is put on record, as its policy shows it."""
        if resource != f"projects/{self._access.project}":
            return {}
        configs = [
            {"service": each.body["inputs"]["service"], "auditLogConfigs": each.body["inputs"]["auditLogConfigs"]}
            for each in self._store.all_of("auditConfig")
        ]
        return {"auditConfigs": configs} if configs else {}

    async def _policy(self, call: Call, resource: str, service: str) -> Response:
        if resource.rpartition("/")[0].endswith("serviceAccounts"):
            self._store.get(resource)
        if call.verb == "getIamPolicy":
            self._access.require(call.principal, f"{service}.getIamPolicy", resource=resource)
            return JSONResponse({**self._policies.show(resource), **self._audit_configs(resource)})
        if call.verb == "setIamPolicy" and call.method == "POST":
            policy = (await call.json()).get("policy") or {}
            changed = modified_roles(self._policies.bindings(resource), policy)
            self._access.require(call.principal, f"{service}.setIamPolicy", resource=resource, modified_roles=changed)
            return JSONResponse(set_policy(self._access, resource, policy))
        if call.verb == "testIamPermissions" and call.method == "POST":
            asked = (await call.json()).get("permissions") or []
            given = [name for name in asked if self._access.allows(call.principal, name, resource=resource)]
            return JSONResponse({"permissions": given} if given else {})
        raise no_such_method(call)


def modified_roles(present: Iterable[Binding], policy: dict[str, Any]) -> tuple[str, ...]:
    """The roles whose members, or whose conditions, a new policy changes.

    Source: cloud.google.com/iam/docs/setting-limits-on-granting-roles.
    """
    news = [Binding.of(data) for data in policy.get("bindings") or ()]
    before, after = (
        {(each.role, str(each.condition), who) for each in some for who in each.members} for some in (present, news)
    )
    return tuple(sorted({role for role, _, _ in before ^ after}))


def set_policy(access: Access, resource: str, policy: dict[str, Any]) -> dict[str, Any]:
    """Check and set a whole policy."""
    bindings = [Binding.of(data) for data in policy.get("bindings") or ()]
    present = access.policies.bindings(resource)
    for binding in bindings:
        if binding not in present:
            access.check_binding(resource, binding)
    return access.policies.replace(resource, bindings, etag=policy.get("etag"))


def delete_account(store: CloudStore, policies: Policies, name: str) -> None:
    """Delete a service account; its bindings elsewhere stay and say that it is gone."""
    account = store.get(name)
    store.delete(name)
    policies.mark_deleted(account.body["facts"]["email"], account.body["facts"]["uniqueId"])


def workload_principal(project: str, namespace: str, account: str) -> str:
    """A Kubernetes service account of the project's workload pool as a member of IAM bindings.

    Source: cloud.google.com/iam/docs/principal-identifiers.
    """
    pool = f"projects/{project_number(project)}/locations/global/workloadIdentityPools/{project}.svc.id.goog"
    return f"principal://iam.googleapis.com/{pool}/subject/ns/{namespace}/sa/{account}"


def rfc3339(seconds: float) -> str:
    """A time since the epoch as the APIs write it, in whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(lifetime: object) -> float:
    if lifetime in (None, ""):
        return LIFETIME_SECONDS
    text = str(lifetime)
    if not text.endswith("s") or not text[:-1].isdigit() or not 0 < int(text[:-1]) <= LIFETIME_SECONDS:
        raise GoogleError(400, f"lifetime has to be between 1s and {LIFETIME_SECONDS}s.")
    return int(text[:-1])
