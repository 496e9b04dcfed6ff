"""The environment of a container: envFrom, env and valueFrom as the kubelet resolves them.

Source: k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

from encamp.cloud import quantity
from encamp_sandbox.kubelet.expansion import expand

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Lookup = Callable[[str, str], Awaitable[dict[str, Any] | None]]

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class ConfigError(Exception):
    """A container's reference has no object; the kubelet shows it as CreateContainerConfigError and retries."""


async def container_environment(
    pod: Mapping[str, Any], container: Mapping[str, Any], allocatable: Mapping[str, str], lookup: Lookup
) -> dict[str, str]:
    """Resolve the environment of a container.

    Args:
        pod: the pod, its status with podIP.
        container: its container.
        allocatable: the node's, for resource fields without a limit.
        lookup: gives the ConfigMap or Secret (``configmaps`` or ``secrets``, name) of the pod's namespace.

    Raises:
        ConfigError: a referenced object or key is missing and not optional.
    """
    resolved: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        resolved |= await _all_of(source, lookup)
    for variable in container.get("env") or []:
        origin = variable.get("valueFrom")
        if not origin:
            resolved[variable["name"]] = expand(variable.get("value") or "", resolved)
        elif (value := await _value_from(origin, pod, container, allocatable, lookup)) is not None:
            resolved[variable["name"]] = value
    return resolved


async def _all_of(source: Mapping[str, Any], lookup: Lookup) -> dict[str, str]:
    kind = "configmaps" if "configMapRef" in source else "secrets"
    data = await _data(kind, source["configMapRef" if kind == "configmaps" else "secretRef"], lookup)
    prefix = source.get("prefix") or ""
    return {prefix + name: value.decode("utf-8", "replace") for name, value in (data or {}).items()}


async def _value_from(
    origin: Mapping[str, Any],
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    allocatable: Mapping[str, str],
    lookup: Lookup,
) -> str | None:
    if "fieldRef" in origin:
        return field(pod, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        return resource_field(pod, container, allocatable, origin["resourceFieldRef"])
    for kind, key in (("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")):
        if key in origin:
            reference = origin[key]
            data = await _data(kind, reference, lookup)
            if data is not None and reference["key"] in data:
                return data[reference["key"]].decode("utf-8", "replace")
            if reference.get("optional"):
                return None
            raise ConfigError(f"couldn't find key {reference['key']} in {kind[:-1]} {reference['name']}")
    raise ConfigError(f"this kubelet knows no env source {', '.join(origin)}")


async def _data(kind: str, reference: Mapping[str, Any], lookup: Lookup) -> dict[str, bytes] | None:
    found = await lookup(kind, reference["name"])
    if found is not None:
        return object_data(found)
    if reference.get("optional"):
        return None
    raise ConfigError(f'{kind[:-1]} "{reference["name"]}" not found')


def object_data(found: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the entries of a ConfigMap or Secret as bytes."""
    if found.get("kind") == "Secret":
        return {name: base64.b64decode(value) for name, value in (found.get("data") or {}).items()}
    text = {name: value.encode() for name, value in (found.get("data") or {}).items()}
    return text | {name: base64.b64decode(value) for name, value in (found.get("binaryData") or {}).items()}


def field(pod: Mapping[str, Any], path: str) -> str:
    """Return the value of a field of the downward API; empty if the pod lacks the label or annotation.

    Raises:
        ConfigError: the downward API has no such field.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if subscript := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = sorted((metadata.get(path.split(".")[1]) or {}).items())
        return "\n".join(f'{name}="{_quoted(value)}"' for name, value in entries)
    simple = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.hostIP": status.get("hostIP"),
        "status.hostIPs": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
        "status.podIPs": status.get("podIP"),
    }
    if path not in simple:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return simple[path] or ""


def resource_field(
    pod: Mapping[str, Any], container: Mapping[str, Any], allocatable: Mapping[str, str], reference: Mapping[str, Any]
) -> str:
    """Return a container's request or limit in units of the divisor; the node's allocatable where there is no limit."""
    name = reference.get("containerName")
    owner = next((one for one in pod["spec"]["containers"] if one["name"] == name), container)
    kind, _, resource = reference["resource"].partition(".")
    amounts = (owner.get("resources") or {}).get(kind) or {}
    default = allocatable.get(resource, "0") if kind == "limits" else "0"
    return str(quantity.in_units(amounts.get(resource, default), reference.get("divisor")))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
