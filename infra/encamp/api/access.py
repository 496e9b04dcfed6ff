"""Permissions on jobs by the API: from the environment's teams, a job's own policy, and its creator. Default deny.

The environment's committed ``access.teams`` say it for the whole project, as ``encamp access check`` does; nothing is
asked of Google. Sources: the job model, section 11; cloud.google.com/iam/docs/reference/rest/v1/Policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.api.errors import ApiError
from encamp.spec.members import canonical, members_of
from encamp.spec.ml_roles import ml_roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from encamp.api.caller import Caller
    from encamp.spec.environment.model import EnvironmentSpec

#: Prefix of AI Platform's roles in policies.
ROLE_PREFIX: Final = "roles/"
SERVICE: Final = "ml.googleapis.com"
_SEE: Final = "ml.jobs.get"
_ACT_AS: Final = "iam.serviceAccounts.actAs"
_LONGEST: Final = 200
_MOST_PERMISSIONS: Final = 100
_GROUP: Final = "group:"


@dataclass(frozen=True)
class JobGrants:
    """The grants of a job.

    Attributes:
        creator: e-mail (or ``principal://`` name) of who started it, None if nobody wrote it down.
        policy: the result of ``checked_policy``, as the record keeps it; None without a policy.
    """

    creator: str | None
    policy: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Held:
    """The grants of an environment.

    Attributes:
        teams: permissions of each member of a team.
        accounts: service accounts that jobs may run with.
    """

    teams: Mapping[str, frozenset[str]]
    accounts: frozenset[str]


class Access:
    """May a caller do something? By the teams of one environment."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.take(spec)

    def take(self, spec: EnvironmentSpec) -> None:
        """Decide from now on by what an environment says now."""
        teams = (spec.access.teams or ()) if spec.access is not None else ()
        held: dict[str, frozenset[str]] = {}
        for team in teams:
            given = _of_roles(team.roles or ())
            for member in team.members or ():
                named = canonical(member)
                if named is not None and not named.startswith(_GROUP):
                    held[named] = held.get(named, frozenset()) | given
        self._held = _Held(held, frozenset(spec.api.act_as if spec.api is not None else ()))

    def permissions(self, caller: Caller, job: JobGrants | None = None) -> frozenset[str]:
        """Return every permission of AI Platform's that a caller has: on the project, or on one job of it."""
        if caller.admin:
            return frozenset(ml_roles().permissions)
        members = caller.members
        found = frozenset[str]().union(*(self._held.teams.get(member, ()) for member in members))
        if job is None:
            return found
        if job.creator and not members.isdisjoint(members_of(job.creator)):
            found |= _of_roles((ml_roles().creator,))
        return found | _of_policy(job.policy, members)

    def require(self, caller: Caller, permission: str, resource: str, job: JobGrants | None = None) -> None:
        """Raise unless a caller has a permission.

        Args:
            caller: the caller.
            permission: such as ``ml.jobs.get``.
            resource: the resource, such as ``projects/P`` or ``projects/P/jobs/J``.
            job: the job's own grants where it is about one.

        Raises:
            ApiError: PERMISSION_DENIED, in the same words whether the resource exists or not.
        """
        if permission not in self.permissions(caller, job):
            raise _denied(permission, resource)

    def require_act_as(self, caller: Caller, account: str) -> None:
        """Raise unless a caller may let a job run with a given service account: the environment names those.

        Source: the job model, section 11 (``iam.serviceAccounts.actAs``).

        Raises:
            ApiError: PERMISSION_DENIED, in the same words whether there is such an account or not.
        """
        if not caller.admin and account not in self._held.accounts:
            raise ApiError(
                "PERMISSION_DENIED",
                f"Permission '{_ACT_AS}' denied on service account {account[:_LONGEST]} (or it may not exist)."
                " Leave serviceAccount out: the job has an account of its own then; or have this one named in"
                " api.actAs of the environment.",
            )

    def missing(self, caller: Caller, permission: str, resource: str) -> ApiError:
        """Return the error for a call on a job that does not exist and that takes a permission.

        NOT_FOUND for who may see every job of the project. Whoever may not, learns nothing: it is what ``require``
        raises for a job of somebody else.
        """
        if _SEE in self.permissions(caller):
            return ApiError("NOT_FOUND", f"The specified job was not found: {resource}.")
        return _denied(permission, resource)

    def tested(self, caller: Caller, body: Mapping[str, Any], job: JobGrants | None) -> dict[str, Any]:
        """Return the answer to testIamPermissions: those of the body's permissions that the caller has on a job.

        Nothing, and no error, if there is no such job (``job`` is None).
        Source: cloud.google.com/iam/docs/reference/rest/v1/Policy and google.iam.v1.IAMPolicy.TestIamPermissions.

        Raises:
            ApiError: INVALID_ARGUMENT; no list of permissions, one with a wildcard, or one that a job does not know.
        """
        asked = _asked(body)
        if job is None:
            return {}
        held = self.permissions(caller, job)
        given = [name for name in dict.fromkeys(asked) if name in held]
        return {"permissions": given} if given else {}


def access_warnings(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return warnings for whoever starts the service.

    Groups that no token tells, and teams without members by the API.
    """
    teams = (spec.access.teams or ()) if spec.access is not None else ()
    if not teams and not spec.is_sandbox:
        return (f"environment {spec.name} names no teams in access.teams, so nobody may do anything by the API",)
    return tuple(
        f"team {team.name}: {member} gives nobody a role by the API, since no token says who is in a group;"
        " name its people one by one"
        for team in teams
        for member in team.members or ()
        if member.startswith(_GROUP)
    )


def _of_roles(roles: Iterable[str]) -> frozenset[str]:
    known = ml_roles().roles
    return frozenset(name for role in roles for name in known.get(role.removeprefix(ROLE_PREFIX), ()))


def _of_policy(policy: Mapping[str, Any] | None, members: frozenset[str]) -> frozenset[str]:
    """Return the permissions of a job's policy. A binding with a condition gives none: none was ever accepted here."""
    bindings = (policy or {}).get("bindings") or ()
    roles = [
        binding["role"]
        for binding in bindings
        if not binding.get("condition") and not members.isdisjoint(map(canonical, binding["members"]))
    ]
    return _of_roles(roles)


def _denied(permission: str, resource: str) -> ApiError:
    name = f"//{SERVICE}/{resource}"
    return ApiError(
        "PERMISSION_DENIED", f"Permission '{permission}' denied on resource '{name}' (or it may not exist)."
    )


def _asked(body: Mapping[str, Any]) -> list[str]:
    asked = body.get("permissions", [])
    if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
        raise ApiError("INVALID_ARGUMENT", "permissions: must be a list of texts, such as ml.jobs.cancel.")
    if len(asked) > _MOST_PERMISSIONS:
        raise ApiError("INVALID_ARGUMENT", f"permissions: at most {_MOST_PERMISSIONS} can be asked for at once.")
    for name in asked:
        if "*" in name:
            message = "permissions: wildcards are not allowed; name each permission, such as ml.jobs.cancel."
            raise ApiError("INVALID_ARGUMENT", message)
        if name not in ml_roles().permissions:
            raise ApiError("INVALID_ARGUMENT", f"permissions: {name[:100]!r} is no permission of AI Platform Training.")
    return asked
