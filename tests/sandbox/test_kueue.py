"""Kueue's certificates, configuration and objects in the sandbox, without starting it."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from encamp.plan.environment.charts import read_chart
from encamp_sandbox.kueue import issue_kueue_certificates, kueue_objects, kueue_service
from encamp_sandbox.layout import Layout
from encamp_sandbox.services import later_services

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout.create(tmp_path / "sandbox")


def test_it_runs_only_where_somebody_asked(layout: Layout) -> None:
    assert later_services(layout) == []
    layout.queues_mark.touch()
    assert [service.name for service in later_services(layout)] == ["kueue"]


def test_certificates_are_those_that_kueue_would_keep(layout: Layout) -> None:
    issue_kueue_certificates(layout)
    folder = layout.pki / "kueue-webhook"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    authority, server = (x509.load_pem_x509_certificate(before[name]) for name in ("ca.crt", "tls.crt"))
    server.verify_directly_issued_by(authority)
    named = authority.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert named.get_values_for_type(x509.DNSName) == ["kueue-ca"]
    served = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "kueue-webhook-service.kueue-system.svc" in served.get_values_for_type(x509.DNSName)
    for name in ("ca.key", "tls.key"):
        assert before[name].startswith(b"-----BEGIN RSA PRIVATE KEY-----")
        serialization.load_pem_private_key(before[name], None)
    issue_kueue_certificates(layout)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_webhooks_and_conversions_are_asked_on_this_machine(layout: Layout) -> None:
    objects = kueue_objects(layout)
    assert [item["kind"] for item in objects[:2]] == ["Namespace", "Secret"]
    kept = [item for item in read_chart("kueue")["objects"] if item["kind"].endswith(("Definition", "Configuration"))]
    assert len(objects) == 2 + len(kept)
    authority = base64.b64encode((layout.pki / "kueue-webhook" / "ca.crt").read_bytes()).decode()
    assert objects[1]["data"]["ca.crt"] == authority
    conversions = [item["spec"]["conversion"] for item in objects if item.get("spec", {}).get("conversion")]
    asked = [each["webhook"]["clientConfig"] for each in conversions]
    assert [set(client) for client in asked] == [{"url", "caBundle"}] * 5
    hooks = [hook["clientConfig"] for item in objects for hook in item.get("webhooks", ())]
    assert len(hooks) == 9
    address = f"https://127.0.0.1:{layout.ports.kueue_webhook}/"
    assert all(client["url"].startswith(address) and "service" not in client for client in (*hooks, *asked))
    assert {client["caBundle"] for client in (*hooks, *asked)} == {authority}


def test_it_is_configured_as_its_chart_says_but_for_addresses(layout: Layout) -> None:
    service = kueue_service(layout)
    config = json.loads((layout.run / "kueue.json").read_text())
    assert config["integrations"] == {"frameworks": ["jobset.x-k8s.io/jobset"]}
    assert config["resources"] == {"excludeResourcePrefixes": ["ephemeral-storage"]}
    assert config["leaderElection"] == {"leaderElect": False}
    assert config["webhook"]["port"] == layout.ports.kueue_webhook
    assert {probe.port for probe in service.probes} == {layout.ports.kueue_webhook}
