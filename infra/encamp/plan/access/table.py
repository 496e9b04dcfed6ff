"""AI Platform's roles, their permissions and their meaning today, as the tables of ``docs/access.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from encamp.spec.ml_roles import ml_roles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from encamp.spec.ml_roles import Ability


def access_table() -> str:
    """Return three tables: permissions by role, what a permission means, and the rights of an ability."""
    return "\n".join([*_roles(), "", *_permissions(), "", *_abilities(), ""])


def _roles() -> Iterator[str]:
    table = ml_roles()
    yield "| permission | " + " | ".join(table.roles) + " |"
    yield "|---|" + "---|" * len(table.roles)
    for permission in table.permissions:
        held = ("x" if permission in permissions else "" for permissions in table.roles.values())
        yield f"| `{permission}` | " + " | ".join(held) + " |"


def _permissions() -> Iterator[str]:
    yield "| permission | what it means here | abilities |"
    yield "|---|---|---|"
    for permission in ml_roles().permissions.values():
        abilities = ", ".join(ability.name for ability in permission.abilities) or "-"
        yield f"| `{permission.name}` | {permission.means} | {abilities} |"


def _abilities() -> Iterator[str]:
    every = {
        ability.name: ability for permission in ml_roles().permissions.values() for ability in permission.abilities
    }
    yield "| ability | IAM permissions, by where they are given | in the cluster |"
    yield "|---|---|---|"
    for ability in sorted(every.values(), key=lambda one: one.name):
        yield f"| {ability.name} | {_rights(ability) or '-'} | {_rules(ability) or '-'} |"


def _rights(ability: Ability) -> str:
    return "; ".join(f"{reach}: {', '.join(f'`{one}`' for one in rights)}" for reach, rights in ability.rights.items())


def _rules(ability: Ability) -> str:
    return "; ".join(f"{', '.join(rule.resources)}: {' '.join(rule.verbs)}" for rule in ability.cluster)
