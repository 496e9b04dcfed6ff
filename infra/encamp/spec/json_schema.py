"""The JSON Schema of job files, made of the models: completion and documentation in editors, and a check for programs.

It accepts every form that the loader takes: a whole Job, a ``trainingInput:`` alone, the fields of a TrainingInput at
the top. camelCase keys are properties, which editors offer; snake_case keys are pattern properties, which they do not.
Unknown keys are refused. Rules between fields are not in it; ``encamp validate`` knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from encamp.spec.field_docs import HIDDEN, default, docstrings, inner_model
from encamp.spec.fields import declaration
from encamp.spec.job import TrainingJobSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

_JOB, _INPUT, _BARE = "TrainingJobSpec", "TrainingInputSpec", "BareTrainingInput"


def job_schema() -> dict[str, Any]:
    """Return the schema, as plain data."""
    made = models_json_schema([(TrainingJobSpec, "validation")], ref_template="#/$defs/{model}")[1]["$defs"]
    definitions = dict(made)
    for model in _models(TrainingJobSpec):
        definitions[model.__name__] = _described(model, made[model.__name__])
    definitions[_BARE] = _bare(definitions[_JOB], definitions[_INPUT])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "encamp job file",
        "description": "A training job: AI Platform Training's Job or TrainingInput, with the encamp block beside it.",
        "type": "object",
        "if": {"anyOf": [{"required": ["trainingInput"]}, {"required": ["training_input"]}]},
        "then": {"$ref": f"#/$defs/{_JOB}"},
        "else": {"$ref": f"#/$defs/{_BARE}"},
        "$defs": dict(sorted(definitions.items())),
    }


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for info in model.model_fields.values():
        inner = inner_model(info)
        if inner is not None:
            yield from _models(inner)


def _described(model: type[BaseModel], definition: dict[str, Any]) -> dict[str, Any]:
    """Return a model's definition with what its fields mean, both spellings, and nothing else allowed."""
    docs = docstrings(model)
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        alias = info.alias or name
        given = definition["properties"][alias]
        field = {"type": "null"} if declaration(info).refused else _plain(given)
        field["description"] = docs[name]
        if default(info) is not None:
            field["default"] = default(info)
        if name in HIDDEN or declaration(info).refused:
            patterns["^({})$".format("|".join(sorted({alias, name})))] = field
            continue
        properties[alias] = field
        if name != alias:
            patterns[f"^{name}$"] = {"$ref": f"#/$defs/{model.__name__}/properties/{alias}"}
    return {
        "type": "object",
        "description": definition["description"],
        "properties": properties,
        "patternProperties": patterns,
        "additionalProperties": False,
    }


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    """Return a field without its title, and with one ``type`` where each choice is no more than a type."""
    field = {key: value for key, value in given.items() if key not in {"title", "default"}}
    choices = field.get("anyOf", [])
    if choices and all(choice.keys() == {"type"} for choice in choices):
        field = {"type": [choice["type"] for choice in choices]}
    return field


def _bare(job: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a file that holds a bare TrainingInput, with what may stand beside it at the top."""
    beside = {name: {"$ref": f"#/$defs/{_JOB}/properties/{name}"} for name in job["properties"]}
    fields = {name: {"$ref": f"#/$defs/{_INPUT}/properties/{name}"} for name in training["properties"]}
    return {
        "type": "object",
        "description": "The fields of a TrainingInput at the top of the file, with encamp beside them.",
        "properties": beside | fields,
        "patternProperties": job["patternProperties"] | training["patternProperties"],
        "additionalProperties": False,
    }
