"""Lies about GKE, IAM, tokens and Cloud Logging, told at their REST APIs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from encamp.plan.model import JOB_LABEL
from encamp_sandbox.gcp_provider.client import USER_AGENT
from encamp_sandbox.lies.model import Asked, Lie, Told, in_json, instead

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTAINER: Final = r"/container/v1(?:beta1)?/projects/[^/]+/locations/[^/]+"
_POOL: Final = rf"{_CONTAINER}/clusters/[^/]+/nodePools/[^/]+"
_POOLS: Final = rf"{_CONTAINER}/clusters/[^/]+/nodePools(?:/[^/]+)?"
_OPERATIONS: Final = rf"{_CONTAINER}/operations"
_ENTRIES: Final = r"/logging/v2/entries:list"
_REPOSITORY: Final = r"/artifactregistry/v1/projects/[^/]+/locations/[^/]+/repositories/[^/]+"
#: Jobs' own pools have their digits in their names; those of an environment do not.
_OWN_POOL: Final = rf"{_CONTAINER}/clusters/[^/]+/nodePools/[a-z]+-[0-9a-z]{{16}}-[^/]+"
#: Buckets of jobs and of the run itself, whose names do not differ.
_SCRATCH: Final = r"/storage/v1/b/[^/]+-scratch-[0-9a-z]+"
#: In the user agents of the engine's providers, the sandbox's own and the official one.
_ENGINES: Final = (USER_AGENT, "Terraform", "Pulumi")
_HOUR: Final = timedelta(hours=1)
_DELAY: Final = timedelta(minutes=3)


def _operation(
    kind: str, change: Callable[[dict[str, Any]], object], target: str = ""
) -> Callable[[dict[str, Any]], None]:
    """Change each operation of a kind in a listing."""

    def told(data: dict[str, Any]) -> None:
        for one in data.get("operations") or ():
            if one.get("operationType", "").startswith(kind) and target in str(one.get("targetLink")):
                change(one)

    return told


def _slow(operation: dict[str, Any]) -> None:
    if operation.get("endTime"):
        operation["endTime"] = _later(operation["endTime"], _HOUR)


def _later(text: str, by: timedelta) -> str:
    return (datetime.fromisoformat(text) + by).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _entries(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    """Change each log entry of a listing."""

    def told(data: dict[str, Any]) -> None:
        for entry in data.get("entries") or ():
            change(entry)

    return told


def _forget(data: dict[str, Any]) -> None:
    entries = data.get("entries") or []
    data["entries"] = [one for one in entries if not str(one.get("textPayload")).startswith("encamp-acceptance")]


def _twice(data: dict[str, Any]) -> None:
    data["entries"] = [one for entry in data.get("entries") or () for one in (entry, entry)]


def _delivered_late(entry: dict[str, Any]) -> None:
    entry["receiveTimestamp"] = _later(entry["timestamp"], _DELAY)


def _changed(*, first: bool) -> Callable[[Asked, Told], Told]:
    """Show a repository otherwise: only when it is first read, or only later."""

    def tell(asked: Asked, told: Told) -> Told:
        if (asked.before == 0) is not first:
            return told
        return in_json(lambda data: data.update(description="changed"))(asked, told)

    return tell


def _larger(asked: Asked, told: Told) -> Told:
    """Show the engine a job's pools with larger disks; the official provider reads them by their listing."""

    def change(data: dict[str, Any]) -> None:
        for pool in data.get("nodePools", [data]):
            config = pool.get("config") or {}
            if JOB_LABEL in config.get("labels", {}):
                config["diskSizeGb"] = 1 + int(config.get("diskSizeGb", 100))

    return in_json(change)(asked, told) if _by_engine(asked) else told


def _still_there(asked: Asked, told: Told) -> Told:
    """Show to everybody but the engine what is not there: the official provider asks before it makes a pool."""
    return told if _by_engine(asked) else instead(404, 200, {"status": "STOPPING"})(asked, told)


def _by_engine(asked: Asked) -> bool:
    return any(word in asked.headers.get("user-agent", "") for word in _ENGINES)


def _not_at_first(asked: Asked) -> Asked | Told:
    """Answer the engine that a pool is deleted, and leave it."""
    if asked.before or not _by_engine(asked):
        return asked
    operation = {"name": "operation-0-told", "operationType": "DELETE_NODE_POOL", "status": "DONE"}
    return Told(200, {"content-type": "application/json"}).with_json(operation)


def _anybody(token: str) -> Callable[[Asked], Asked]:
    """Return a change that adds ``token`` to requests without one."""

    def asks(asked: Asked) -> Asked:
        if "authorization" in asked.headers:
            return asked
        return replace(asked, headers={**asked.headers, "authorization": f"Bearer {token}"})

    return asks


def lies(token: str) -> tuple[Lie, ...]:
    """Return every one; ``token`` is whose rights a call without a token gets."""
    return (
        Lie(
            "token-is-needed",
            "Whoever shows no token is let in.",
            path=rf"{_CONTAINER}/clusters/[^/]+",
            asks=_anybody(token),
        ),
        Lie(
            "teardown-deleted-is-404",
            "A deleted pool is still shown.",
            path=_POOL,
            tells=_still_there,
        ),
        Lie(
            "teardown-operations-end",
            "Operations on pools end with an error.",
            path=_OPERATIONS,
            tells=in_json(_operation("", lambda one: one.update(error={"message": "it was not done"}), "/nodePools/")),
        ),
        Lie(
            "teardown-destroy-leaves-nothing",
            "The engine's deletion of a job's own pool does nothing.",
            "DELETE",
            _OWN_POOL,
            asks=_not_at_first,
        ),
        Lie(
            "preview-of-environment-is-quiet",
            "A new repository is shown with a description that nobody gave it.",
            path=_REPOSITORY,
            tells=_changed(first=True),
        ),
        Lie(
            "refresh-finds-no-drift",
            "A repository has a description that nobody gave it, after a while.",
            path=_REPOSITORY,
            tells=_changed(first=False),
        ),
        Lie("preview-of-job-is-quiet", "The engine is shown pools with larger disks.", path=_POOLS, tells=_larger),
        Lie(
            "teardown-nothing-is-left",
            "The run's bucket is shown after it was deleted.",
            path=_SCRATCH,
            tells=instead(404, 200, {"name": "left"}),
        ),
        *(
            Lie(
                belief,
                "Operations of this kind take an hour more.",
                path=_OPERATIONS,
                tells=in_json(_operation(kind, _slow)),
            )
            for belief, kind in (
                ("time-pool-creation", "CREATE_NODE_POOL"),
                ("time-pool-deletion", "DELETE_NODE_POOL"),
                ("time-cluster-creation", "CREATE_CLUSTER"),
                ("time-cluster-deletion", "DELETE_CLUSTER"),
            )
        ),
        Lie(
            "logging-entry-of-a-container",
            "Entries name another location.",
            "POST",
            _ENTRIES,
            tells=in_json(_entries(lambda entry: entry["resource"]["labels"].update(location="elsewhere"))),
        ),
        Lie(
            "logging-severity-by-stream",
            "Every line is a warning.",
            "POST",
            _ENTRIES,
            tells=in_json(_entries(lambda entry: entry.update(severity="WARNING"))),
        ),
        Lie(
            "logging-labels-of-the-pod",
            "Entries have no labels.",
            "POST",
            _ENTRIES,
            tells=in_json(_entries(lambda entry: entry.pop("labels", None))),
        ),
        Lie("logging-same-entry-once", "Every entry comes twice.", "POST", _ENTRIES, tells=in_json(_twice)),
        Lie("logging-outlives-pods", "Lines are lost.", "POST", _ENTRIES, tells=in_json(_forget)),
        Lie(
            "time-log-delivery",
            "Lines come three minutes late.",
            "POST",
            _ENTRIES,
            tells=in_json(_entries(_delivered_late)),
        ),
    )
