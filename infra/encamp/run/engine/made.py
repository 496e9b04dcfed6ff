"""The times of creation and deletion of a job's resources: the engine's steps, and the sweep's of unknown resources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from encamp.kinds.words import word_of
from encamp.run.engine.events import ResourceStep

if TYPE_CHECKING:
    from collections.abc import Sequence


def swept_step(kind: str, name: str) -> ResourceStep:
    """Return the step of what was deleted because the cloud listed it, with the kind and full name of that listing."""
    return ResourceStep(datetime.now(UTC), "deleted", kind, name, "", name)


def resources_of(steps: Sequence[ResourceStep], gone: datetime | None = None) -> list[dict[str, Any]]:
    """Return every resource with when it was made and deleted, in the order in which they were made.

    What the sweep deleted is the engine's resource of that name, where it has one. ``gone`` is when the cloud listed
    nothing any more: what was made and of whose end nobody was told, because who deleted it died, had ended by then
    (``goneBy``). A resource that was kept on purpose has ``kept`` true.
    """
    found: dict[str, dict[str, Any]] = {}
    for step in steps:
        entry = found.get(step.urn) if step.urn else _known(step, found.values())
        if entry is None:
            entry = dict[str, Any](type=step.type, name=step.name, id="", created=None, deleted=None)
            found[step.urn or f"{step.type} {step.name}"] = entry
        entry["id"] = entry["id"] or step.id
        at = step.at.isoformat(timespec="milliseconds")
        if step.done == "created":
            # A replacement of a resource has an end of its own.
            entry["created"], entry["deleted"] = (at, None) if entry["deleted"] else (entry["created"] or at, None)
        elif step.done == "deleted":
            entry["deleted"] = entry["deleted"] or at
        elif step.done == "kept":
            entry["kept"] = True
    for entry in found.values():
        if gone is not None and entry["created"] and not entry["deleted"] and not entry.get("kept"):
            entry["goneBy"] = gone.isoformat(timespec="milliseconds")
    return [entry for entry in found.values() if entry["created"] or entry["deleted"] or entry.get("kept")]


def _known(step: ResourceStep, entries: Any) -> dict[str, Any] | None:
    """Return the engine's resource that the sweep deleted, by what the cloud calls it."""
    return next((entry for entry in entries if not entry["deleted"] and _is_it(step, entry)), None)


def _is_it(step: ResourceStep, entry: dict[str, Any]) -> bool:
    if word_of(str(entry["type"])) != step.type:
        return False
    if step.type != "binding":
        return bool(entry["id"]) and _last(entry["id"]) == _last(step.name)
    # A binding's name is where it is, its role and who has it; its id has all three, with signs between them.
    where, role, who = (*step.name.removeprefix("gs://").split(" ", 2), "", "")[:3]
    return role in entry["id"] and all(part in f"{entry['id']}/" for part in (f"{_last(where)}/", _last(who)))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
