"""Rights on everything that a job may have, for roles: rules of the cluster, and permissions in the project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from encamp.kinds.google import RESOURCES
from encamp.kinds.objects import OBJECTS

if TYPE_CHECKING:
    from encamp.kinds.model import Deed


@dataclass(frozen=True, order=True)
class ClusterRule:
    """One rule of a Kubernetes Role: an API group (empty for the core), resources and verbs."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


def cluster_rules(*deeds: Deed) -> tuple[ClusterRule, ...]:
    """Return the rules that allow the deeds to every kind of object, kinds with the same verbs in one."""
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in OBJECTS:
        verbs = tuple(verb for deed in deeds for verb in kind.verbs(deed))
        if verbs:
            rules.setdefault((kind.group, verbs), []).append(kind.plural)
    return tuple(ClusterRule(group, tuple(resources), verbs) for (group, verbs), resources in rules.items())


def project_rights(deed: Deed) -> tuple[str, ...]:
    """Return the IAM permissions that a deed takes in the whole project, less those that need a condition."""
    return tuple(sorted({right for kind in RESOURCES for right in kind.rights(deed)}))
