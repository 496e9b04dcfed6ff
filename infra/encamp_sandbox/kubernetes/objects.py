"""Kubernetes objects from the provider's view: names, annotations, defaults, and the compared part of live objects.

Sources: pulumi-kubernetes provider/pkg/metadata (names, annotations) and provider/pkg/provider (checkpoints, pruning).
"""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import secrets
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from encamp.property_paths import path_text
from encamp_sandbox.provider import UNKNOWN, Secret
from encamp_sandbox.provider.values import INPUTS_KEY, Unknown, has_unknowns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from encamp.property_paths import Path
    from encamp_sandbox.provider import Properties, Value

AUTONAMED: Final = "pulumi.com/autonamed"
SKIP_AWAIT: Final = "pulumi.com/skipAwait"
WAIT_FOR: Final = "pulumi.com/waitFor"
TIMEOUT: Final = "pulumi.com/timeoutSeconds"
PATCH_FORCE: Final = "pulumi.com/patchForce"
FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
PROPAGATION: Final = "pulumi.com/deletionPropagationPolicy"
REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"

INITIAL_API_VERSION_KEY: Final = "__initialApiVersion"
FIELD_MANAGER_KEY: Final = "__fieldManager"

#: Fields of a definition's schema whose names have dashes at the API server and underscores in the SDK's classes.
#: Source: pulumi-kubernetes provider/pkg/provider/provider.go, underscoreToDashMap.
DASHED: Final = {
    name.replace("-", "_"): name
    for name in (
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    )
}
#: Source: as above, addPatchValueToDiff.
_PLAIN_KEY: Final = re.compile(r"""[^."\[\]]+""")
_UNDERSCORED: Final = {dashed: name for name, dashed in DASHED.items()}

READ_ONLY_METADATA: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
BUILT_IN_GROUPS: Final = frozenset(
    {"", "apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "networking.k8s.io", "node.k8s.io"}
    | {
        "policy",
        "resource.k8s.io",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
    }
)
SUFFIXES: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def metadata(obj: Mapping[str, Value]) -> dict[str, Value]:
    """Return an object's metadata, empty if there is none or it is unknown."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def annotation(obj: Mapping[str, Value], key: str) -> str:
    """Return an annotation's text, empty if it is absent or unknown."""
    annotations = metadata(obj).get("annotations")
    value = annotations.get(key) if isinstance(annotations, dict) else None
    return value if isinstance(value, str) else ""


def name_of(obj: Mapping[str, Value]) -> str:
    """Return an object's name, empty if it is absent or unknown."""
    name = metadata(obj).get("name")
    return name if isinstance(name, str) else ""


def namespace_of(obj: Mapping[str, Value]) -> str:
    """Return an object's namespace, empty if it is absent or unknown."""
    namespace = metadata(obj).get("namespace")
    return namespace if isinstance(namespace, str) else ""


def group_of(api_version: str) -> str:
    """Return the API group of an apiVersion, empty for the core."""
    return api_version.rpartition("/")[0]


def kind_of_token(token: str) -> tuple[str, str]:
    """Return the apiVersion and kind of a type token: ``kubernetes:core/v1:Namespace`` is ``("v1", "Namespace")``."""
    _, module, kind = token.split(":", 2)
    group, _, version = module.rpartition("/")
    return (version if group in ("", "core") else f"{group}/{version}"), kind


def identity(obj: Mapping[str, Value]) -> str:
    """Return the resource id: ``namespace/name``, or the name alone."""
    namespace, name = namespace_of(obj), name_of(obj)
    return f"{namespace}/{name}" if namespace else name


def split_identity(resource_id: str) -> tuple[str, str]:
    """Return the namespace (may be empty) and name of a resource id."""
    namespace, _, name = resource_id.rpartition("/")
    return namespace, name


def with_name(obj: Properties, old: Mapping[str, Value], logical: str, seed: bytes) -> Properties:
    """Return the object with an automatic name, where the user gave none.

    The old one, or the logical name and 8 hex.
    """
    given = obj.get("metadata")
    if isinstance(given, Unknown) or metadata(obj).get("name") or metadata(obj).get("generateName"):
        return obj
    if annotation(old, AUTONAMED) == "true" and name_of(old):
        name = name_of(old)
    else:
        suffix = hashlib.sha256(seed + logical.encode()).hexdigest()[:8] if seed else secrets.token_hex(4)
        name = f"{logical}-{suffix}"
    fields = metadata(obj)
    annotations = fields.get("annotations")
    if not isinstance(annotations, Unknown):
        annotations = {**(annotations or {}), AUTONAMED: "true"}
    return {**obj, "metadata": {**fields, "name": name, "annotations": annotations}}


def for_server(value: Value) -> Value:
    """Return the engine's value in the API server's form: without null members, and with its own names of fields."""
    if isinstance(value, dict):
        return {DASHED.get(key, key): for_server(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [for_server(item) for item in value]
    return value


def for_engine(value: Value) -> Value:
    """Return the API server's value with the SDK's names of fields."""
    if isinstance(value, dict):
        return {_UNDERSCORED.get(key, key): for_engine(item) for key, item in value.items()}
    if isinstance(value, list):
        return [for_engine(item) for item in value]
    return value


def checked(inputs: Properties) -> Properties:
    """Return inputs as Check gives them back: in normal form, where all of them are known (``normalizeInputs``)."""
    return dict(inputs) if has_unknowns(inputs) else normal(inputs)


def prune(live: Value, shape: Value) -> Value:
    """Return the part of a live value at the places of ``shape``; the rest is the server's own."""
    if isinstance(live, dict) and isinstance(shape, dict):
        return {key: prune(live[key], item) for key, item in shape.items() if key in live}
    if isinstance(live, list) and isinstance(shape, list):
        return [prune(item, shape[index]) if index < len(shape) else item for index, item in enumerate(live)]
    return live


def normal(obj: Mapping[str, Value]) -> Properties:
    """Return the object as the API server would store it, as far as that changes a comparison.

    The official provider does the same for built-in kinds only, by way of their Go types: empty lists and maps vanish,
    quantities take their canonical form, ``stringData`` becomes ``data``. A custom resource is kept as given.
    """
    result = copy.deepcopy(dict(obj))
    if isinstance(result.get("metadata"), dict):
        for key in READ_ONLY_METADATA:
            result["metadata"].pop(key, None)
    if group_of(str(obj.get("apiVersion", ""))) not in BUILT_IN_GROUPS:
        return result
    if result.get("kind") == "Secret" and isinstance(result.get("stringData"), dict):
        data = {
            key: base64.b64encode(text.encode()).decode() if isinstance(text, str) else text
            for key, text in result.pop("stringData").items()
        }
        given = result.get("data")
        result["data"] = {**(given if isinstance(given, dict) else {}), **data}
    return _typed(result, ())


def _typed(value: Value, path: tuple[str, ...]) -> Value:
    if isinstance(value, dict):
        typed = {key: _typed(item, (*path, key)) for key, item in value.items()}
        return {key: item for key, item in typed.items() if item not in ({}, [], None) or _kept_empty(key)}
    if isinstance(value, list):
        return [_typed(item, path) for item in value]
    if len(path) > 1 and path[-2] in ("limits", "requests", "capacity", "hard", "overhead"):
        return quantity(value)
    return value


def _kept_empty(key: str) -> bool:
    # Selectors and volumes say something by being empty.
    return key in ("podSelector", "namespaceSelector", "selector", "emptyDir", "ingress", "egress")


def quantity(value: Value) -> Value:
    """Return the canonical text of a resource quantity; what is none is returned as it is.

    Source: apimachinery pkg/api/resource/quantity.go: no fraction, the largest suffix that leaves an integer.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    text = str(value)
    number = text.rstrip("KMGTPEkmuni")
    suffix = text[len(number) :]
    try:
        amount = Decimal(number)
    except InvalidOperation:
        return value
    if "e" in number.lower():  # an exponent is kept by the server
        return value
    if suffix in BINARY:
        return _binary(amount * 1024 ** BINARY[suffix])
    if suffix not in SUFFIXES:
        return value
    return _decimal(amount.scaleb(SUFFIXES[suffix]))


def _binary(amount: Decimal) -> str:
    for suffix, power in sorted(BINARY.items(), key=lambda item: -item[1]):
        if amount and amount % 1024**power == 0:
            return f"{int(amount / 1024**power)}{suffix}"
    return _decimal(amount)


def _decimal(amount: Decimal) -> str:
    if not amount:
        return "0"
    for suffix, power in sorted(SUFFIXES.items(), key=lambda item: -item[1]):
        scaled = amount.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{suffix}"
    return str(amount)


def concealed(obj: Mapping[str, Value]) -> Properties:
    """Return the object, where it is a Secret with its data marked secret, whoever wrote them."""
    if obj.get("kind") != "Secret" or obj.get("apiVersion") != "v1":
        return dict(obj)
    return {
        key: Secret(item) if key in ("data", "stringData") and isinstance(item, dict) else item
        for key, item in obj.items()
    }


def checkpoint(live: Mapping[str, Value], inputs: Properties, manager: str, initial_api_version: str) -> Properties:
    """Return a resource's outputs: the live object, and what later operations need to know.

    The official provider compares with the inputs that it keeps there; this one leaves them for it, so that a stack may
    go from one to the other.
    """
    return {
        **concealed(for_engine(live)),
        INPUTS_KEY: concealed(for_engine(inputs)),
        INITIAL_API_VERSION_KEY: initial_api_version,
        FIELD_MANAGER_KEY: manager,
    }


def previewed(dry: Mapping[str, Value], inputs: Properties, field_manager: str) -> Properties:
    """Return the outputs of a dry run.

    What the server decides at the real run is unknown, its empty status is left out.
    """
    outputs = {key: item for key, item in dry.items() if key != "status"}
    made = {key: item for key, item in metadata(dry).items() if key not in READ_ONLY_METADATA}
    outputs["metadata"] = {**made, "uid": UNKNOWN, "resourceVersion": UNKNOWN, "creationTimestamp": UNKNOWN}
    return checkpoint(outputs, inputs, field_manager, str(dry.get("apiVersion", "")))


def diff_path(path: Path) -> str:
    """Return a path as pulumi-kubernetes writes it: quotes only around what could be taken for more than one key."""
    return path_text(path, _PLAIN_KEY)


def live_state(outputs: Mapping[str, Value]) -> Properties:
    """Return the live object that a resource's outputs hold."""
    return for_server({key: item for key, item in outputs.items() if not key.startswith("__")})


def new_field_manager(seed: bytes) -> str:
    """Return a field manager of the resource's own, as the official provider makes it."""
    digest = hashlib.sha256(seed).hexdigest()[:8] if seed else secrets.token_hex(4)
    return f"pulumi-kubernetes-{digest}"


def field_manager(inputs: Mapping[str, Value], outputs: Mapping[str, Any]) -> str:
    """Return the annotation's, else the state's, else a new one."""
    return annotation(inputs, FIELD_MANAGER) or outputs.get(FIELD_MANAGER_KEY) or new_field_manager(b"")
