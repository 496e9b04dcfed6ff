"""Field managers: the change of records that server-side apply needs before a resource's first update.

An object is created by POST, which records its fields under our manager with the operation ``Update``. Apply counts
that as a stranger of the same name, so the record is turned into an ``Apply`` of ours first, together with those that
kubectl left: what the official provider does before it applies (``fixCSAFieldManagers``). Source:
kubernetes.io/docs/reference/using-api/server-side-apply, "Upgrading from client-side apply".
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from encamp.property_paths import Path

APPLY, UPDATE = "Apply", "Update"
TAKEN_OVER: Final = frozenset(
    {("kubectl", APPLY), ("kubectl", UPDATE), ("before-first-apply", UPDATE)}
    | {("kubectl-client-side-apply", UPDATE), ("pulumi-kubernetes", UPDATE), ("pulumi-resource-kubernetes", UPDATE)}
)


def is_ours_to_take(entry: Mapping[str, Any], manager: str) -> bool:
    """Whether an entry of managedFields is to become part of our ``Apply``."""
    who = (entry.get("manager"), entry.get("operation"))
    return not entry.get("subresource") and (who in TAKEN_OVER or who == (manager, UPDATE))


def takeover(live: Mapping[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """Return the JSON patch that makes ``manager`` the applier of what it created, None if that is so already.

    The patch holds the object's resourceVersion, so it fails when somebody else writes in between.
    """
    entries: Sequence[Mapping[str, Any]] = live["metadata"].get("managedFields") or []
    taken = [entry for entry in entries if is_ours_to_take(entry, manager)]
    if not taken:
        return None
    applied = [entry for entry in entries if (entry.get("manager"), entry.get("operation")) == (manager, APPLY)]
    fields: dict[str, Any] = {}
    for entry in [*applied, *taken]:
        fields = _merged(fields, entry.get("fieldsV1") or {})
    ours = {**taken[-1], "manager": manager, "operation": APPLY, "fieldsV1": fields}
    rest = [entry for entry in entries if entry not in taken and entry not in applied]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/metadata/managedFields", "value": [*rest, ours]},
    ]


def _merged(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    merged = copy.deepcopy(dict(left))
    for key, value in right.items():
        merged[key] = _merged(merged.get(key, {}), value)
    return merged


def owned_by_others(live: Mapping[str, Any], path: Path, manager: str) -> bool:
    """Whether a field is managed by somebody, and not by us."""
    entries: Sequence[Mapping[str, Any]] = live["metadata"].get("managedFields") or []
    owners = {entry.get("manager") for entry in entries if _holds(entry.get("fieldsV1") or {}, path)}
    return bool(owners) and manager not in owners


def _holds(fields: Mapping[str, Any], path: Path) -> bool:
    for key in path:
        fields = fields.get(f"f:{key}")  # type: ignore[assignment]
        if fields is None:
            return False
    return True
