"""Members of IAM policies: one role of one member on the project, a bucket, a service account, a key or a registry.

A policy is read, changed and written whole, one change at a time; who was quicker makes the others begin anew. A
service account that was made a moment ago may be unknown to IAM still: that passes.
Source: hashicorp/terraform-provider-google-beta google-beta/tpgiamresource (iam.go, resource_iam_member.go).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.values import short
from encamp_sandbox.gcp_provider.model import Context, Made, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.mapping import Body
    from encamp_sandbox.provider import Properties

_VERSION = 3
_MISSING = 404
_CONDITION = ("title", "description", "expression")


@dataclass(frozen=True)
class Policy:
    """The IAM policy of one kind of resource.

    Attributes:
        path: of the resource, by the inputs.
        prefix: how Pulumi's ids begin.
        storage: whether it has Cloud Storage's form: a resource of its own below the bucket.
        get_by_post: whether it is read by POST.
    """

    path: Callable[[Properties, Context], str]
    prefix: Callable[[Properties, Context], str]
    storage: bool = False
    get_by_post: bool = False

    async def read(self, inputs: Properties, context: Context) -> Body:
        """Return the policy with its conditions."""
        path = self.path(inputs, context)
        if self.storage:
            query = {"optionsRequestedPolicyVersion": str(_VERSION)}
            return await context.rest.call("GET", f"{path}/iam", context.patience, query=query)
        if self.get_by_post:
            body = {"options": {"requestedPolicyVersion": _VERSION}}
            return await context.rest.call("POST", f"{path}:getIamPolicy", context.patience, body=body)
        query = {"options.requestedPolicyVersion": str(_VERSION)}
        return await context.rest.call("GET", f"{path}:getIamPolicy", context.patience, query=query)

    async def write(self, policy: Body, inputs: Properties, context: Context) -> Body:
        """Set the policy as it was read and changed; refused where it has changed meanwhile."""
        path, wanted = self.path(inputs, context), {**policy, "version": _VERSION}
        if self.storage:
            return await context.rest.call("PUT", f"{path}/iam", context.patience, body=wanted)
        body: Body = {"policy": wanted}
        if path.startswith("/cloudresourcemanager/"):
            body["updateMask"] = "bindings,etag,auditConfigs"
        return await context.rest.call("POST", f"{path}:setIamPolicy", context.patience, body=body)

    async def change(self, change: Callable[[Body], Body], inputs: Properties, context: Context) -> Body:
        """Read, change and write; again where others were quicker or a new account is not known yet."""

        async def once() -> Body:
            return await self.write(change(await self.read(inputs, context)), inputs, context)

        return await context.rest.rewritten(self.path(inputs, context), once, context.patience, _unknown_account)


def _unknown_account(error: GoogleError) -> bool:
    return error.code == 400 and "does not exist" in error.message and "ervice account" in error.message  # noqa: PLR2004


def _condition(holder: Body) -> Body | None:
    """Return the condition of inputs or of a binding."""
    given = holder.get("condition")
    return {key: given[key] for key in _CONDITION if given.get(key)} if given else None


def _same_binding(binding: Body, inputs: Properties) -> bool:
    return binding["role"] == inputs["role"] and _condition(binding) == _condition(inputs)


def _member(inputs: Properties) -> str:
    return str(inputs["member"])


@dataclass(frozen=True)
class MemberType(ResourceType):
    """A type of members. Every property replaces."""

    policy: Policy = field(kw_only=True)

    def name(self, inputs: Properties, context: Context) -> str:
        """Return Pulumi's id, since a binding has no name."""
        condition = _condition(inputs)
        title = f"/{condition['title']}" if condition and condition.get("title") else ""
        return f"{self.policy.prefix(inputs, context)}/{inputs['role']}/{_member(inputs)}{title}"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Grant the role."""

        def given(policy: Body) -> Body:
            bindings = [dict(one) for one in policy.get("bindings") or ()]
            for one in bindings:
                if _same_binding(one, inputs):
                    one["members"] = sorted({*one.get("members", ()), _member(inputs)})
                    break
            else:
                condition = _condition(inputs)
                more = {"condition": condition} if condition else {}
                bindings.append({"role": inputs["role"], "members": [_member(inputs)], **more})
            return {**policy, "bindings": bindings}

        policy = await self.policy.change(given, inputs, context)
        return self._made(policy, inputs, context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find the role; a member cannot be imported by its id alone."""
        if not inputs:
            raise GoogleError(400, f"the sandbox cannot import an IAM member by its id ({resource_id})")
        try:
            policy = await self.policy.read(inputs, context)
        except GoogleError as error:
            if error.code != _MISSING:
                raise
            return None
        member = _member(inputs).lower()
        for one in policy.get("bindings") or ():
            if _same_binding(one, inputs) and member in [each.lower() for each in one.get("members", ())]:
                return self._made(policy, inputs, context)
        return None

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Refuse: an update is never asked for."""
        raise NotImplementedError(self.token)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Take the role; also from a service account that is gone, whose bindings were renamed."""
        del resource_id
        gone = f"deleted:{_member(inputs)}?"

        def taken(policy: Body) -> Body:
            bindings = []
            for one in policy.get("bindings") or ():
                members = one.get("members", [])
                if _same_binding(one, inputs):
                    members = [each for each in members if each != _member(inputs) and not each.startswith(gone)]
                if members:
                    bindings.append({**one, "members": members})
            return {**policy, "bindings": bindings}

        try:
            await self.policy.change(taken, inputs, context)
        except GoogleError as error:
            if error.code != _MISSING:
                raise

    def _made(self, policy: Body, inputs: Properties, context: Context) -> Made:
        outputs = {key: value for key, value in inputs.items() if value is not None}
        if "project" in self.schema.fields:
            outputs.setdefault("project", context.project_of(inputs))
        return Made(self.name(inputs, context), {**outputs, "etag": policy["etag"]})


def bucket_of(inputs: Properties) -> str:
    """Return the bare name of a bucket."""
    return str(inputs["bucket"]).removeprefix("b/").removeprefix("gs://")


def account_of(inputs: Properties, context: Context) -> str:
    """Return the full name of a service account."""
    given = str(inputs["serviceAccountId"])
    return given if given.startswith("projects/") else f"projects/{context.project}/serviceAccounts/{given}"


def repository_of(inputs: Properties, context: Context) -> str:
    """Return the full name of a registry."""
    given = str(inputs["repository"])
    if given.startswith("projects/"):
        return given
    place = f"projects/{context.project_of(inputs)}/locations/{context.location_of(inputs)}"
    return f"{place}/repositories/{short(given)}"


def _project(inputs: Properties, _context: Context) -> str:
    return str(inputs["project"])


def _key(inputs: Properties, _context: Context) -> str:
    return str(inputs["cryptoKeyId"])


def _below(endpoint: str, name: Callable[[Properties, Context], str], **more: Any) -> Policy:
    return Policy(lambda inputs, context: f"/{endpoint}/{name(inputs, context)}", name, **more)


def _members(token: str, policy: Policy) -> MemberType:
    return MemberType(token, "", lambda _inputs, _context: "", suppress={"member": _same_member}, policy=policy)


def _same_member(old: object, new: object) -> bool:
    """Whether members are equal, without regard to case."""
    return str(old).lower() == str(new).lower()


PROJECT_POLICY: Final = Policy(
    lambda inputs, _context: f"/cloudresourcemanager/v1/projects/{inputs['project']}", _project, get_by_post=True
)
MEMBER_TYPES: Final = (
    _members("gcp:projects/iAMMember:IAMMember", PROJECT_POLICY),
    _members(
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        Policy(
            lambda inputs, _context: f"/storage/v1/b/{quote(bucket_of(inputs), safe='')}",
            lambda inputs, _context: f"b/{bucket_of(inputs)}",
            storage=True,
        ),
    ),
    _members("gcp:serviceaccount/iAMMember:IAMMember", _below("iam/v1", account_of, get_by_post=True)),
    _members("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", _below("cloudkms/v1", _key)),
    _members(
        "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember", _below("artifactregistry/v1", repository_of)
    ),
)
