"""The discovery document, from which old clients build themselves.

Its form is that of ml v1's public one (names of resources, methods, parameters and schemas), with what is served here
and nothing else. Source of the form: developers.google.com/discovery/v1/reference/apis.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from encamp.api.methods import METHODS
from encamp.api.schemas import OWN, STATES, schemas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.api.methods import Method, Parameter

#: Scopes that clients request for a token; the second, so that it names its owner.
_SCOPES: Final = {
    "https://www.googleapis.com/auth/cloud-platform": {"description": "Work with Google Cloud as this account."},
    "https://www.googleapis.com/auth/userinfo.email": {"description": "See the e-mail of this account."},
}
_SEGMENT: Final = re.compile(r"\{(\w+)\}")
#: Schemas by the names that the public document has for them; ours are ``GoogleCloudMlV1__`` and the name otherwise.
_PUBLIC: Final = {
    "Empty": "GoogleProtobuf__Empty",
    "HyperparameterMetric": "GoogleCloudMlV1_HyperparameterOutput_HyperparameterMetric",
    "Policy": "GoogleIamV1__Policy",
    "Binding": "GoogleIamV1__Binding",
    "SetIamPolicyRequest": "GoogleIamV1__SetIamPolicyRequest",
    "TestIamPermissionsRequest": "GoogleIamV1__TestIamPermissionsRequest",
    "TestIamPermissionsResponse": "GoogleIamV1__TestIamPermissionsResponse",
}
#: Parameters that every method takes beside its own.
_STANDARD: Final = {
    "alt": ("string", "json", "Form of the answer; there is only json."),
    "fields": ("string", None, "Which fields to answer, such as jobs(jobId,state)."),
    "prettyPrint": ("boolean", "false", "Whether the answer has line breaks."),
    "key": ("string", None, "Known, and without effect."),
    "quotaUser": ("string", None, "Known, and without effect."),
    "$.xgafv": ("string", None, "Known, and without effect."),
}
_FORMATS: Final = {"updateMask": "google-fieldmask"}


def discovery_document(root: str) -> dict[str, Any]:
    """Return the document.

    ``root`` is the service's own URL with a slash at its end, where clients then send requests.
    """
    return _document() | {"rootUrl": root, "baseUrl": root, "documentationLink": f"{root}docs"}


@cache
def _document() -> dict[str, Any]:
    content = {
        "schemas": {_public(name): _schema(name) for name, one in schemas().items() if "enum" not in one},
        "resources": _resources(),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": "ml:v1",
        "name": "ml",
        "version": "v1",
        "version_module": True,
        "revision": "0",
        "title": "Training jobs",
        "canonicalName": "Cloud Machine Learning Engine",
        "description": "Training jobs as AI Platform Training took them, run by encamp.",
        "protocol": "rest",
        "fullyEncodeReservedExpansion": True,
        "servicePath": "",
        "basePath": "",
        "batchPath": "batch",
        "etag": digest[:32],
        "auth": {"oauth2": {"scopes": _SCOPES}},
        "parameters": {name: _standard(*one) for name, one in _STANDARD.items()},
        **content,
    }


def _standard(kind: str, default: str | None, description: str) -> dict[str, Any]:
    made = {"type": kind, "location": "query", "description": description}
    return made if default is None else made | {"default": default}


def _resources() -> dict[str, Any]:
    """Return the tree of resources: ``projects.jobs.create`` is method ``create`` of ``jobs`` below ``projects``."""
    top: dict[str, Any] = {}
    for method in METHODS:
        *path, name = method.id.split(".")
        node: dict[str, Any] = {"resources": top}
        for part in path:
            node = node.setdefault("resources", {}).setdefault(part, {})
        node.setdefault("methods", {})[name] = _method(method)
    return top


def _method(method: Method) -> dict[str, Any]:
    version, _, rest = method.path.partition("/")
    resource, colon, verb = rest.partition(":")
    owner, collection = (resource, "") if resource.endswith("}") else resource.rsplit("/", 1)
    name = resource_parameter(method)
    tail = (f"/{collection}" if collection else "") + colon + verb
    made: dict[str, Any] = {
        "id": f"ml.{method.id}",
        "description": method.description,
        "httpMethod": method.verb,
        "path": f"{version}/{{+{name}}}{tail}",
        "flatPath": _SEGMENT.sub(r"{\1sId}", method.path),
        "parameterOrder": [name],
        "parameters": {
            name: {
                "type": "string",
                "location": "path",
                "required": True,
                "pattern": f"^{_SEGMENT.sub('[^/]+', owner)}$",
                "description": f"Such as {_SEGMENT.sub(lambda found: f'my-{found[1]}', owner)}.",
            },
            **{one.name: _parameter(one) for one in method.query},
        },
        "response": {"$ref": _public(method.response)},
        "scopes": list(_SCOPES),
    }
    if method.request is not None:
        made["request"] = {"$ref": _public(method.request)}
    return made


def resource_parameter(method: Method) -> str:
    """Return the public form's name of a path: ``parent`` of a collection, ``resource`` of a policy, or ``name``."""
    if method.id.endswith(("IamPolicy", "IamPermissions")):
        return "resource"
    return "name" if method.path.partition(":")[0].endswith("}") else "parent"


def _parameter(one: Parameter) -> dict[str, Any]:
    made = {"type": one.kind, "location": "query", "description": one.description}
    if one.kind == "integer":
        made["format"] = "int32"
    if one.name in _FORMATS:
        made["format"] = _FORMATS[one.name]
    return made


def _public(name: str) -> str:
    if name in OWN:
        return f"Encamp__{name}"
    return _PUBLIC.get(name, f"GoogleCloudMlV1__{name}")


def _schema(name: str) -> dict[str, Any]:
    return {"id": _public(name)} | _form(schemas()[name])


def _form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in this document's words: enums stand where they are used, and defaults are texts."""
    made: dict[str, Any] = {key: one for key, one in schema.items() if key not in {"required", "additionalProperties"}}
    target = schemas().get(made.get("$ref", ""))
    if target is not None and "enum" in target:
        del made["$ref"]
        made |= {"type": "string", "enum": target["enum"]}
        if target is schemas()["State"]:
            made["enumDescriptions"] = list(STATES.values())
    elif "$ref" in made:
        made["$ref"] = _public(made["$ref"])
    if isinstance(made.get("type"), list):
        made["type"] = "string"
    if "default" in made:
        made["default"] = _default(made["default"])
    if "items" in made:
        made["items"] = _form(made["items"])
    if "properties" in made:
        made["properties"] = {key: _form(one) for key, one in made["properties"].items()}
    if schema.get("additionalProperties"):
        made["additionalProperties"] = _form(schema["additionalProperties"])
    return {key: value for key, value in made.items() if value is not None}


def _default(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int)) else None
