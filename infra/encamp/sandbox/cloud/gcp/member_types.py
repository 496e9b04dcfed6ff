"""IAM members: one role of one member on the project, a bucket or a service account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.sandbox.cloud.errors import GoogleError, not_found
from encamp.sandbox.cloud.gcp.common import PROJECT
from encamp.sandbox.cloud.gcp.model import Made, ResourceType, Rule
from encamp.sandbox.cloud.policies import Binding, bucket_policy_name, clean_condition

if TYPE_CHECKING:
    from collections.abc import Callable

    from encamp.sandbox.cloud.gcp.model import Context, Problem
    from encamp.sandbox.provider import Properties


@dataclass(frozen=True)
class MemberBackend:
    """Members of one kind of resource.

    Attributes:
        resource: name under which the resource's policy is kept.
        prefix: how Pulumi's ids begin, with the resource in them.
        exists: raises GoogleError unless the resource exists.
    """

    resource: Callable[[Properties, Context], str]
    prefix: Callable[[Properties, Context], str]
    exists: Callable[[Properties, Context], Any]

    def name(self, inputs: Properties, context: Context) -> str:
        """Give the full name: the id, since bindings have none."""
        condition = clean_condition(inputs.get("condition"))
        title = f"/{condition['title']}" if condition and condition.get("title") else ""
        return f"{self.prefix(inputs, context)}/{inputs['role']}/{inputs['member']}{title}"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Give the role."""
        await self._check(inputs, context)
        role, member, condition = _binding(inputs)
        policy = context.cloud.policies.add(self.resource(inputs, context), role, member, condition)
        return self._made(inputs, policy["etag"], context)

    async def _check(self, inputs: Properties, context: Context) -> None:
        found = self.exists(inputs, context)
        if hasattr(found, "__await__"):
            await found
        role, member, condition = _binding(inputs)
        context.cloud.access.check_binding(self.resource(inputs, context), Binding(role, (member,), condition))

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it; an import without inputs is not known by its id alone."""
        if not inputs:
            raise GoogleError(400, f"the sandbox cannot import an IAM member by its id ({resource_id})")
        resource = self.resource(inputs, context)
        role, member, condition = _binding(inputs)
        if not context.cloud.policies.has(resource, role, member, condition):
            return None
        return self._made(inputs, context.cloud.policies.show(resource)["etag"], context)

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Never asked for: every input replaces."""
        await self.delete(resource_id, olds, context)
        return await self.create(news, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Take the role; also from a service account that is gone, whose bindings were renamed."""
        del resource_id
        resource = self.resource(inputs, context)
        role, member, condition = _binding(inputs)
        with context.cloud.database.transaction():
            context.cloud.policies.remove(resource, role, member, condition)
            for binding in context.cloud.policies.bindings(resource):
                for gone in binding.members:
                    if binding.role == role and gone.startswith(f"deleted:{member}?"):
                        context.cloud.policies.remove(resource, role, gone, condition)

    def _made(self, inputs: Properties, etag: str, context: Context) -> Made:
        kept = {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}
        return Made(self.name(inputs, context), {**kept, "etag": etag}, kept)


def _binding(inputs: Properties) -> tuple[str, str, dict[str, str] | None]:
    return str(inputs["role"]), str(inputs["member"]), clean_condition(inputs.get("condition"))


def _bucket(inputs: Properties) -> str:
    return str(inputs["bucket"]).removeprefix("b/").removeprefix("gs://")


async def _bucket_exists(inputs: Properties, context: Context) -> None:
    shown = await context.storage.bucket(_bucket(inputs))
    if shown is None:
        raise not_found(bucket_policy_name(_bucket(inputs)))
    uniform = shown["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"]
    if inputs.get("condition") and not uniform:
        raise GoogleError(400, "IAM conditions on a bucket require uniform bucket-level access to be enabled.")
    # Belief: storage-federated-members-need-uniform-access.
    if str(inputs["member"]).startswith(("principal://", "principalSet://")) and not uniform:
        raise GoogleError(400, "Uniform bucket-level access must be enabled to grant federated identities access.")


def _account(inputs: Properties, context: Context) -> str:
    given = str(inputs["serviceAccountId"])
    return given if given.startswith("projects/") else f"projects/{context.project}/serviceAccounts/{given}"


def _role_given(inputs: Properties, _: Context) -> Problem:
    role = str(inputs.get("role"))
    return None if "roles/" in role else f'"role" ("{role}") doesn\'t look like a role, such as roles/viewer'


def _condition_title(inputs: Properties, _: Context) -> Problem:
    condition = inputs.get("condition")
    if condition is None or (condition.get("title") and condition.get("expression")):
        return None
    return "a condition has a title and an expression"


#: What Google refuses of every binding.
MEMBER_RULES: Final = (
    Rule("role", "cloud.google.com/iam/docs/roles-overview", ("role",), _role_given),
    Rule("condition", "cloud.google.com/iam/docs/conditions-overview", ("condition",), _condition_title),
)

PROJECT_MEMBER: Final = ResourceType(
    "gcp:projects/iAMMember:IAMMember",
    wheel=("pulumi_gcp.projects", "IAMMember"),
    backend=MemberBackend(
        resource=lambda _inputs, context: f"projects/{context.project}",
        prefix=lambda _inputs, context: context.project,
        exists=lambda _inputs, _context: None,
    ),
    required=("project", "role", "member"),
    immutable=("project", "role", "member", "condition"),
    computed=("etag",),
    rules=(PROJECT, *MEMBER_RULES),
)
BUCKET_MEMBER: Final = ResourceType(
    "gcp:storage/bucketIAMMember:BucketIAMMember",
    wheel=("pulumi_gcp.storage", "BucketIAMMember"),
    backend=MemberBackend(
        resource=lambda inputs, _context: bucket_policy_name(_bucket(inputs)),
        prefix=lambda inputs, _context: f"b/{_bucket(inputs)}",
        exists=_bucket_exists,
    ),
    required=("bucket", "role", "member"),
    immutable=("bucket", "role", "member", "condition"),
    computed=("etag",),
    rules=MEMBER_RULES,
)
ACCOUNT_MEMBER: Final = ResourceType(
    "gcp:serviceaccount/iAMMember:IAMMember",
    wheel=("pulumi_gcp.serviceaccount", "IAMMember"),
    backend=MemberBackend(
        resource=_account,
        prefix=_account,
        exists=lambda inputs, context: context.cloud.store.get(_account(inputs, context)),
    ),
    required=("serviceAccountId", "role", "member"),
    immutable=("serviceAccountId", "role", "member", "condition"),
    computed=("etag",),
    rules=MEMBER_RULES,
)
