"""Access decisions: IAM's answer for a principal, a permission and a resource.

A permission is given by a binding on the project, or on the bucket or service account itself. Source:
cloud.google.com/iam/docs/overview and, for listing below a prefix,
cloud.google.com/storage/docs/access-control/iam#conditions.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from encamp_sandbox.cloud.errors import GoogleError, permission_denied
from encamp_sandbox.cloud.iam.conditions import Attributes, ConditionError, holds
from encamp_sandbox.cloud.iam.lint import check_condition, check_limits
from encamp_sandbox.cloud.iam.policies import bucket_policy_name
from encamp_sandbox.cloud.iam.roles import gives, role_problem
from encamp_sandbox.cloud.rest.values import at
from encamp_sandbox.project import project_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from encamp_sandbox.cloud.iam.policies import Binding, Policies
    from encamp_sandbox.cloud.store import CloudStore
    from encamp_sandbox.cloud.tokens import Principal

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
    """IAM of one sandbox.

    Attributes:
        account_delay: seconds for which policies do not know a new service account yet.
    """

    project: str
    store: CloudStore
    policies: Policies
    account_delay: float = 0.0

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
        """Raise a 403 unless ``allows`` holds."""
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
        """Raise a 403 in the storage API's words unless ``allows_storage`` holds."""
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
            if members.isdisjoint(binding.members) or not self._holds(binding.role, permission):
                continue
            if not binding.condition:
                return True
            try:
                if holds(binding.condition.get("expression", ""), attributes):
                    return True
            except ConditionError as error:
                logger.warning("a condition gives nothing: %s", error)
        return False

    def _holds(self, role: str, permission: str) -> bool:
        """Whether a role, one of Google's or of the project's own, has a permission."""
        if role.startswith("roles/"):
            return gives(role, permission)
        custom = self.store.find(role)
        if custom is None or custom.kind != "role" or custom.body.get("deleted"):
            return False
        return permission in custom.body.get("includedPermissions", ())

    def check_policy(self, resource: str, bindings: Sequence[Binding], *, version: int) -> None:
        """Refuse what IAM refuses of a policy: too much of it, and in what is new unknown roles, members, conditions.

        Raises:
            GoogleError: 400.
        """
        check_limits(bindings, version)
        present = {
            (binding.role, str(binding.condition), member)
            for binding in self.policies.bindings(resource)
            for member in binding.members
        }
        for binding in bindings:
            new = [one for one in binding.members if (binding.role, str(binding.condition), one) not in present]
            if new:
                self._check_role(resource, binding.role)
                for member in new:
                    self._check_member(member)
                if binding.condition:
                    check_condition(binding.condition)

    def _check_role(self, resource: str, role: str) -> None:
        if role_problem(role, resource):
            message = f"Role {role} is not supported for this resource."
            raise GoogleError(400, message, belief="iam-roles-fit-resources")
        if role.startswith(f"projects/{self.project}/") and self.store.find(role) is None:
            raise GoogleError(400, f"The role named {role} was not found.", belief="iam-custom-roles-exist")

    def _check_member(self, member: str) -> None:
        if not _MEMBER.fullmatch(member):
            raise GoogleError(400, f"Invalid value for member: {member}.", belief="iam-members-have-forms")
        pool = _WORKLOAD.match(member) or _POOL.match(member)
        if pool is not None:
            self._check_pool(pool["pool"], pool.groupdict().get("number"))
            return
        email = member.removeprefix("serviceAccount:")
        if member == email or not email.endswith(f"@{self.project}.iam.gserviceaccount.com"):
            return
        account = self.store.find(f"projects/{self.project}/serviceAccounts/{email}")
        if account is None or _age(account.created) < self.account_delay:
            raise GoogleError(400, f"Service account {email} does not exist.", belief="iam-accounts-exist")

    def _check_pool(self, pool: str, number: str | None) -> None:
        known = {at(cluster.body, "workloadIdentityConfig.workloadPool") for cluster in self.store.all_of("cluster")}
        if pool not in known or number not in (None, project_number(self.project)):
            raise GoogleError(400, f"Identity Pool does not exist ({pool}).", belief="iam-identity-pool-exists")


def _age(created: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds()
