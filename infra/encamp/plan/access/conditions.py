"""IAM conditions of an environment's bindings, in the Common Expression Language (CEL)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from encamp.plan.access.iam_limits import MOST_IN_LIST
from encamp.plan.access.identity import OBJECT_ADMIN, OBJECT_USER, OBJECT_VIEWER, PROJECT_ROLES
from encamp.plan.access.model import ConditionPlan
from encamp.plan.names import RESULTS, SCRATCH
from encamp.spec.ml_roles import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from encamp.plan.access.model import CustomRolePlan
    from encamp.plan.model import Grant
    from encamp.spec.environment import EnvironmentSpec

#: Folder of the artifacts bucket where models are kept.
MODELS_FOLDER = "models/"
#: Resources on which a custom role of the project is granted without a condition.
UNCONDITIONAL = (Reach.PROJECT, Reach.ACCOUNTS)


def grantable_roles(
    spec: EnvironmentSpec, roles: Mapping[tuple[str, Reach], CustomRolePlan]
) -> tuple[tuple[str, ...], ...]:
    """List, for each of AI Platform's roles, the custom roles on the project that its granter may grant.

    Only those that are given without a condition. Of a change to a policy IAM tells the roles, not the conditions, so
    who may give a role under a condition may also give it without one.
    """
    parts: dict[str, list[str]] = defaultdict(list)
    for (role, reach), made in roles.items():
        if reach in UNCONDITIONAL:
            parts[role].append(f"projects/{spec.project}/roles/{made.role_id}")
    return tuple(map(tuple, parts.values()))


def conditions_of(spec: EnvironmentSpec, grantable: Iterable[Sequence[str]]) -> Mapping[Reach, ConditionPlan]:
    """Return the conditions by resource; ``grantable`` are the groups of roles that ml.admin may grant."""
    of_jobs = (OBJECT_ADMIN, OBJECT_USER, OBJECT_VIEWER)
    return {
        Reach.JOB_BUCKETS: ConditionPlan("buckets-of-jobs", _job_buckets()),
        Reach.JOB_GRANTS: roles_of_jobs(),
        Reach.ROLE_GRANTS: ConditionPlan("ml-roles", _grants_only(grantable)),
        Reach.ARTIFACTS_GRANTS: ConditionPlan("roles-of-jobs", _grants_only([of_jobs])),
        Reach.MODELS: ConditionPlan("models", " || ".join(_below(spec.artifacts_bucket, MODELS_FOLDER))),
    }


def roles_of_jobs() -> ConditionPlan:
    """Return the condition that limits policy changes on the project to bindings of the roles that jobs get."""
    return ConditionPlan("roles-of-jobs", _grants_only([PROJECT_ROLES]))


def _job_buckets() -> str:
    """Return buckets that jobs make, and what is in them, by the words in their names.

    Source: cloud.google.com/iam/docs/conditions-attribute-reference#extract
    """
    buckets = " || ".join(f'resource.name.extract("-{use}-{{id}}") != ""' for use in (SCRATCH, RESULTS))
    objects = " || ".join(f'resource.name.extract("-{use}-{{id}}/objects/") != ""' for use in (SCRATCH, RESULTS))
    return (
        f'resource.type == "storage.googleapis.com/Bucket" && ({buckets})'
        f' || resource.type == "storage.googleapis.com/Object" && ({objects})'
    )


def _grants_only(groups: Iterable[Sequence[str]]) -> str:
    """Write the condition that a policy may be changed in bindings of these roles only.

    A list of ``hasOnly`` is short, so the groups are spread over several lists, and no group over two of them. A change
    is allowed that stays within one list: never more than the groups allow, and all of one group at once. Who changes
    roles of two lists does so in two requests, as the provider does (iam-provider-retries-batches-singly).
    Source: cloud.google.com/iam/docs/setting-limits-on-granting-roles
    """
    lists: list[list[str]] = [[]]
    for group in groups:
        if len(lists[-1]) + len(group) > MOST_IN_LIST:
            lists.append([])
        lists[-1] += group
    asked = 'api.getAttribute("iam.googleapis.com/modifiedGrantsByRole", [])'
    return " || ".join(f"{asked}.hasOnly({json.dumps(roles)})" for roles in lists)


def objects_of(grant: Grant) -> str:
    """Write the condition that limits a bucket role to a grant's objects, empty if it reaches the whole bucket.

    The folder's own name without the final slash belongs to it: clients look whether an object is called so. Listing is
    a request on the bucket itself, so it is judged by the prefix that it asks for (Cloud Storage's attribute
    ``objectListPrefix``). Objects that are granted by name cannot be listed.
    """
    # Strings of the Common Expression Language are written as JSON's are.
    start = f"projects/_/buckets/{grant.bucket}/objects/"
    if grant.prefix:
        below, listed = _below(str(grant.bucket), grant.prefix)
        return f"{below} || resource.name == {json.dumps((start + grant.prefix).rstrip('/'))} || {listed}"
    return " || ".join(f"resource.name == {json.dumps(start + name)}" for name in grant.objects)


def _below(bucket: str, folder: str) -> tuple[str, str]:
    """Return objects of a folder, and listing it."""
    start = json.dumps(f"projects/_/buckets/{bucket}/objects/{folder}")
    asked = 'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
    return f"resource.name.startsWith({start})", f"{asked}.startsWith({json.dumps(folder)})"
