from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp.cloud.kubeconfig import load
from encamp_sandbox.access import AUTH_PLUGIN
from encamp_sandbox.kubernetes.own_cluster import OwnCluster
from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.provider import Configuration, ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def own(tmp_path: Path) -> OwnCluster:
    return OwnCluster(frozenset((7001, 7002)), b"CA\n", tmp_path / AUTH_PLUGIN)


def given(server: str = "https://127.0.0.1:7001", **changed: Any) -> dict[str, Any]:
    """A kubeconfig as an environment of the sandbox gives it, but for what is changed."""
    cluster = {"server": server, "certificate-authority-data": _encoded("CA"), **changed.pop("cluster", {})}
    plugin = {"apiVersion": V1, "command": AUTH_PLUGIN, "interactiveMode": "Never", **changed}
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }


@pytest.mark.parametrize("server", ["https://127.0.0.1:7001", "https://localhost:7002"])
def test_the_sandboxs_own_cluster_is_taken_and_its_own_plugin_run(tmp_path: Path, server: str) -> None:
    access = own(tmp_path).checked(load(json.dumps(given(server)), None, None))
    assert access.plugin is not None
    assert access.plugin.command == str(tmp_path / AUTH_PLUGIN)


@pytest.mark.parametrize(
    ("kubeconfig", "refusal"),
    [
        (given("https://127.0.0.1:6443"), "another cluster"),
        (given("https://127.0.0.1.example.com:7001"), "another cluster"),
        (given("http://127.0.0.1:7001"), "another cluster"),
        (given(cluster={"certificate-authority-data": _encoded("OTHER")}), "another certificate authority"),
        (given(cluster={"insecure-skip-tls-verify": True}), "does not check who answers"),
        (given(cluster={"tls-server-name": "example.com"}), "does not check who answers"),
        (given(command="/bin/sh"), "another program"),
        (given(command=f"./{AUTH_PLUGIN}"), "another program"),
        (given(command=f"/tmp/{AUTH_PLUGIN}"), "another program"),  # noqa: S108 - nothing is run
        (given(args=["-c", "id"]), "arguments or variables"),
        (given(env=[{"name": "LD_PRELOAD", "value": "/evil.so"}]), "arguments or variables"),
    ],
)
def test_other_kubeconfigs_are_refused(tmp_path: Path, kubeconfig: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ProviderError, match=refusal):
        own(tmp_path).checked(load(json.dumps(kubeconfig), None, None))


def test_the_provider_runs_no_program_of_a_foreign_kubeconfig(tmp_path: Path) -> None:
    """The attack: whoever asks for a namespace has a shell of the sandbox's owner."""
    shell = given(command="sh", args=["-c", f"echo pwned > {tmp_path}/proof"])

    async def work() -> None:
        session = await KubernetesProvider(own(tmp_path)).configure(Configuration({"kubeconfig": json.dumps(shell)}))
        state = ResourceState("x/y", {"apiVersion": "v1", "kind": "ConfigMap"}, {})
        try:
            await session.read(Resource("kubernetes:core/v1:ConfigMap", "urn", "x"), state)
        finally:
            await session.close()

    with pytest.raises(ProviderError, match="another program"):
        asyncio.run(work())
    assert not (tmp_path / "proof").exists()
