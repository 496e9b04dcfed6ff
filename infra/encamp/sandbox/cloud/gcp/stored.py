"""A backend for types that the cloud's own store keeps: one resource, one row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from encamp.sandbox.cloud.gcp.common import given, label_outputs
from encamp.sandbox.cloud.gcp.model import Made
from encamp.sandbox.cloud.refusals import IN_USE, MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.sandbox.cloud.gcp.model import Context
    from encamp.sandbox.cloud.store import CloudResource
    from encamp.sandbox.provider import Properties

    Namer = Callable[[Properties, Context], str]


@dataclass(frozen=True)
class StoredBackend:
    """Keeps a type in the store.

    Attributes:
        kind: the store's kind.
        full_name: the resource's full name by its inputs.
        facts: what comes to be at create, beside the inputs.
        outputs: what is shown of a stored resource beside its inputs and the type's defaults.
        defaults: outputs of inputs that were left out.
        parents: full names that have to exist, each with what it is called in the refusal.
        users: full names of resources that use this one: while there are any, it cannot be deleted.
        labels: the input with labels.
        identifier: Pulumi's id, if it is not the full name.
        after: what else is made with it, in the same transaction.
    """

    kind: str
    full_name: Namer
    facts: Callable[[Properties, Context], dict[str, Any]] = lambda _inputs, _context: {}
    outputs: Callable[[CloudResource, Context], dict[str, Any]] = lambda _resource, _context: {}
    defaults: Mapping[str, Any] = field(default_factory=dict)
    parents: Callable[[Properties, Context], list[str]] = lambda _inputs, _context: []
    users: Callable[[CloudResource, Context], list[str]] = lambda _resource, _context: []
    labels: str | None = None
    identifier: Namer | None = None
    after: Callable[[CloudResource, Context], None] = lambda _resource, _context: None
    by_id: Callable[[str], str] = lambda resource_id: resource_id

    def name(self, inputs: Properties, context: Context) -> str:
        """Give the full name."""
        return self.full_name(inputs, context)

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make it, if its parents exist and its name is free."""
        name = self.full_name(inputs, context)
        with context.cloud.database.transaction():
            self._check_parents(inputs, context)
            body = {"inputs": given(inputs), "facts": self.facts(inputs, context)}
            resource = context.cloud.store.create(self.kind, name, body, self._labels(inputs, context))
            self.after(resource, context)
        return self._made(resource, context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find it."""
        name = self.full_name(inputs, context) if inputs else self.by_id(resource_id)
        resource = context.cloud.store.find(name)
        return self._made(resource, context) if resource and resource.kind == self.kind else None

    async def update(self, resource_id: str, olds: Properties, news: Properties, context: Context) -> Made:
        """Replace its inputs; the facts stay."""
        del resource_id
        name = self.full_name(olds, context)
        with context.cloud.database.transaction():
            self._check_parents(news, context)
            body = {**context.cloud.store.get(name).body, "inputs": given(news)}
            resource = context.cloud.store.update(name, body, self._labels(news, context))
        return self._made(resource, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete it, unless something uses it."""
        del resource_id
        name = self.full_name(inputs, context)
        with context.cloud.database.transaction():
            resource = context.cloud.store.find(name)
            if resource is None:
                return
            self._check_unused(resource, context)
            context.cloud.store.delete(name)

    def _check_unused(self, resource: CloudResource, context: Context) -> None:
        users = self.users(resource, context)
        if users:
            raise IN_USE.error(kind=self.kind, name=resource.name, user=users[0])

    def _check_parents(self, inputs: Properties, context: Context) -> None:
        for parent in self.parents(inputs, context):
            if context.cloud.store.find(parent) is None:
                raise MISSING.error(name=parent)

    def _labels(self, inputs: Properties, context: Context) -> dict[str, str]:
        return label_outputs(inputs, self.labels, context)["effectiveLabels"] if self.labels else {}

    def _made(self, resource: CloudResource, context: Context) -> Made:
        inputs = resource.body["inputs"]
        outputs = {**self.defaults, "project": context.project, **inputs}
        outputs |= label_outputs(inputs, self.labels, context) if self.labels else {}
        outputs |= self.outputs(resource, context)
        identifier = self.identifier(inputs, context) if self.identifier else resource.name
        return Made(identifier, outputs, inputs)
