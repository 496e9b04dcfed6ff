"""Who may do what: IAM's answer for a principal, a permission and a resource.

A permission is given by a binding on the project, or on the bucket or service account itself.
Source: cloud.google.com/iam/docs/overview and, for listing below a prefix,
cloud.google.com/storage/docs/access-control/iam#conditions.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.sandbox.cloud.conditions import Attributes, ConditionError, holds
from encamp.sandbox.cloud.errors import GoogleError, permission_denied
from encamp.sandbox.cloud.policies import Binding, bucket_policy_name
from encamp.sandbox.cloud.refusals import MALFORMED_MEMBER, UNKNOWN_ACCOUNT, UNKNOWN_POOL, UNKNOWN_ROLE
from encamp.sandbox.cloud.roles import ROLES, role_problem
from encamp.sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from encamp.sandbox.cloud.policies import Policies
    from encamp.sandbox.cloud.store import CloudStore
    from encamp.sandbox.cloud.tokens import Principal

logger = logging.getLogger(__name__)

_MEMBER = re.compile(
    r"allUsers|allAuthenticatedUsers"
    r"|(?:user|group|serviceAccount):[^\s:@\[\]]+@[^\s@\[\]]+"
    r"|domain:[^\s@]+|project(?:Owner|Editor|Viewer):[a-z0-9:.-]+"
    r"|serviceAccount:[a-z0-9:.-]+\.svc\.id\.goog\[[a-z0-9-]+/[a-z0-9.-]+\]"
    r"|principal(?:Set)?://\S+"
    r"|deleted:\S+"
)
_WORKLOAD = re.compile(r"serviceAccount:(?P<pool>[a-z0-9:.-]+\.svc\.id\.goog)\[")
_POOL = re.compile(
    r"principal(?:Set)?://iam\.googleapis\.com/projects/(?P<number>\d+)/locations/global/workloadIdentityPools/(?P<pool>[^/]+)/"
)


@dataclass(frozen=True)
class Access:
    """IAM of one sandbox."""

    project: str
    store: CloudStore
    policies: Policies

    def allows(
        self, principal: Principal, permission: str, *, resource: str = "", modified_roles: tuple[str, ...] = ()
    ) -> bool:
        """Whether a principal has a permission on the project or on one resource of it.

        ``modified_roles`` are those whose members a change of a policy would change.
        """
        if principal.admin:
            return True
        bindings = self.policies.bindings(f"projects/{self.project}")
        bindings += self.policies.bindings(resource) if resource else []
        name = resource or f"//cloudresourcemanager.googleapis.com/projects/{self.project}"
        attributes = Attributes(name, "", modified_roles=modified_roles)
        return self._given(principal, permission, bindings, attributes)

    def require(
        self, principal: Principal, permission: str, *, resource: str = "", modified_roles: tuple[str, ...] = ()
    ) -> None:
        """The same, or a 403."""
        if not self.allows(principal, permission, resource=resource, modified_roles=modified_roles):
            raise permission_denied(permission, resource or f"projects/{self.project}")

    def allows_storage(
        self,
        principal: Principal,
        permission: str,
        bucket: str,
        name: str = "",
        prefix: str = "",
        *,
        modified_roles: tuple[str, ...] = (),
    ) -> bool:
        """Whether a principal has a permission on a bucket or an object; ``prefix`` is that of a listing."""
        if principal.admin:
            return True
        policy = bucket_policy_name(bucket)
        attributes = Attributes(
            f"{policy}/objects/{name}" if name else policy,
            "storage.googleapis.com/Object" if name else "storage.googleapis.com/Bucket",
            prefix,
            modified_roles,
        )
        bindings = [*self.policies.bindings(f"projects/{self.project}"), *self.policies.bindings(policy)]
        return self._given(principal, permission, bindings, attributes)

    def require_storage(
        self,
        principal: Principal,
        permission: str,
        bucket: str,
        name: str = "",
        prefix: str = "",
        *,
        modified_roles: tuple[str, ...] = (),
    ) -> None:
        """The same, or a 403 as the storage API words it."""
        if not self.allows_storage(principal, permission, bucket, name, prefix, modified_roles=modified_roles):
            kind, what = ("object", f"{bucket}/{name}") if name else ("bucket", bucket)
            message = (
                f"{principal.email} does not have {permission} access to the Google Cloud Storage {kind}."
                f" Permission '{permission}' denied on resource '{what}' (or it may not exist)."
            )
            raise GoogleError(403, message)

    def _given(
        self, principal: Principal, permission: str, bindings: Iterable[Binding], attributes: Attributes
    ) -> bool:
        members = {principal.member, "allUsers", "allAuthenticatedUsers"}
        for binding in bindings:
            if members.isdisjoint(binding.members) or permission not in self._permissions(binding.role):
                continue
            if not binding.condition:
                return True
            try:
                if holds(binding.condition.get("expression", ""), attributes):
                    return True
            except ConditionError as error:
                logger.warning("a condition gives nothing: %s", error)
        return False

    def _permissions(self, role: str) -> Collection[str]:
        """What a role allows: one of Google's, or one of the project's own."""
        if role.startswith("roles/"):
            return ROLES.get(role, frozenset())
        custom = self.store.find(role)
        return custom.body["inputs"]["permissions"] if custom is not None and custom.kind == "role" else ()

    def check_binding(self, resource: str, binding: Binding) -> None:
        """Refuse what Google refuses in a policy: odd roles, members that do not exist, unreadable conditions.

        Raises:
            GoogleError: 400. Source: cloud.google.com/iam/docs/troubleshooting-policies and the messages of
                cloud.google.com/iam/docs/reference/rest/v1/projects.serviceAccounts/setIamPolicy.
        """
        problem = role_problem(binding.role, resource)
        if problem is None and binding.role.startswith(f"projects/{self.project}/"):
            known = self.store.find(binding.role)
            problem = None if known else UNKNOWN_ROLE.text.format(role=binding.role)
        for member in binding.members:
            problem = problem or self._member_problem(member)
        if binding.condition and not problem:
            problem = _condition_problem(binding.condition)
        if problem:
            raise GoogleError(400, problem)

    def _member_problem(self, member: str) -> str | None:
        if not _MEMBER.fullmatch(member):
            return MALFORMED_MEMBER.text.format(member=member)
        pool = _WORKLOAD.match(member) or _POOL.match(member)
        if pool:
            known = {
                (cluster.body["inputs"].get("workloadIdentityConfig") or {}).get("workloadPool")
                for cluster in self.store.all_of("cluster")
            }
            number = pool.groupdict().get("number")
            exists = pool["pool"] in known and number in (None, project_number(self.project))
            return None if exists else UNKNOWN_POOL.text.format(pool=pool["pool"])
        email = member.removeprefix("serviceAccount:")
        ours = email.endswith(f"@{self.project}.iam.gserviceaccount.com")
        if member.startswith("serviceAccount:") and ours:
            known_account = self.store.find(f"projects/{self.project}/serviceAccounts/{email}")
            return None if known_account else UNKNOWN_ACCOUNT.text.format(email=email)
        return None


def _condition_problem(condition: dict[str, str] | object) -> str | None:
    expression = condition.get("expression", "") if isinstance(condition, dict) else ""
    title = condition.get("title") if isinstance(condition, dict) else None
    if not title:
        return "A condition has to have a title."
    try:
        holds(expression, Attributes("", ""))
    except ConditionError as error:
        return f"The condition '{title}' cannot be read: {error}."
    return None
