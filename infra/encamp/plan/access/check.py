"""Checks of a person's permissions, from the environment's teams and the table that its roles are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.errors import UsageError
from encamp.spec.members import canonical, members_of
from encamp.spec.ml_roles import Reach, ml_roles
from encamp.spec.paths import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from encamp.spec.environment import EnvironmentSpec
    from encamp.spec.ml_roles import Permission

_PROJECT_WIDE = (Reach.PROJECT, Reach.ACCOUNTS)


@dataclass(frozen=True)
class Ground:
    """The grounds of a permission: a role, and the team that has it.

    Attributes:
        team: None for who started the job, which gives a role on it.
        member: as the team names them; a group's where they are in it.
    """

    role: str
    team: str | None
    member: str


@dataclass(frozen=True)
class Answer:
    """The answer to a permission check.

    Attributes:
        permission: what was asked for, with what it means.
        grounds: why they may; empty if they may not.
        groups: groups that have it, in which they might be: nobody said that they are.
        roles: every role that holds it.
    """

    permission: Permission
    grounds: tuple[Ground, ...]
    groups: tuple[Ground, ...]
    roles: tuple[str, ...]

    @property
    def allowed(self) -> bool:
        """Whether they may."""
        return bool(self.grounds)


def check_access(
    environment: EnvironmentSpec,
    user: str,
    permission: str,
    *,
    groups: Iterable[str] = (),
    started_by: str | None = None,
) -> Answer:
    """Whether a user has a permission of AI Platform's.

    Args:
        environment: the environment with the teams.
        user: an e-mail, or a member as IAM writes it.
        permission: such as ``ml.jobs.cancel``.
        groups: groups that the user is in, as e-mails or members: Google alone knows of others.
        started_by: e-mail of the job's starter, None if the question is about no job or nobody knows.

    Raises:
        UsageError: there is no such permission, the environment says nothing of access, or somebody is no member.
    """
    table = ml_roles()
    if permission not in table.permissions:
        close = nearest(permission, table.permissions)
        raise UsageError(
            f"{permission!r} is no permission of AI Platform Training",
            where="PERMISSION",
            hint=f"write {close}" if close else f"such as {', '.join(list(table.permissions)[:3])}",
        )
    if environment.access is None:
        raise UsageError(
            "the environment says nothing of access: who may what is in the project's IAM policy alone",
            where=f"environment {environment.name}",
            hint="name teams and their roles in encamp:environment.access",
        )
    roles = table.holding(permission)
    known = _named("USER", user, members_of(user)).union(*(_named("--group", group, _group(group)) for group in groups))
    every = [
        Ground(role, team.name, member)
        for team in environment.access.teams or ()
        for member in team.members or ()
        for role in team.roles or ()
        if role in roles
    ]
    grounds = [ground for ground in every if canonical(ground.member) in known]
    if started_by is not None and table.creator in roles and not known.isdisjoint(members_of(started_by)):
        grounds.append(Ground(table.creator, None, user))
    others = () if grounds else tuple(ground for ground in every if ground.member.startswith("group:"))
    return Answer(table.permissions[permission], tuple(grounds), others, roles)


def given_elsewhere(permissions: Iterable[str]) -> frozenset[str]:
    """Return those of a job's IAM permissions that a team has where the project cannot be asked for them.

    That is under a condition, on one bucket or account, or as a rule of the cluster's own access control.
    """
    every = [
        (reach, right)
        for permission in ml_roles().permissions.values()
        for ability in permission.abilities
        for reach, rights in ability.rights.items()
        for right in rights
    ]
    wide = {right for reach, right in every if reach in _PROJECT_WIDE}
    return frozenset(
        one
        for one in permissions
        if one not in wide and (one.startswith("container.") or one in {right for _, right in every})
    )


def _group(given: str) -> frozenset[str]:
    """Return a group, by its e-mail or as a member."""
    found = canonical(given if given.startswith("group:") else f"group:{given}")
    return frozenset() if found is None else frozenset({found})


def _named(where: str, given: str, found: frozenset[str]) -> frozenset[str]:
    if not found:
        hint = "write an e-mail in ASCII, such as ana@example.com, or a member such as user:ana@example.com"
        raise UsageError(f"{given!a} is nobody", where=where, hint=hint)
    return found
