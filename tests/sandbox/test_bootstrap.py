from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox.bootstrap import bootstrap_objects
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates

if TYPE_CHECKING:
    from pathlib import Path

_HOOK = {"name": "a.kb.io", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/mutate"}}}


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    path = tmp_path / "manifests.json"
    hooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "mutating"},
        "webhooks": [_HOOK],
    }
    kind = {
        "apiVersion": "v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things"},
        "status": {"stored": ["v1"]},
    }
    path.write_text(json.dumps([hooks, kind]))
    return path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout.create(tmp_path / "sandbox")
    issue_certificates(made)
    return made


def test_webhooks_are_called_on_this_machine(layout: Layout, manifests: Path) -> None:
    hooks, kind = bootstrap_objects(layout, manifests)
    config = hooks["webhooks"][0]["clientConfig"]
    assert config["url"] == f"https://127.0.0.1:{layout.ports.jobset_webhook}/mutate"
    assert base64.b64decode(config["caBundle"]) == layout.ca_certificate.read_bytes()
    assert "status" not in kind


def test_the_digest_changes_with_the_content_alone(layout: Layout, manifests: Path) -> None:
    def digests() -> list[str]:
        return [
            item["metadata"]["annotations"]["encamp.dev/applied-digest"]
            for item in bootstrap_objects(layout, manifests)
        ]

    before = digests()
    assert digests() == before
    layout.save(type(layout.config)(ports=layout.ports.renewed(["jobset_webhook"]), token=layout.token))
    hooks, kind = digests()
    assert hooks != before[0]
    assert kind == before[1]
