"""What ``up`` decides before it starts anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError, UsageError
from encamp.sandbox.layout import Layout
from encamp.sandbox.lifecycle import PROVIDER_VARIABLE, supervisor_environment, wanted_provider
from encamp.sandbox.services import service_names

if TYPE_CHECKING:
    from pathlib import Path


def _plugin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = folder / "pulumi-resource-kubernetes"
    plugin.write_text("#!/bin/sh\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROVIDER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")


def test_ours_serves_kubernetes_where_the_official_plugin_is_missing() -> None:
    assert wanted_provider() == "ours"
    assert "kubernetes-provider" in service_names("ours")


def test_the_official_plugin_is_taken_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _plugin(tmp_path, monkeypatch)
    assert wanted_provider() == "official"
    assert "kubernetes-provider" not in service_names("official")
    monkeypatch.setenv(PROVIDER_VARIABLE, "ours")
    assert wanted_provider() == "ours"


def test_asking_for_a_plugin_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVIDER_VARIABLE, "official")
    with pytest.raises(SandboxError, match="not on PATH"):
        wanted_provider()


def test_asking_for_nonsense_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVIDER_VARIABLE, "theirs")
    with pytest.raises(UsageError, match="ours or official"):
        wanted_provider()


def test_no_process_of_the_sandbox_learns_of_a_real_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout.create(tmp_path)
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "PULUMI_ACCESS_TOKEN", "CLOUDSDK_CORE_PROJECT"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("PIP_CERT", "kept")
    monkeypatch.setenv("PATH", f"{layout.bin}:/usr/bin")
    found = supervisor_environment(layout)
    assert "theirs" not in found.values()
    assert found["PIP_CERT"] == "kept"
    assert found["PATH"] == "/usr/bin"
    assert found["ENCAMP_SANDBOX_DIR"] == str(tmp_path)
