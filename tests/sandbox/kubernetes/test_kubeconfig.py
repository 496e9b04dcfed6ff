from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from encamp_sandbox.access import AUTH_PLUGIN
from encamp_sandbox.kubernetes.kubeconfig import ExecPlugin, ask, load
from encamp_sandbox.kubernetes.own_cluster import OwnCluster
from encamp_sandbox.kubernetes.provider import KubernetesProvider
from encamp_sandbox.provider import Configuration, ProviderError, Resource, ResourceState

if TYPE_CHECKING:
    from pathlib import Path

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(**user: Any) -> dict[str, Any]:
    return {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c1", "user": "u", "namespace": "ns"}},
            {"name": "two", "context": {"cluster": "c2"}},
        ],
        "clusters": [
            {"name": "c1", "cluster": {"server": "https://a/", "certificate-authority-data": _encoded("CA")}},
            {"name": "c2", "cluster": {"server": "https://b", "insecure-skip-tls-verify": True}},
        ],
        "users": [{"name": "u", "user": user}],
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_content_and_contexts() -> None:
    text = json.dumps(kubeconfig(token="t"))  # noqa: S106  no password
    one = load(text, None, None)
    assert (one.server, one.namespace, one.authority, one.credential.token) == ("https://a", "ns", b"CA", "t")
    two = load(text, "two", None)
    assert (two.server, two.insecure, two.credential.token) == ("https://b", True, None)
    assert load(text, "one", "c2").server == "https://b"


def test_a_path_and_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "c.crt").write_text("CERT")
    data = kubeconfig(**{"client-certificate": "c.crt", "client-key-data": _encoded("KEY")})
    path = tmp_path / "config"
    path.write_text(json.dumps(data))
    credential = load(str(path), None, None).credential
    assert (credential.certificate, credential.key) == (b"CERT", b"KEY")


def test_the_environment_names_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig()))
    monkeypatch.setenv("KUBECONFIG", f"{path}:other")
    assert load(None, None, None).server == "https://a"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-context": ""}, "no current context"),
        ({"current-context": "three"}, "no context named 'three'"),
        ({"clusters": []}, "no cluster named 'c1'"),
        ({"users": []}, "no user named 'u'"),
        ({"clusters": [{"name": "c1", "cluster": {}}]}, "has no server"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        load(json.dumps({**kubeconfig(), **change}), None, None)


@pytest.mark.parametrize(
    ("text", "message"), [("/no/such/file", "cannot be read"), ("a: [\n", "no YAML"), ("[]\n", "no map")]
)
def test_what_is_no_kubeconfig(text: str, message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        load(text, None, None)


def plugin(tmp_path: Path, script: str) -> ExecPlugin:
    command = tmp_path / "plugin"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o700)
    return ExecPlugin(str(command), ("arg",), {"SAID": "hello"}, V1, "install it")


def test_an_exec_plugin_gets_its_arguments_and_the_version(tmp_path: Path) -> None:
    script = (
        'echo "{\\"status\\": {\\"token\\": \\"$1 $SAID\\", \\"expirationTimestamp\\": \\"2030-01-01T00:00:00Z\\"}}"'
    )
    credential = asyncio.run(ask(plugin(tmp_path, f'case "$KUBERNETES_EXEC_INFO" in *{V1}*) {script};; esac')))
    assert credential.token == "arg hello"  # noqa: S105  no password
    assert credential.expires
    assert credential.expires.isoformat() == "2030-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("script", "message"), [("echo broken >&2; exit 3", "failed with 3: broken"), ("echo hi", "answered no Exec")]
)
def test_an_exec_plugin_that_fails(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(ProviderError, match=message):
        asyncio.run(ask(plugin(tmp_path, script)))


def test_an_exec_plugin_that_is_missing_says_how_to_get_it(tmp_path: Path) -> None:
    missing = ExecPlugin(str(tmp_path / "none"), (), {}, V1, "install it")
    with pytest.raises(ProviderError, match="install it"):
        asyncio.run(ask(missing))


def test_an_exec_plugin_of_an_old_version_is_refused() -> None:
    data = kubeconfig(exec={"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"})
    with pytest.raises(ProviderError, match="v1alpha1"):
        load(json.dumps(data), None, None)


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
