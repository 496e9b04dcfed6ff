"""The page about the service for people, made of the OpenAPI document: no script, and nothing from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from encamp.plan.rendering import render_html

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TEMPLATE: Final = "api.html.j2"


def page(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document, as HTML that is XML as well."""
    return render_html(_TEMPLATE, api=view(document))


@dataclass(frozen=True)
class Kind:
    """Type of a field: words, and the schema that they end with, where it is one."""

    words: str
    schema: str = ""


@dataclass(frozen=True)
class Field:
    """A field of a schema, or a parameter of a method."""

    name: str
    kind: Kind
    text: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operation:
    """A method on the page. ``refusals`` are code and text."""

    id: str
    verb: str
    path: str
    summary: str
    more: str
    parameters: tuple[Field, ...]
    request: str
    response: str
    refusals: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Shape:
    """A schema on the page."""

    name: str
    text: str
    fields: tuple[Field, ...]
    choices: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """The input of the template."""

    title: str
    summary: str
    version: str
    operations: tuple[Operation, ...]
    shapes: tuple[Shape, ...]


def view(document: Mapping[str, Any]) -> View:
    """Return the page's view of an OpenAPI document."""
    info = document["info"]
    return View(
        title=info["title"],
        summary=info["summary"],
        version=info["version"],
        operations=tuple(_operations(document)),
        shapes=tuple(_shape(name, schema) for name, schema in document["components"]["schemas"].items()),
    )


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    shared = document["components"]
    for path, methods in document["paths"].items():
        segments = [shared["parameters"][_target(one).schema] for one in methods["parameters"]]
        for verb, one in methods.items():
            if verb == "parameters":
                continue
            answers = {
                code: shared["responses"][code] if "$ref" in found else found
                for code, found in one["responses"].items()
            }
            yield Operation(
                id=one["operationId"],
                verb=verb.upper(),
                path=path,
                summary=one["summary"],
                more=one.get("description", ""),
                parameters=tuple(
                    Field(each["name"], _kind(each["schema"]), each["description"])
                    for each in (*segments, *one["parameters"])
                ),
                request=_content(one["requestBody"]) if "requestBody" in one else "",
                response=_content(answers.pop("200")),
                refusals=tuple((code, found["description"]) for code, found in answers.items()),
            )


def _shape(name: str, schema: Mapping[str, Any]) -> Shape:
    fields = tuple(
        Field(key, _kind(one), one.get("description", ""), tuple(one.get("enum", ())))
        for key, one in schema.get("properties", {}).items()
    )
    return Shape(name, schema["description"], fields, tuple(schema.get("enum", ())))


def _content(body: Mapping[str, Any]) -> str:
    return _target(body["content"]["application/json"]["schema"]).schema


def _kind(schema: Mapping[str, Any]) -> Kind:
    if "$ref" in schema:
        return _target(schema)
    kind = schema["type"]
    if kind == "array":
        of = _kind(schema["items"])
        return Kind(f"list of {of.words}".rstrip(), of.schema)
    if kind == "object" and "additionalProperties" in schema:
        return Kind("mapping of strings")
    words = " or ".join(kind) if isinstance(kind, list) else kind
    return Kind(f"{words}, {schema['format']}" if "format" in schema else words)


def _target(schema: Mapping[str, Any]) -> Kind:
    return Kind("", schema["$ref"].rpartition("/")[2])
