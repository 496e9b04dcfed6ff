"""What ``up`` decides before it starts anything."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from encamp.errors import SandboxError, UsageError
from encamp_sandbox.environment import variables
from encamp_sandbox.layout import Layout
from encamp_sandbox.lifecycle import supervisor_environment
from encamp_sandbox.providers import VARIABLES, check_running, wanted
from encamp_sandbox.services import service_names

if TYPE_CHECKING:
    from pathlib import Path

of_each_package = pytest.mark.parametrize("package", VARIABLES)


def _plugin(folder: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = folder / f"pulumi-resource-{package}"
    plugin.write_text("#!/bin/sh\n")
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "")


def test_only_our_kubernetes_provider_is_a_process_of_its_own() -> None:
    assert "kubernetes-provider" in service_names("ours")
    assert "kubernetes-provider" not in service_names("official")


@of_each_package
def test_the_official_plugin_is_used_if_it_is_on_the_path(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wanted(package) == "ours"
    _plugin(tmp_path, package, monkeypatch)
    assert wanted(package) == "official"
    monkeypatch.setenv(VARIABLES[package], "ours")
    assert wanted(package) == "ours"


@of_each_package
def test_asking_for_a_missing_plugin_is_an_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[package], "official")
    with pytest.raises(SandboxError, match=f"pulumi-resource-{package} is not on PATH"):
        wanted(package)


@of_each_package
def test_an_unknown_choice_is_an_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[package], "theirs")
    with pytest.raises(UsageError, match="ours or official"):
        wanted(package)


@of_each_package
def test_a_running_sandbox_keeps_its_providers(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Layout.create(tmp_path / "sb").config
    monkeypatch.setenv(VARIABLES[package], "ours")
    check_running(config)
    monkeypatch.setenv(VARIABLES[package], "official")
    with pytest.raises(UsageError, match=f"is up with the ours {package} provider"):
        check_running(config)


def test_the_official_gcp_plugin_is_led_to_the_sandbox(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path / "sb")
    ours = variables(layout)
    assert "gcp:" in ours["PULUMI_DEBUG_PROVIDERS"]
    assert not [name for name in ours if name.endswith("_CUSTOM_ENDPOINT")]
    layout.save(dataclasses.replace(layout.config, gcp_provider="official"))
    official = variables(Layout.open(layout.root))
    assert "gcp:" not in official["PULUMI_DEBUG_PROVIDERS"]
    endpoints = [value for name, value in official.items() if name.endswith("_CUSTOM_ENDPOINT")]
    assert endpoints
    assert all(one.startswith(f"http://127.0.0.1:{layout.ports.front}/") for one in endpoints)
    assert official["GOOGLE_OAUTH_ACCESS_TOKEN"] == layout.token


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
