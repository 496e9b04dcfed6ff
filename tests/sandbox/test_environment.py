from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

import pytest

from encamp_sandbox.environment import variables
from encamp_sandbox.layout import Layout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    for name in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    return Layout.create(tmp_path)


def test_everything_that_a_program_needs_is_there(layout: Layout) -> None:
    values = variables(layout)
    front = f"http://127.0.0.1:{layout.ports.front}"
    assert values["ENCAMP_SANDBOX_DIR"] == str(layout.root)
    assert values["PULUMI_BACKEND_URL"] == f"file://{layout.root}/data/pulumi"
    assert values["PULUMI_CONFIG_PASSPHRASE"] == ""
    assert values["GOOGLE_CLOUD_PROJECT"] == "sandbox-encamp"
    assert values["API_ENDPOINT_OVERRIDE"] == front
    assert values["CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER"] == f"{front}/container/"
    assert values["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] == f"{front}/storage/v1/"
    assert values["CLOUDSDK_CORE_PROJECT"] == values["GOOGLE_CLOUD_PROJECT"]
    assert values["CLOUDSDK_CONFIG"] == str(layout.root / "gcloud")
    assert values["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(layout.access_token)
    assert values["BOTO_CONFIG"] == str(layout.root / "boto.cfg")
    assert values["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"] == str(layout.bundle)
    assert values["KUBECONFIG"] == str(layout.kubeconfig)
    ports = layout.ports
    assert values["PULUMI_DEBUG_PROVIDERS"] == f"gcp:{ports.gcp_provider},kubernetes:{ports.kubernetes_provider}"


def test_the_official_kubernetes_provider_is_left_to_the_engine(layout: Layout) -> None:
    layout.save(dataclasses.replace(layout.config, kubernetes_provider="official"))
    assert variables(layout)["PULUMI_DEBUG_PROVIDERS"] == f"gcp:{layout.ports.gcp_provider}"


def test_a_backend_of_the_users_own_stays_and_the_passphrase_is_the_committed_stacks(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "gs://state")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "theirs")
    values = variables(layout)
    assert (values["PULUMI_BACKEND_URL"], values["PULUMI_CONFIG_PASSPHRASE"]) == ("gs://state", "")


def test_the_sandboxs_programs_come_first_and_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    once = variables(layout)["PATH"]
    assert once == f"{layout.bin}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", once)
    assert variables(layout)["PATH"] == once
    assert os.environ["PATH"] == once
