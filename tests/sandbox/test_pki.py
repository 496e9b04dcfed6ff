from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from google.oauth2 import service_account

from encamp_sandbox.access import AUTH_PLUGIN, COMMAND, LANGUAGE_HOST, write_access
from encamp_sandbox.layout import Layout
from encamp_sandbox.pki import issue_certificates

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    made = Layout.create(tmp_path_factory.mktemp("sandbox"))
    issue_certificates(made)
    tool = tmp_path_factory.mktemp("tool") / "kubectl"
    tool.write_text("")
    tool.chmod(0o700)
    write_access(made, {"kubectl": tool}, path="")
    return made


def _certificate(layout: Layout, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((layout.pki / f"{name}.crt").read_bytes())


async def _serve_and_get(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server) as listening:
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        line = (await reader.readline()).decode().strip()
        writer.close()
        await writer.wait_closed()
    return line


@pytest.mark.parametrize(
    "name",
    ["storage.googleapis.com", "metadata.google.internal", "127.0.0.1", "localhost", "bucket.storage.googleapis.com"],
)
def test_a_client_that_trusts_the_bundle_trusts_the_front(layout: Layout, name: str) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(layout.pki / "front.crt", layout.pki / "front.key")
    client = ssl.create_default_context(cafile=layout.bundle)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    assert asyncio.run(_serve_and_get(server, client, name)) == "hello"


def test_the_machine_itself_does_not_trust_the_sandbox(layout: Layout) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(layout.pki / "front.crt", layout.pki / "front.key")
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_serve_and_get(server, ssl.create_default_context(), "storage.googleapis.com"))


def test_the_bundle_keeps_what_the_system_trusts(layout: Layout) -> None:
    certificates = layout.bundle.read_text().split("-----END CERTIFICATE-----")[:-1]
    assert x509.load_pem_x509_certificate(layout.bundle.read_bytes()) == _certificate(layout, "ca")
    assert len(certificates) == len(set(certificates))
    assert len(certificates) > ssl.create_default_context().cert_store_stats()["x509_ca"]


def test_users_and_groups_are_those_that_kubernetes_knows(layout: Layout) -> None:
    subjects = {name: _certificate(layout, name).subject.rfc4514_string() for name in ("scheduler", "admin")}
    assert subjects == {"scheduler": "CN=system:kube-scheduler", "admin": "CN=encamp-admin,O=system:masters"}


def test_every_secret_is_its_owners_alone(layout: Layout) -> None:
    files = [path for path in layout.root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in files if path.parent != layout.bin} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in files if path.parent == layout.bin} == {0o700}
    assert layout.root.stat().st_mode & 0o777 == 0o700


def test_issuing_again_changes_no_key_and_a_lost_certificate_comes_back(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path)
    issue_certificates(layout)
    before = {path: path.read_bytes() for path in layout.pki.rglob("*") if path.is_file()}
    lost = layout.pki / "front.crt"
    lost.write_text("broken")
    issue_certificates(layout)
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    assert changed == {lost, lost.with_suffix(".key")}
    _certificate(layout, "front").verify_directly_issued_by(_certificate(layout, "ca"))


def test_a_lost_authority_takes_every_certificate_with_it(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path)
    issue_certificates(layout)
    (layout.pki / "ca.key").unlink()
    issue_certificates(layout)
    for name in ("front", "etcd", "admin", "jobset-webhook/tls"):
        _certificate(layout, name).verify_directly_issued_by(_certificate(layout, "ca"))


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_the_auth_plugin_answers_in_the_version_it_is_asked_for(layout: Layout, version: str) -> None:
    asked = json.dumps({"kind": "ExecCredential", "apiVersion": f"client.authentication.k8s.io/{version}", "spec": {}})
    environment = {"PATH": os.defpath, "KUBERNETES_EXEC_INFO": asked.replace(": ", ":")}
    answer = json.loads(subprocess.check_output([str(layout.bin / AUTH_PLUGIN)], env=environment))
    assert answer["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert answer["status"] == {"token": layout.token}


def test_the_users_kubeconfig_holds_no_secret(layout: Layout) -> None:
    text = layout.kubeconfig.read_text()
    config: dict[str, Any] = yaml.safe_load(text)
    assert layout.token not in text
    assert "PRIVATE KEY" not in text
    assert config["users"][0]["user"]["exec"]["command"].endswith(AUTH_PLUGIN)
    assert config["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{layout.ports.apiserver}"


def test_google_auth_reads_the_key_file_and_signs_with_it(layout: Layout) -> None:
    credentials = service_account.Credentials.from_service_account_file(str(layout.google_credentials))
    assert credentials.project_id == layout.project
    key = serialization.load_pem_private_key(
        json.loads(layout.google_credentials.read_text())["private_key"].encode(), None
    )
    assert len(credentials.sign_bytes(b"x")) == 256
    assert key.public_key() is not None


def test_the_google_key_stays_and_its_token_address_follows_the_port(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path)
    issue_certificates(layout)
    write_access(layout, {}, path="")
    before = json.loads(layout.google_credentials.read_text())
    layout.save(type(layout.config)(ports=layout.ports.renewed(["front"]), token=layout.token))
    write_access(layout, {}, path="")
    after = json.loads(layout.google_credentials.read_text())
    assert after["private_key"] == before["private_key"]
    assert after["token_uri"] == f"http://127.0.0.1:{layout.ports.front}/token" != before["token_uri"]


def test_our_language_host_gives_way_to_an_official_one(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path / "sandbox")
    issue_certificates(layout)
    write_access(layout, {}, path="")
    assert (layout.bin / LANGUAGE_HOST).is_file()
    official = tmp_path / "official"
    official.mkdir()
    (official / LANGUAGE_HOST).write_text("#!/bin/sh\n")
    (official / LANGUAGE_HOST).chmod(0o755)
    write_access(layout, {}, path=str(official))
    assert not (layout.bin / LANGUAGE_HOST).exists()


def test_another_version_of_a_tool_replaces_the_one_that_is_there(layout: Layout, tmp_path: Path) -> None:
    newer = tmp_path / "kubectl"
    newer.write_text("newer")
    write_access(layout, {"kubectl": newer}, path="")
    assert (layout.bin / "kubectl").read_text() == "newer"


def test_the_command_comes_with_the_sandboxs_programs(layout: Layout) -> None:
    said = subprocess.check_output([str(layout.bin / COMMAND), "--version"], env={"PATH": "/usr/bin:/bin"}, text=True)
    assert said.startswith("encamp, version ")
