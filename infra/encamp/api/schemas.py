"""The schemas of requests and answers: derived from the models of job files, if those have them.

Both documents, discovery and OpenAPI, are made of these. A schema here is JSON Schema with ``format``s of the discovery
form, and ``$ref``s that are the bare name of another one. Sources: the job model, sections 1.1-1.4, 7.6 and 11.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_camel

from encamp.spec import encamp as own_models
from encamp.spec.json_schema import job_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]

STATES: Final = {
    "STATE_UNSPECIFIED": "Not known.",
    "QUEUED": "Waits for its turn.",
    "PREPARING": "Its machines are being made.",
    "RUNNING": "Every replica runs.",
    "SUCCEEDED": "The master ended with exit code 0.",
    "FAILED": "It ended otherwise; errorMessage says how.",
    "CANCELLING": "Somebody ended it, or a limit did; its machines are being deleted.",
    "CANCELLED": "It was ended before its end.",
}

#: Models of job files by the names that the resource's parts have had.
_NAMES: Final = {
    "TrainingJobSpec": "Job",
    "TrainingInputSpec": "TrainingInput",
}  #: Fields that name files of whoever calls: these are uploaded first, and named in packageUris.
_LOCAL: Final = tuple(to_camel(name) for name in own_models.LOCAL_FIELDS)
#: Schemas that AI Platform never had.
OWN: Final = frozenset(
    name for name, one in vars(own_models).items() if getattr(one, "__module__", "") == own_models.__name__
)


@cache
def schemas() -> Mapping[str, Schema]:
    """Return every schema, by name, in the order of names."""
    made = _of_models() | _WRITTEN
    made["Job"]["properties"] |= _JOB_OUTPUT
    made["Job"]["description"] = "A training job."
    return dict(sorted(made.items()))


def _of_models() -> dict[str, Schema]:
    made = {}
    for name, given in job_schema()["$defs"].items():
        if "enum" in given:
            made[name] = {key: given[key] for key in ("type", "description", "enum")}
        elif name != "BareTrainingInput":
            left_out = _LOCAL if name == own_models.EncampSpec.__name__ else ()
            fields = {key: _field(one) for key, one in given["properties"].items() if key not in left_out}
            made[_NAMES.get(name, name)] = _closed(given["description"], fields)
    return made


def _field(given: Schema) -> Schema:
    """Return a field of a model in the words of this module: nothing is null here, it is absent."""
    field = _typed(given)
    field |= {key: given[key] for key in ("description", "default") if key in given}
    return field


def _typed(given: Schema) -> Schema:
    choices = [one for one in given.get("anyOf", [given]) if one.get("type") != "null"]
    if len(choices) > 1:
        return dict(_INT32) if choices[0]["format"] == "int32" else {"type": ["string", "integer"], "format": "int64"}
    (only,) = choices
    if "$ref" in only:
        target = only["$ref"].rpartition("/")[2]
        return {"$ref": _NAMES.get(target, target)}
    kinds = only["type"] if isinstance(only["type"], list) else [only["type"]]
    (kind,) = (one for one in kinds if one != "null")
    made: Schema = {"type": kind}
    if kind == "array":
        made["items"] = _typed(only["items"])
    if kind == "object":
        made["additionalProperties"] = _typed(only["additionalProperties"])
    if kind == "number":
        made["format"] = "double"
    elif "format" in only:
        made["format"] = only["format"]
    return made


def _object(description: str, fields: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "description": description, "properties": dict(fields)}


def _closed(description: str, fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of sent data: unknown fields are refused."""
    return _object(description, fields) | {"additionalProperties": False}


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", **more, "description": description}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _list(of: str | Schema, description: str) -> Schema:
    items = {"$ref": of} if isinstance(of, str) else of
    return {"type": "array", "items": items, "description": description}


def _texts(description: str) -> Schema:
    """Return a mapping of texts."""
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


def _ref(name: str, description: str) -> Schema:
    return {"$ref": name, "description": description}


_INT32: Final = {"type": "integer", "format": "int32"}
_TIME: Final = {"format": "google-datetime"}
_STATE: Final = {"$ref": "State"}
_POLICY_VERSION: Final = _INT32 | {"description": "1; policies with conditions, of version 3, are not taken."}

_JOB_OUTPUT: Final = {
    "createTime": _text("When it was created.", **_TIME, readOnly=True),
    "startTime": _text("When every replica ran for the first time.", **_TIME, readOnly=True),
    "endTime": _text("When it ended.", **_TIME, readOnly=True),
    "state": _STATE | {"description": "How far it has come.", "readOnly": True},
    "errorMessage": _text("Why it failed or was cancelled.", readOnly=True),
    "trainingOutput": _ref("TrainingOutput", "What it has come to.") | {"readOnly": True},
    "jobPosition": _text("Its place among the waiting jobs, from 1; 0 or absent later.", format="int64", readOnly=True),
    "etag": _text("Version of the job's labels: a change that sends back an old one is refused.", format="byte"),
}

_WRITTEN: Final[dict[str, Schema]] = {
    "State": {"type": "string", "description": "How far a job or a trial has come.", "enum": list(STATES)},
    "TrainingOutput": _object(
        "What a training job has come to.",
        {
            "completedTrialCount": _text("How many trials have succeeded; tuning jobs only.", format="int64"),
            "trials": _list("HyperparameterOutput", "The trials, best first; tuning jobs only."),
            "isHyperparameterTuningJob": _flag("Whether the job tunes hyperparameters."),
            "hyperparameterMetricTag": _text("Name of the metric; tuning jobs only."),
            "isBuiltInAlgorithmJob": _flag("Whether it runs an algorithm that AI Platform brought along."),
        },
    ),
    "HyperparameterOutput": _object(
        "One trial.",
        {
            "trialId": _text("Its number, from 1."),
            "hyperparameters": _texts("The values that were tried, by parameter."),
            "startTime": _text("When it began.", **_TIME),
            "endTime": _text("When it ended.", **_TIME),
            "state": _STATE | {"description": "How far it has come."},
            "finalMetric": _ref("HyperparameterMetric", "The last metric that it told."),
            "isTrialStoppedEarly": _flag("Whether it was stopped because it was unpromising."),
        },
    ),
    "HyperparameterMetric": _object(
        "A metric that a trial told.",
        {
            "trainingStep": _text("At which step of the training.", format="int64"),
            "objectiveValue": {"type": "number", "format": "double", "description": "Its value."},
        },
    ),
    "ListJobsResponse": _object(
        "A page of jobs.",
        {
            "jobs": _list("Job", "Newest first; absent where there is none."),
            "nextPageToken": _text("The pageToken of the page that follows; absent on the last one."),
        },
    ),
    "CancelJobRequest": _object("Nothing.", {}),
    "Empty": _object("Nothing.", {}),
    "Policy": _closed(
        "Who may do what with a job, beside those whom the project allows.",
        {
            "version": _POLICY_VERSION,
            "bindings": _list("Binding", "Roles and who has them."),
            "etag": _text("Version of the policy: a change that sends back an old one is refused.", format="byte"),
        },
    ),
    "Binding": _closed(
        "A role and who has it.",
        {
            "role": _text("Such as roles/ml.jobOwner."),
            "members": _list({"type": "string"}, "Such as user:ana@example.com; groups are not taken."),
        },
    ),
    "SetIamPolicyRequest": _closed(
        "A policy that replaces the one before.",
        {
            "policy": _ref("Policy", "The whole policy."),
            "updateMask": _text("Known, and without effect: all of the policy is replaced.", format="google-fieldmask"),
        },
    ),
    "TestIamPermissionsRequest": _closed(
        "Some permissions.", {"permissions": _list({"type": "string"}, "Such as ml.jobs.cancel; no wildcards.")}
    ),
    "TestIamPermissionsResponse": _object(
        "Those that the caller has.",
        {"permissions": _list({"type": "string"}, "In the order asked; absent where there is none.")},
    ),
    "GetConfigResponse": _object(
        "What jobs of the project run as.",
        {
            "serviceAccount": _text("The account that makes and deletes what jobs need."),
            "serviceAccountProject": _text("The number of the project.", format="int64"),
        },
    ),
    "ListLocationsResponse": _object(
        "A page of locations.",
        {
            "locations": _list("Location", "By name."),
            "nextPageToken": _text("The pageToken of the page that follows; absent on the last one."),
        },
    ),
    "Location": _object(
        "Where jobs can run.",
        {
            "name": _text("projects/PROJECT/locations/LOCATION."),
            "capabilities": _list("Capability", "What can be done there."),
        },
    ),
    "Capability": _object(
        "What can be done in a location.",
        {
            "type": _text("TRAINING: no predictions are served.", enum=["TYPE_UNSPECIFIED", "TRAINING"]),
            "availableAccelerators": _list("AcceleratorType", "Accelerators that jobs can have there."),
        },
    ),
}
