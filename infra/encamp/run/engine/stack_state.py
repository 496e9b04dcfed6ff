"""A job's stack in the engine's state: read from an export, and nothing else.

A stack whose ``up`` died midway has no outputs. What it was going to be is then said by the job's component, which
stands in the state before anything is made, and until when by the labels of what was made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from encamp.kinds.environment import ENVIRONMENT_RESOURCES
from encamp.kinds.google import BUCKET, RESOURCES
from encamp.plan.model import DEADLINE_LABEL
from encamp.run.engine.events import ResourceStep
from encamp.run.engine.unanswered import Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STACK = "pulumi:pulumi:Stack"
_PROVIDERS = "pulumi:providers:"
_KUBERNETES = "kubernetes:"
#: Types whose provider waits, at a refresh, for the operation that a create was cut short in.
_RESUMED = frozenset(kind.token for kind in (*RESOURCES, *ENVIRONMENT_RESOURCES) if kind.resumes)
_JOB = "encamp:components:TrainingJob"
_DISTINCT_CHARACTERS = 6
#: Input of the job's component: its outputs as far as they are known before anything is created, as JSON text.
INTENT_INPUT = "intent"


@dataclass(frozen=True)
class StackState:
    """A stack's state, as ``pulumi stack export`` gives it."""

    deployment: Mapping[str, Any]

    @classmethod
    def read(cls, exported: Mapping[str, Any]) -> StackState:
        """Return the state of a whole export."""
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
    def stack_urn(self) -> str | None:
        """The engine's name of the stack itself; None if the state does not list it."""
        found = (one["urn"] for one in self.deployment.get("resources") or [] if one["type"] == _STACK)
        return next(found, None)

    @property
    def names(self) -> list[str]:
        """Logical names of all of them."""
        return [_name(resource) for resource in self.resources]

    @property
    def called(self) -> frozenset[str]:
        """The cloud's names of the resources: names, ids, e-mails; none that is too short to be told from a word."""
        words = [str(word) for one in self.resources for word in _words(one)]
        return frozenset(word for word in words if len(word) >= _DISTINCT_CHARACTERS)

    @property
    def protected(self) -> list[str]:
        """Type and logical name of each that the engine refuses to delete."""
        kept = [one for one in self.resources if one.get("protect") and not one.get("external")]
        return [f"{one['type'].rpartition(':')[2]} {_name(one)}" for one in kept]

    @property
    def buckets(self) -> dict[str, str]:
        """Name to URN of every bucket that goes with the stack and only when it is empty."""
        made = [one for one in self.resources if one["type"] == BUCKET.token and not one.get("external")]
        inputs = [(one, one.get("inputs") or {}) for one in made]
        return {given["name"]: one["urn"] for one, given in inputs if "name" in given and not given.get("forceDestroy")}

    @property
    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, none where ``up`` never came to its end."""
        stack = [one for one in self.deployment.get("resources") or [] if one["type"] == _STACK]
        return dict(stack[0].get("outputs") or {}) if stack else {}

    @property
    def written(self) -> float:
        """The time when the state was last written, in seconds since the epoch; 0 if it does not say."""
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
        """Return the job's outputs.

        Those of the stack, else what its component was going to be, with the latest deadline.
        """
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
        """Return creates whose answer never came."""
        pending = self.deployment.get("pending_operations") or []
        return [_unanswered(one["resource"]) for one in pending if one["type"] == "creating"]

    @property
    def is_cut_short(self) -> bool:
        """Whether a create of GKE's went on when its engine ended: the state has its operation, and not all outputs."""
        return any(one["type"] in _RESUMED and (one.get("outputs") or {}).get("operation") for one in self.resources)

    def created(self) -> list[ResourceStep]:
        """Return a step for each resource, with the time of its creation."""
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
        """Return the deployment without the operations that never had an answer."""
        return {**self.deployment, "pending_operations": []}

    def with_answers(self, ids: Mapping[str, str]) -> dict[str, Any]:
        """Return the deployment with pending creates answered by these ids, by URN, and no other pending operation."""
        pending = self.deployment.get("pending_operations") or []
        creates = [one["resource"] for one in pending if one["type"] == "creating"]
        made = [
            {**one, "id": ids[one["urn"]], "outputs": one.get("inputs") or {}} for one in creates if one["urn"] in ids
        ]
        # The replaced resource of a create is in the state under the same name; a refresh asks for it as usual.
        there = {one["urn"] for one in self.resources}
        made = [one for one in made if one["urn"] not in there]
        return {**self.without_pending(), "resources": [*(self.deployment.get("resources") or []), *made]}

    def without_cluster(self) -> dict[str, Any]:
        """Return the deployment without the objects of a cluster that is gone.

        What nothing of it depends on any more.
        """
        gone = {one["urn"] for one in self.resources if one["type"].startswith(_KUBERNETES)}
        kept = [one for one in self.deployment.get("resources") or [] if one["urn"] not in gone]
        return {**self.deployment, "resources": [_without(one, gone) for one in kept]}

    def reaching(self, kubeconfig: str) -> dict[str, Any]:
        """Return the deployment with its providers of Kubernetes reaching their cluster by this kubeconfig.

        The engine destroys and refreshes by the kubeconfig in the state, which may have been right elsewhere only: in a
        pod of the cluster, or by an address that is closed now.
        """
        resources = self.deployment.get("resources") or []
        return {**self.deployment, "resources": [_reaching(one, kubeconfig) for one in resources]}

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


def _reaching(resource: dict[str, Any], kubeconfig: str) -> dict[str, Any]:
    if resource["type"] != f"{_PROVIDERS}kubernetes":
        return resource
    pointed = {key: {**(resource.get(key) or {}), "kubeconfig": kubeconfig} for key in ("inputs", "outputs")}
    return {**resource, **pointed}


def _words(resource: Mapping[str, Any]) -> Iterator[str]:
    outputs = resource.get("outputs") or {}
    yield str(resource.get("id") or "").rpartition("/")[2]
    for key in ("name", "email", "accountId"):
        if isinstance(outputs.get(key), str):
            yield outputs[key]


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
    kind = resource.get("type") or str(resource["urn"]).split("::")[2].rpartition("$")[2]
    return Unanswered.of(kind, str(resource["urn"]), resource.get("inputs") or {})


def _name(resource: Mapping[str, Any]) -> str:
    return str(resource["urn"]).rpartition("::")[2]
