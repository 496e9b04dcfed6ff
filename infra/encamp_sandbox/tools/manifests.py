"""A module's Kubernetes manifests, read once when the tool is built and kept as JSON.

The folders are kustomize components; of kustomize only what they use is done: every YAML document that is a
Kubernetes object, and JSON patches that replace one entry. Anything else is refused, so that an upgrade of the
module cannot lose a patch in silence.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from encamp.errors import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

#: Objects that only make sense where the controller runs as a pod.
_IN_CLUSTER_ONLY = ("Service", "Kustomization")


def write_manifests(folders: list[Path], target: Path) -> None:
    """Write every object of ``folders``, patched, as one JSON list.

    Raises:
        SandboxError: a folder has nothing, or a patch is of a kind that is not known here.
    """
    objects: list[dict[str, Any]] = []
    for folder in folders:
        found = read_folder(folder)
        if not found:
            raise SandboxError("no Kubernetes objects were found", where=str(folder))
        objects += found
    target.write_text(json.dumps(objects, separators=(",", ":")), encoding="utf-8")


def read_folder(folder: Path) -> list[dict[str, Any]]:
    """Return the objects of one kustomize component with its patches applied."""
    objects = [
        document
        for file in sorted(folder.glob("*.yaml"))
        for document in _documents(file)
        if isinstance(document, dict) and "apiVersion" in document and document.get("kind") not in _IN_CLUSTER_ONLY
    ]
    kustomization = folder / "kustomization.yaml"
    if kustomization.is_file():
        for settings in _documents(kustomization):
            for patch in settings.get("patches") or []:
                _apply(objects, patch, folder)
    return objects


def _apply(objects: list[dict[str, Any]], patch: dict[str, Any], folder: Path) -> None:
    selector = patch.get("target", {})
    chosen = [
        item
        for item in objects
        if item["kind"] == selector.get("kind") and item["metadata"]["name"] == selector.get("name")
    ]
    operations = [operation for document in _documents(folder / patch["path"]) for operation in document]
    if not chosen:
        raise SandboxError(f"the patch {patch['path']} selects no object", where=str(folder))
    for operation in operations:
        if operation.get("op") != "replace":
            raise SandboxError(f"the patch {patch['path']} is not a replacement", where=str(folder))
        for item in chosen:
            _replace(item, operation["path"], operation["value"])


def _replace(item: dict[str, Any], pointer: str, value: Any) -> None:
    parent: Any = item
    *parts, last = pointer.strip("/").split("/")
    for part in parts:
        parent = parent[int(part)] if isinstance(parent, list) else parent[part]
    parent[int(last) if isinstance(parent, list) else last] = value


def _documents(file: Path) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(file.read_bytes(), Loader=loader) if document]
