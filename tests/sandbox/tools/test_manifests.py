from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError
from encamp_sandbox.tools.manifests import read_folder, write_manifests

if TYPE_CHECKING:
    from pathlib import Path

_WEBHOOKS = """
apiVersion: v1
kind: Hooks
metadata: {name: hooks}
webhooks: [{name: first}, {name: second}]
---
apiVersion: v1
kind: Service
metadata: {name: only-in-a-cluster}
"""
_KUSTOMIZATION = """
resources: [manifests.yaml]
patches:
- path: patch.yml
  target: {kind: Hooks, name: hooks}
"""


def _component(folder: Path, patch: str, target: str = "name: hooks") -> Path:
    (folder / "manifests.yaml").write_text(_WEBHOOKS)
    (folder / "kustomization.yaml").write_text(_KUSTOMIZATION.replace("name: hooks", target))
    (folder / "patch.yml").write_text(patch)
    return folder


def test_patches_are_applied_and_what_belongs_to_a_cluster_is_left_out(tmp_path: Path) -> None:
    folder = _component(tmp_path, "- {op: replace, path: /webhooks/1, value: {name: patched}}")
    target = tmp_path / "out.json"
    write_manifests([folder], target)
    (hooks,) = json.loads(target.read_text())
    assert hooks["webhooks"] == [{"name": "first"}, {"name": "patched"}]


@pytest.mark.parametrize(
    ("patch", "target"),
    [
        ("- {op: add, path: /webhooks/1, value: {}}", "name: hooks"),
        ("- {op: replace, path: /webhooks/1, value: {}}", "name: others"),
    ],
)
def test_a_patch_that_is_not_understood_is_refused(tmp_path: Path, patch: str, target: str) -> None:
    with pytest.raises(SandboxError, match=r"patch\.yml"):
        read_folder(_component(tmp_path, patch, target))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no Kubernetes objects"):
        write_manifests([tmp_path], tmp_path / "out.json")
