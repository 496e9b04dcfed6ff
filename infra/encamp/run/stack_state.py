"""What the engine's state says of a job's stack: read from an export, and nothing else.

A stack whose ``up`` died midway has no outputs. What it was going to be is then said by the job's component, which
stands in the state before anything is made, and until when by the labels of what was made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from encamp.plan.model import DEADLINE_LABEL
from encamp.run.events import ResourceStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STACK = "pulumi:pulumi:Stack"
_PROVIDERS = "pulumi:providers:"
_KUBERNETES = "kubernetes:"
_JOB = "encamp:components:TrainingJob"
#: Of the job's component: its outputs as far as they are known before anything is made, as JSON text.
INTENT_INPUT = "intent"


@dataclass(frozen=True)
class Unanswered:
    """A create whose answer never came.

    Attributes:
        type: the engine's type token.
        name: the logical name.
        cloud: what the cloud would call it, empty where the cloud was to choose.
        urn: the engine's name of it.
        inputs: what it was to be made of.
    """

    type: str
    name: str
    cloud: str
    urn: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True)
class StackState:
    """A stack's state, as ``pulumi stack export`` gives it."""

    deployment: Mapping[str, Any]

    @classmethod
    def read(cls, exported: Mapping[str, Any]) -> StackState:
        """Of a whole export."""
        return cls(exported.get("deployment") or {})

    @property
    def resources(self) -> list[dict[str, Any]]:
        """Every resource but the stack itself and the providers."""
        return [
            resource
            for resource in self.deployment.get("resources") or []
            if resource["type"] != _STACK and not resource["type"].startswith(_PROVIDERS)
        ]

    @property
    def names(self) -> list[str]:
        """Logical names of all of them."""
        return [_name(resource) for resource in self.resources]

    @property
    def protected(self) -> list[str]:
        """Type and logical name of each that the engine refuses to delete."""
        kept = [one for one in self.resources if one.get("protect") and not one.get("external")]
        return [f"{one['type'].rpartition(':')[2]} {_name(one)}" for one in kept]

    @property
    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, none where ``up`` never came to its end."""
        stack = [one for one in self.deployment.get("resources") or [] if one["type"] == _STACK]
        return dict(stack[0].get("outputs") or {}) if stack else {}

    @property
    def written(self) -> float:
        """When the state was last written, in seconds since the epoch; 0 where it does not say."""
        at = (self.deployment.get("manifest") or {}).get("time") or ""
        try:
            return datetime.fromisoformat(at).timestamp()
        except ValueError:
            return 0.0

    @property
    def has_pending(self) -> bool:
        """Whether an operation was begun whose end is not in the state."""
        return bool(self.deployment.get("pending_operations"))

    def declared(self) -> dict[str, Any]:
        """The job's outputs: those of the stack, else what its component was going to be, with the latest deadline."""
        if self.outputs:
            return self.outputs
        component = next((one for one in self.resources if one["type"] == _JOB), None)
        if component is None:
            return {}
        try:
            found: dict[str, Any] = json.loads((component.get("inputs") or {}).get(INTENT_INPUT) or "{}")
        except (ValueError, TypeError):
            return {}
        deadlines = [float(value) for value in self._deadlines() if value.isdigit()]
        return {**found, "deadline": max(deadlines, default=0.0)} if found else {}

    def unanswered(self) -> list[Unanswered]:
        """Creates whose answer never came."""
        pending = self.deployment.get("pending_operations") or []
        return [_unanswered(one["resource"]) for one in pending if one["type"] == "creating"]

    def created(self) -> list[ResourceStep]:
        """When each resource was made."""
        return [
            ResourceStep(
                at=datetime.fromisoformat(resource["created"]),
                done="created",
                type=resource["type"],
                name=_name(resource),
                urn=resource["urn"],
                id=resource.get("id", ""),
            )
            for resource in self.resources
            if resource.get("custom") and "created" in resource
        ]

    def without_pending(self) -> dict[str, Any]:
        """The deployment without the operations that never had an answer."""
        return {**self.deployment, "pending_operations": []}

    def without_cluster(self) -> dict[str, Any]:
        """The deployment without the objects of a cluster that is gone; what nothing of it depends on any more."""
        gone = {one["urn"] for one in self.resources if one["type"].startswith(_KUBERNETES)}
        kept = [one for one in self.deployment.get("resources") or [] if one["urn"] not in gone]
        return {**self.deployment, "resources": [_without(one, gone) for one in kept]}

    @property
    def in_cluster(self) -> bool:
        """Whether it lists objects of a cluster."""
        return any(one["type"].startswith(_KUBERNETES) for one in self.resources)

    def _deadlines(self) -> Iterator[str]:
        for one in self.resources:
            inputs = one.get("inputs") or {}
            for labels in (
                inputs.get("labels"),
                (inputs.get("nodeConfig") or {}).get("resourceLabels"),
                (inputs.get("metadata") or {}).get("labels"),
            ):
                if labels and DEADLINE_LABEL in labels:
                    yield str(labels[DEADLINE_LABEL])


def _without(resource: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    left = dict(resource)
    if left.get("dependencies"):
        left["dependencies"] = [urn for urn in left["dependencies"] if urn not in gone]
    properties = left.get("propertyDependencies")
    if properties:
        left["propertyDependencies"] = {
            key: [urn for urn in urns or [] if urn not in gone] for key, urns in properties.items()
        }
    return left


def _unanswered(resource: Mapping[str, Any]) -> Unanswered:
    inputs = resource.get("inputs") or {}
    metadata = inputs.get("metadata") or {}
    cloud = inputs.get("name") or inputs.get("accountId") or metadata.get("name") or ""
    kind = resource.get("type") or str(resource["urn"]).split("::")[2].rpartition("$")[2]
    return Unanswered(kind, _name(resource), str(cloud), str(resource["urn"]), inputs)


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"]).rpartition("::")[2]
