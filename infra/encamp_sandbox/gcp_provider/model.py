"""A type of the provider: which requests make, read, change and delete its resources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from encamp_sandbox.cloud.errors import GoogleError
from encamp_sandbox.cloud.rest.values import at, short
from encamp_sandbox.gcp_provider.client import Patience
from encamp_sandbox.gcp_provider.mapping import Body, TypeMapping
from encamp_sandbox.gcp_provider.schema import Schema, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from encamp.property_paths import Path
    from encamp_sandbox.gcp_provider.client import Rest
    from encamp_sandbox.provider import Properties

#: Label with which the provider marks its resources.
ATTRIBUTION = {"goog-pulumi-provisioned": "true"}


@dataclass(frozen=True)
class Context:
    """The environment of a type's operations: the APIs, and the provider's own configuration."""

    rest: Rest
    project: str
    region: str | None = None
    zone: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    patience: Patience = field(default_factory=Patience)

    def patient(self, patience: Patience) -> Context:
        """Return the same for one operation."""
        return replace(self, patience=patience)

    def project_of(self, inputs: Properties) -> str:
        """Return the project of a resource."""
        return str(inputs.get("project") or self.project)

    def region_of(self, inputs: Properties) -> str:
        """Return the region of a regional resource.

        Raises:
            GoogleError: neither the resource nor the provider names one.
        """
        region = inputs.get("region") or self.region
        if not region:
            raise GoogleError(400, "Cannot determine region: set in this resource, or set provider-level 'region'.")
        return short(region)

    def location_of(self, inputs: Properties) -> str:
        """Return the region or zone of a resource that may be in either.

        Raises:
            GoogleError: neither the resource nor the provider names one.
        """
        location = inputs.get("location") or self.zone or self.region
        if not location:
            raise GoogleError(400, "Cannot determine location: set in this resource, or set provider-level 'zone'.")
        return short(location)


@dataclass(frozen=True)
class Made:
    """A resource as it is: Pulumi's id, and its outputs."""

    resource_id: str
    outputs: Properties


class Change(Enum):
    """The form of an API's update."""

    #: Not at all: every property replaces.
    NONE = auto()
    #: PATCH with the fields that have changed, and a mask of them.
    MASK = auto()
    #: PATCH with the fields that have changed.
    PATCH = auto()
    #: PUT of the whole.
    PUT = auto()


@dataclass(frozen=True)
class ResourceType:
    """A type whose resources are a collection of a REST API.

    Attributes:
        token: Pulumi's type token.
        endpoint: service and version, such as ``compute/v1``.
        collection: full name of the collection by the inputs.
        mapping: how properties and the API's JSON differ.
        short_name: name in the collection by the inputs; None if the server gives it.
        prepare: completes a create's body and query.
        show: outputs that do not follow from the mapping, by the API's answer.
        by_id: full name of a resource by Pulumi's id; None if both are the same.
        identifier: Pulumi's id by the full name.
        wait: whether changes are operations.
        plain_update: whether an update is none even so, but is answered with the resource.
        operations: where operations are read, by an operation and a full name.
        change: how updates are made.
        mask: query parameter of the mask.
        wrap: puts an update's body into a request.
        labels: property with labels that are merged with the provider's.
        suppress: by dotted path, whether two values mean the same.
        checks: refusals before the API is asked, beside those of the schema: path and text.
        fixed_name: whether a replacement cannot stand beside the old resource.
    """

    token: str
    endpoint: str
    collection: Callable[[Properties, Context], str]
    mapping: TypeMapping = field(default_factory=TypeMapping)
    short_name: Callable[[Properties], str | None] = lambda inputs: str(inputs["name"])
    prepare: Callable[[Body, Properties, Context], tuple[Body, dict[str, str]]] = lambda body, _inputs, _context: (
        body,
        {},
    )
    show: Callable[[Body, Properties, Context], Body] = lambda _answer, _inputs, _context: {}
    by_id: Callable[[str, Context], str] = lambda resource_id, _context: resource_id
    identifier: Callable[[str], str] = lambda name: name
    wait: bool = False
    plain_update: bool = False
    operations: Callable[[Body, str], str] = lambda operation, _name: str(operation["name"])
    change: Change = Change.NONE
    mask: str = "updateMask"
    wrap: Callable[[Body], Body] = lambda body: body
    labels: str | None = None
    suppress: Mapping[str, Callable[[Any, Any], bool]] = field(default_factory=dict)
    checks: Callable[[Properties], list[tuple[str, str]]] = lambda _inputs: []
    fixed_name: bool = True

    @property
    def schema(self) -> Schema:
        """The type's schema."""
        return schema(self.token)

    def path(self, name: str) -> str:
        """Return the URL path of a full name."""
        return f"/{self.endpoint}/{name}"

    def name(self, inputs: Properties, context: Context) -> str:
        """Return the full name of what the inputs describe; the collection's where the server gives names."""
        own = self.short_name(inputs)
        collection = self.collection(inputs, context)
        return collection if own is None else f"{collection}/{own}"

    async def create(self, inputs: Properties, context: Context) -> Made:
        """Make a resource."""
        body = self.mapping.body(self.schema.fields, inputs)
        self._label(body, self._new_labels(inputs, context))
        body, query = self.prepare(body, inputs, context)
        collection = self.collection(inputs, context)
        answer = await context.rest.call("POST", self.path(collection), context.patience, body=body, query=query)
        name = self.name(inputs, context)
        if self.short_name(inputs) is None:
            name = f"{collection}/{short(answer['name'])}"
        await self.finish(answer, name, context)
        return await self.found(name, inputs, context)

    async def read(self, resource_id: str, inputs: Properties, context: Context) -> Made | None:
        """Find a resource; inputs are empty in an import."""
        name = self.by_id(resource_id, context)
        answer = await context.rest.find(self.path(name), context.patience)
        return None if answer is None else self.made(name, answer, inputs, context)

    async def resume(self, resource_id: str, outputs: Properties, context: Context) -> None:
        """Wait for what an earlier engine began and did not wait for: nothing, where a type does not keep track."""

    async def update(self, made: Made, inputs: Properties, changed: set[Path], context: Context) -> Made:
        """Change a resource in place; ``changed`` are the paths of properties that differ."""
        name = self.by_id(made.resource_id, context)
        body = self.mapping.body(self.schema.fields, inputs)
        top = {str(path[0]) for path in changed}
        if self.labels in top:
            self._label(body, self._labels(made.outputs, inputs, context))
        fields = sorted({self._field(one) for one in top if one not in self.mapping.own})
        if fields:
            await self.send(name, body, fields, made.outputs, context)
        return await self.found(name, inputs, context)

    async def send(self, name: str, body: Body, fields: list[str], outputs: Properties, context: Context) -> None:
        """Send an update of some of the API's fields."""
        del outputs
        query = {self.mask: ",".join(fields)} if self.change is Change.MASK else {}
        wanted = body if self.change is Change.PUT else {key: body.get(key) for key in fields}
        method = "PUT" if self.change is Change.PUT else "PATCH"
        path = self.path(name)
        answer = await context.rest.call(method, path, context.patience, body=self.wrap(wanted), query=query)
        if not self.plain_update:
            await self.finish(answer, name, context)

    async def delete(self, resource_id: str, inputs: Properties, context: Context) -> None:
        """Delete a resource; one that is gone already is fine."""
        del inputs
        name = self.by_id(resource_id, context)
        try:
            answer = await context.rest.call("DELETE", self.path(name), context.patience)
        except GoogleError as error:
            if error.code != 404:  # noqa: PLR2004 - HTTP's own number
                raise
            return
        await self.finish(answer, name, context)

    async def finish(self, answer: Body, name: str, context: Context) -> None:
        """Wait until a change is done."""
        if self.wait:
            await context.rest.finished(answer, self.path(self.operations(answer, name)), context.patience)

    async def found(self, name: str, inputs: Properties, context: Context) -> Made:
        """Return the resource as it is now."""
        answer = await context.rest.call("GET", self.path(name), context.patience)
        return self.made(name, answer, inputs, context)

    def made(self, name: str, answer: Body, inputs: Properties, context: Context) -> Made:
        """Return a resource by the API's answer."""
        outputs = self.outputs(answer, inputs, context)
        return Made(self.identifier(name), outputs)

    def outputs(self, answer: Body, inputs: Properties, context: Context) -> Properties:
        """Return all outputs: what the API shows, and what only the provider knows."""
        fields = self.schema.fields
        own = {
            name: inputs.get(name, one.default)
            for name, one in fields.items()
            if name in self.mapping.own | self.mapping.kept and one.is_input
        }
        outputs = {**own, **self.mapping.properties(fields, answer), **self.show(answer, inputs, context)}
        if "project" in fields:
            outputs.setdefault("project", context.project_of(inputs))
        if self.labels:
            outputs |= self._shown_labels(
                at(answer, self.mapping.names.get(self.labels, self.labels)) or {}, inputs, context
            )
        return {name: value for name, value in outputs.items() if value is not None}

    def _field(self, changed: str) -> str:
        return self.mapping.names.get(changed, changed).partition(".")[0]

    def _label(self, body: Body, labels: Mapping[str, str]) -> None:
        if self.labels:
            body[self.mapping.names.get(self.labels, self.labels)] = dict(labels)

    def _new_labels(self, inputs: Properties, context: Context) -> dict[str, str]:
        """Return all labels at a create: the provider's mark, its defaults, and the resource's own."""
        return {**ATTRIBUTION, **context.labels, **(inputs.get(self.labels or "") or {})}

    def _labels(self, outputs: Properties, inputs: Properties, context: Context) -> dict[str, str]:
        """Return all labels after an update: those of others stay."""
        present = outputs.get("effectiveLabels") or {}
        managed = outputs.get("pulumiLabels") or {}
        kept = {key: value for key, value in present.items() if key not in managed or key in ATTRIBUTION}
        return {**kept, **context.labels, **(inputs.get(self.labels or "") or {})}

    def _shown_labels(self, shown: Mapping[str, str], inputs: Properties, context: Context) -> Properties:
        """Return the resource's own labels, those with the provider's, and all that the cloud holds."""
        mine = {key: value for key, value in shown.items() if key in (inputs.get(self.labels or "") or ())}
        ours = {key: value for key, value in shown.items() if key in {*mine, *context.labels, *ATTRIBUTION}}
        return {str(self.labels): mine, "pulumiLabels": ours, "effectiveLabels": dict(shown)}
